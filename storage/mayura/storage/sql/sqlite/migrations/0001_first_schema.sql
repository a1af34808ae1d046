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
  run_id blob primary key check (length(run_id) = 16),
  scope_id integer not null references scopes,
  definition_id integer not null references definitions,
  policy_id integer not null references policies,
  key text not null,
  requested_by text,
  submission blob not null,
  salt blob,
  status text not null check (status in (
    'running', 'waiting', 'paused',
    'succeeded', 'failed', 'blocked', 'cancelled', 'outcome_unknown')),
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
  constraint runs_settled_has_time
    check ((status in ('running', 'waiting', 'paused')) = (settled_at_us is null)),
  constraint runs_settled_sleeps check (settled_at_us is null or wake_at_us is null),
  constraint runs_within_budget check (spent_micros + reserved_micros <= maximum_micros),
  constraint runs_paused_has_time check (status <> 'paused' or paused_at_us is not null),
  constraint runs_cancelled_was_asked check (status <> 'cancelled' or cancelled)
) strict, without rowid;

-- name: runs_due
-- What there is to do now, without a look at what waits or has ended.
create index runs_due on runs (scope_id, wake_at_us, run_id) where wake_at_us is not null;

-- name: steps
-- One row a step that anything was written about; the checks mirror the state machine.
create table steps (
  run_id blob not null,
  node text not null,
  status text not null check (status in (
    'pending', 'waiting', 'dispatching', 'succeeded', 'failed',
    'blocked', 'unknown', 'timed_out', 'skipped', 'bypassed')),
  code text,
  cause text,
  acted text not null check (acted in ('no', 'yes', 'unknown')),
  output integer not null check (output in (0, 1)),
  dispatch_nonce blob check (length(dispatch_nonce) = 16),
  dispatched_at_us integer,
  settle_at_us integer,
  settle_epoch text,
  settle_wait_us integer check (settle_wait_us >= 0),
  timeout_ms integer check (timeout_ms >= 0),
  input_digest blob check (length(input_digest) = 32),
  fence integer,
  receipt text check (receipt in ('succeeded', 'failed', 'not_started', 'unknown')),
  contradiction text check (contradiction in ('succeeded', 'failed', 'not_started')),
  released integer not null check (released in (0, 1)),
  reserved_micros integer not null check (reserved_micros >= 0),
  charged_micros integer not null check (charged_micros >= 0),
  detail text check (detail is null or json_valid(detail)),
  primary key (run_id, node),
  constraint steps_dispatch_is_whole check (
    case when dispatch_nonce is null
    then coalesce(dispatched_at_us, settle_at_us, settle_epoch, settle_wait_us,
      timeout_ms, input_digest, fence) is null
    else dispatched_at_us is not null and settle_at_us is not null and settle_epoch is not null
      and settle_wait_us is not null and timeout_ms is not null and input_digest is not null
      and fence is not null
    end),
  constraint steps_begun_was_dispatched check (
    status not in ('dispatching', 'unknown') or dispatch_nonce is not null),
  constraint steps_unbegun_was_not check (
    status not in ('pending', 'waiting') or dispatch_nonce is null),
  constraint steps_waiting_says_for_what check (status <> 'waiting' or detail is not null),
  constraint steps_evidence_is_of_a_dispatch check (
    dispatch_nonce is not null or (receipt is null and acted = 'no' and reserved_micros = 0)),
  constraint steps_contradiction_is_of_known check (
    contradiction is null
    or (receipt is not null and receipt <> 'unknown' and receipt <> contradiction)),
  constraint steps_success_has_evidence check (
    status <> 'succeeded' or dispatch_nonce is null
    or (receipt is not null and receipt = 'succeeded' and released)),
  constraint steps_unacted_end_has_evidence check (
    status not in ('skipped', 'bypassed', 'timed_out') or dispatch_nonce is null
    or (receipt is not null and receipt = 'not_started')),
  constraint steps_failure_is_certain check (status <> 'failed' or acted = 'no'),
  constraint steps_unknown_says_why check (
    status <> 'unknown' or acted = 'unknown' or (receipt is not null and receipt <> 'unknown')
    or (cause is not null and cause in ('cost_unknown', 'receipt_unconfirmed'))),
  constraint steps_success_is_known check (
    receipt is null or receipt <> 'succeeded' or acted <> 'unknown')
) strict, without rowid;

-- name: dispatches
-- That a call was begun: one row a run and node, ever (G1).
create table dispatches (
  run_id blob not null,
  node text not null,
  nonce blob not null check (length(nonce) = 16),
  at_us integer not null,
  primary key (run_id, node)
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
when exists (select 1 from runs where run_id = old.run_id)
begin
  select raise(abort, 'dispatches is append-only');
end;

-- name: payloads
-- Inputs, outputs, answers, signals and reasons, apart from the skeleton, behind a codec.
create table payloads (
  run_id blob not null,
  name text not null,
  codec text not null,
  key_id text not null,
  body blob not null,
  primary key (run_id, name)
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
  run_id blob not null,
  command_id text not null,
  digest blob not null,
  version integer not null,
  primary key (run_id, command_id)
) strict, without rowid;

-- name: journal
-- One row a committed transition: its events, and the nonce by which an unsure writer finds it.
create table journal (
  run_id blob not null,
  version integer not null,
  first_seq integer not null,
  at_us integer not null,
  nonce blob not null check (length(nonce) = 16),
  entries blob not null,
  chain blob not null check (length(chain) = 32),
  primary key (run_id, version)
) strict, without rowid;

-- name: journal_never_changes
-- What happened is not rewritten.
create trigger journal_never_changes before update on journal
begin
  select raise(abort, 'journal is append-only');
end;

-- name: journal_stays
-- A journal goes when its run is pruned, and not before.
create trigger journal_stays before delete on journal
when exists (select 1 from runs where run_id = old.run_id)
begin
  select raise(abort, 'journal is append-only');
end;
