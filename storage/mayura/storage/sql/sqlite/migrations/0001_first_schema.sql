-- writable by: 1
-- The first schema.

-- name: store
-- One row that says what this store is, and which releases may write to it.
create table store (
  only_row integer primary key check (only_row = 1),
  schema_version integer not null,
  writable_by integer not null check (writable_by <= schema_version),
  store_id blob not null check (length(store_id) = 16),
  environment text,
  identity text check (identity is null or json_valid(identity)),
  created_at_us integer not null
) strict;

-- name: scopes
-- Whose runs these are, with the secret behind the scope's `once` digests (G16).
create table scopes (
  scope_id integer primary key,
  principal text not null,
  project text not null,
  once_key blob not null check (length(once_key) = 32),
  unique (principal, project)
) strict;

-- name: definitions
-- Whole manifests: enough to rebuild the graph of any run (G12).
create table definitions (
  definition_id integer primary key,
  digest blob not null unique check (length(digest) = 32),
  workflow_id text not null,
  version text not null,
  manifest blob not null
) strict;

-- name: policies
-- Whole policies; a run keeps the one it started with.
create table policies (
  policy_id integer primary key,
  digest blob not null unique check (length(digest) = 32),
  manifest blob not null
) strict;

-- name: runs
-- The skeleton of a run. Every write names the version it was decided on (G7).
create table runs (
  run_number integer primary key autoincrement,
  run_id blob not null unique check (length(run_id) = 16),
  scope_id integer not null references scopes,
  definition_id integer not null references definitions,
  policy_id integer not null references policies,
  key text not null,
  requested_by text,
  submission blob not null,
  salt blob,
  status text not null,
  version integer not null check (version >= 1),
  event_seq integer not null check (event_seq >= 1),
  chain blob not null check (length(chain) = 32),
  last_at_us integer not null,
  created_at_us integer not null,
  settled_at_us integer,
  settlement integer not null check (settlement >= 0),
  maximum_micros integer not null check (maximum_micros >= 0),
  spent_micros integer not null check (spent_micros >= 0),
  reserved_micros integer not null check (reserved_micros >= 0),
  overrun_micros integer not null check (overrun_micros >= 0),
  paused_at_us integer,
  cancelled integer not null check (cancelled in (0, 1)),
  result_code text,
  wake_at_us integer,
  claim_holder text,
  claim_fence integer not null default 0 check (claim_fence >= 0),
  claim_until_us integer,
  unique (scope_id, key),
  constraint runs_status_fits check (
    case status
    when 'running' then settled_at_us is null
    when 'waiting' then settled_at_us is null
    when 'paused' then settled_at_us is null and paused_at_us is not null
    when 'succeeded' then settled_at_us is not null
    when 'failed' then settled_at_us is not null
    when 'blocked' then settled_at_us is not null
    when 'cancelled' then settled_at_us is not null and cancelled
    when 'outcome_unknown' then settled_at_us is not null
    else false end),
  constraint runs_settled_sleeps check (settled_at_us is null or wake_at_us is null),
  constraint runs_within_budget check (spent_micros + reserved_micros <= maximum_micros)
) strict;

-- name: runs_due
-- What there is to do now, without a look at what waits or has ended.
create index runs_due on runs (scope_id, wake_at_us, run_id) where wake_at_us is not null;

-- name: steps
-- One row a step that anything was written about; the checks mirror the state machine.
create table steps (
  run_number integer not null,
  node text not null,
  status text not null,
  code text,
  cause text,
  acted text not null,
  output integer not null check (output in (0, 1)),
  dispatch_nonce blob check (length(dispatch_nonce) = 16),
  dispatched_at_us integer,
  settle_at_us integer,
  settle_epoch text,
  settle_wait_us integer check (settle_wait_us >= 0),
  timeout_ms integer check (timeout_ms >= 0),
  input_digest blob check (length(input_digest) = 32),
  fence integer,
  receipt text,
  contradiction text,
  released integer not null check (released in (0, 1)),
  reserved_micros integer not null check (reserved_micros >= 0),
  charged_micros integer not null check (charged_micros >= 0),
  detail text check (detail is null or json_valid(detail)),
  resolution text check (resolution = 'happened' or resolution = 'never'),
  primary key (run_number, node),
  constraint steps_status_fits check (
    case status
    when 'pending' then dispatch_nonce is null
    when 'waiting' then dispatch_nonce is null and detail is not null
    when 'dispatching' then dispatch_nonce is not null
    when 'succeeded' then dispatch_nonce is null
      or (released and (receipt is 'succeeded' or resolution is 'happened'))
    when 'failed' then acted = 'no' or contradiction is not null
    when 'blocked' then true
    when 'unknown' then dispatch_nonce is not null and (
      acted = 'unknown' or receipt is 'succeeded' or receipt is 'failed'
      or receipt is 'not_started' or cause is 'cost_unknown' or cause is 'receipt_unconfirmed')
    when 'timed_out' then dispatch_nonce is null or receipt is 'not_started'
    when 'skipped' then dispatch_nonce is null or receipt is 'not_started'
    when 'bypassed' then dispatch_nonce is null or receipt is 'not_started'
    else false end),
  constraint steps_evidence_fits check (
    case receipt
    when 'succeeded' then acted <> 'unknown' or contradiction is not null
      or resolution is not null
    when 'failed' then true
    when 'not_started' then acted = 'no' or contradiction is not null
      or resolution is not null
    when 'unknown' then true
    else receipt is null end),
  constraint steps_acted_is_a_word check (acted = 'no' or acted = 'yes' or acted = 'unknown'),
  constraint steps_evidence_is_of_a_dispatch check (
    dispatch_nonce is not null or (receipt is null and acted = 'no' and reserved_micros = 0
      and resolution is null)),
  constraint steps_dispatch_is_whole check (
    case when dispatch_nonce is null
    then coalesce(dispatched_at_us, settle_at_us, settle_epoch, settle_wait_us,
      timeout_ms, input_digest, fence) is null
    else dispatched_at_us is not null and settle_at_us is not null and settle_epoch is not null
      and settle_wait_us is not null and timeout_ms is not null and input_digest is not null
      and fence is not null
    end),
  constraint steps_contradiction_is_of_known check (
    contradiction is null
    or (contradiction is not receipt and receipt is not null and receipt <> 'unknown'
      and (contradiction = 'succeeded' or contradiction = 'failed'
        or contradiction = 'not_started')))
) strict;

-- name: dispatches
-- That a call was begun: one row a run and node, ever (G1).
create table dispatches (
  run_number integer not null,
  node text not null,
  nonce blob not null check (length(nonce) = 16),
  at_us integer not null,
  primary key (run_number, node)
) strict, without rowid;

-- name: dispatches_never_change
-- A dispatch record is a fact.
create trigger dispatches_never_change before update on dispatches
begin
  select raise(abort, 'dispatches is append-only');
end;

-- name: dispatches_stay
-- A dispatch record goes when its run is pruned, and not before.
create trigger dispatches_stay before delete on dispatches
when exists (select 1 from runs where run_number = old.run_number)
begin
  select raise(abort, 'dispatches is append-only');
end;

-- name: payloads
-- Inputs, outputs, answers, signals and reasons, apart from the skeleton, behind a codec.
create table payloads (
  run_number integer not null,
  name text not null,
  codec text not null,
  key_id text not null,
  body blob not null,
  primary key (run_number, name)
) strict;

-- name: once
-- Which call holds a subject that may be dispatched once; kept when its run is pruned (G16).
create table once (
  scope_id integer not null references scopes,
  digest blob not null check (length(digest) = 32),
  run_id blob not null,
  node text not null,
  released integer not null check (released in (0, 1)),
  primary key (scope_id, digest)
) strict, without rowid;

-- name: commands
-- Commands that were carried out; repeated under its id, a command changes nothing.
create table commands (
  run_number integer not null,
  command_id text not null,
  digest blob not null,
  version integer not null,
  primary key (run_number, command_id)
) strict, without rowid;

-- name: journal
-- One row a committed transition: its events, and the nonce by which an unsure writer finds it.
create table journal (
  run_number integer not null,
  version integer not null,
  first_seq integer not null,
  at_us integer not null,
  nonce blob not null check (length(nonce) = 16),
  entries blob not null,
  chain blob not null check (length(chain) = 32),
  primary key (run_number, version)
) strict;

-- name: journal_never_changes
-- What happened is not rewritten.
create trigger journal_never_changes before update on journal
begin
  select raise(abort, 'journal is append-only');
end;

-- name: journal_stays
-- A journal goes when its run is pruned, and not before.
create trigger journal_stays before delete on journal
when exists (select 1 from runs where run_number = old.run_number)
begin
  select raise(abort, 'journal is append-only');
end;
