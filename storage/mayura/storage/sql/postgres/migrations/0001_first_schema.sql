-- writable by: 1
-- The first schema.

-- name: store
-- One row that says what this store is, and which releases may write to it.
create table store (
  only_row boolean primary key check (only_row),
  schema_version integer not null,
  writable_by integer not null check (writable_by <= schema_version),
  store_id uuid not null,
  environment text,
  identity jsonb,
  created_at_us bigint not null
);

-- name: scopes
-- Whose runs these are, with the secret behind the scope's `once` digests (G16).
create table scopes (
  scope_id integer generated always as identity primary key,
  principal text not null,
  project text not null,
  once_key bytea not null check (octet_length(once_key) = 32),
  unique (principal, project)
);

-- name: definitions
-- Whole manifests: enough to rebuild the graph of any run (G12).
create table definitions (
  definition_id integer generated always as identity primary key,
  digest bytea not null unique check (octet_length(digest) = 32),
  workflow_id text not null,
  version text not null,
  manifest bytea not null
);

-- name: policies
-- Whole policies; a run keeps the one it started with.
create table policies (
  policy_id integer generated always as identity primary key,
  digest bytea not null unique check (octet_length(digest) = 32),
  manifest bytea not null
);

-- name: refuse_change
-- What the triggers below say of a row that stays as it is.
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end
$$;

-- name: refuse_delete_while_run_is_there
-- What goes with its run when that is pruned, and not before.
create function refuse_delete_while_run_is_there() returns trigger language plpgsql as $$
begin
  if exists (select from runs where run_number = old.run_number) then
    raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
  end if;
  return old;
end
$$;

-- name: scopes_stay
-- Runs point at their scope, definition and policy. Triggers keep these there and no foreign keys
-- do, which would lock and rewrite the shared row at every submission.
create trigger scopes_stay before update or delete on scopes
  for each row execute function refuse_change();

-- name: definitions_stay
-- A stored manifest is never changed under the runs that follow it (G12).
create trigger definitions_stay before update or delete on definitions
  for each row execute function refuse_change();

-- name: policies_stay
-- Nor is a policy.
create trigger policies_stay before update or delete on policies
  for each row execute function refuse_change();

-- name: runs
-- The skeleton of a run. Every write names the version it was decided on (G7). The pages are left
-- half empty: a transition then changes its row in place, without touching an index. Ids are
-- random and numbers are not: under its number, what is written about the runs of a moment lies
-- together in each index, and a commit of many touches few pages.
create table runs (
  run_number bigint generated always as identity primary key,
  run_id uuid not null unique,
  scope_id integer not null,
  definition_id integer not null,
  policy_id integer not null,
  key text not null,
  requested_by text,
  submission bytea not null,
  salt bytea,
  status text not null,
  version bigint not null check (version >= 1),
  event_seq bigint not null check (event_seq >= 1),
  chain bytea not null check (octet_length(chain) = 32),
  last_at_us bigint not null,
  created_at_us bigint not null,
  settled_at_us bigint,
  settlement bigint not null check (settlement >= 0),
  maximum_micros bigint not null check (maximum_micros >= 0),
  spent_micros bigint not null check (spent_micros >= 0),
  reserved_micros bigint not null check (reserved_micros >= 0),
  overrun_micros bigint not null check (overrun_micros >= 0),
  paused_at_us bigint,
  cancelled boolean not null,
  result_code text,
  wake_at_us bigint,
  claim_holder text,
  claim_fence bigint not null default 0 check (claim_fence >= 0),
  claim_until_us bigint,
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
) with (fillfactor = 50);

-- name: runs_due
-- What there is to do now, without a look at what waits or has ended.
create index runs_due on runs (scope_id, wake_at_us, run_id) where wake_at_us is not null;

-- name: step_fits
-- Whether what a step's row says can be true: it mirrors the state machine. A function and not a
-- row of checks, because the server reads the text of every check anew for every statement, which
-- cost more than the rows themselves.
create function step_fits(
  status text, cause text, acted text, dispatch_nonce uuid, dispatch_parts integer,
  receipt text, contradiction text, released boolean, reserved_micros bigint,
  charged_micros bigint, settle_wait_us bigint, timeout_ms bigint, input_digest bytea,
  detail text, resolution text
) returns boolean language plpgsql immutable as $$
begin
  return
    case status
    when 'pending' then dispatch_nonce is null
    when 'waiting' then dispatch_nonce is null and detail is not null
    when 'dispatching' then dispatch_nonce is not null
    when 'succeeded' then dispatch_nonce is null
      or (released and (receipt is not distinct from 'succeeded'
        or resolution is not distinct from 'happened'))
    when 'failed' then acted = 'no' or contradiction is not null
    when 'blocked' then true
    when 'unknown' then dispatch_nonce is not null and (
      acted = 'unknown' or coalesce(receipt, 'unknown') <> 'unknown'
      or coalesce(cause, '') in ('cost_unknown', 'receipt_unconfirmed'))
    when 'timed_out' then dispatch_nonce is null or receipt is not distinct from 'not_started'
    when 'skipped' then dispatch_nonce is null or receipt is not distinct from 'not_started'
    when 'bypassed' then dispatch_nonce is null or receipt is not distinct from 'not_started'
    else false end
    and case receipt
    when 'succeeded' then acted <> 'unknown' or contradiction is not null
      or resolution is not null
    when 'failed' then true
    when 'not_started' then acted = 'no' or contradiction is not null
      or resolution is not null
    when 'unknown' then true
    else receipt is null end
    and acted in ('no', 'yes', 'unknown')
    and (dispatch_nonce is not null or (receipt is null and acted = 'no' and reserved_micros = 0))
    and dispatch_parts = case when dispatch_nonce is null then 0 else 8 end
    and (contradiction is null
      or (contradiction in ('succeeded', 'failed', 'not_started')
        and receipt is not null and receipt <> 'unknown' and receipt <> contradiction))
    and (resolution is null
      or (resolution in ('happened', 'never') and dispatch_nonce is not null))
    and reserved_micros >= 0 and charged_micros >= 0
    and coalesce(settle_wait_us, 0) >= 0 and coalesce(timeout_ms, 0) >= 0
    and (input_digest is null or octet_length(input_digest) = 32)
    and (detail is null or jsonb_typeof(detail::jsonb) = 'object');
end
$$;

-- name: steps
-- One row a step that anything was written about; the checks mirror the state machine. Half-empty
-- pages as for runs: a step is written about three times.
create table steps (
  run_number bigint not null,
  node text not null,
  status text not null,
  code text,
  cause text,
  acted text not null,
  output boolean not null,
  dispatch_nonce uuid,
  dispatched_at_us bigint,
  settle_at_us bigint,
  settle_epoch text,
  settle_wait_us bigint,
  timeout_ms bigint,
  input_digest bytea,
  fence bigint,
  receipt text,
  contradiction text,
  released boolean not null,
  reserved_micros bigint not null,
  charged_micros bigint not null,
  detail text,
  resolution text,
  primary key (run_number, node),
  constraint steps_fit check (step_fits(
    status, cause, acted, dispatch_nonce,
    num_nonnulls(dispatch_nonce, dispatched_at_us, settle_at_us, settle_epoch, settle_wait_us,
      timeout_ms, input_digest, fence),
    receipt, contradiction, released, reserved_micros, charged_micros, settle_wait_us, timeout_ms,
    input_digest, detail, resolution))
) with (fillfactor = 50);

-- name: dispatches
-- That a call was begun: one row a run and node, ever (G1).
create table dispatches (
  run_number bigint not null,
  node text not null,
  nonce uuid not null,
  at_us bigint not null,
  primary key (run_number, node)
);

-- name: dispatches_never_change
-- A dispatch record is a fact.
create trigger dispatches_never_change before update on dispatches
  for each row execute function refuse_change();

-- name: dispatches_stay
-- A dispatch record goes when its run is pruned, and not before.
create trigger dispatches_stay before delete on dispatches
  for each row execute function refuse_delete_while_run_is_there();

-- name: payloads
-- Inputs, outputs, answers, signals and reasons, apart from the skeleton, behind a codec.
create table payloads (
  run_number bigint not null,
  name text not null,
  codec text not null,
  key_id text not null,
  body bytea not null,
  primary key (run_number, name)
);

-- name: once
-- Which call holds a subject that may be dispatched once; kept when its run is pruned (G16).
create table once (
  scope_id integer not null,
  digest bytea not null check (octet_length(digest) = 32),
  run_id uuid not null,
  node text not null,
  released boolean not null,
  primary key (scope_id, digest)
);

-- name: commands
-- Commands that were carried out; repeated under its id, a command changes nothing.
create table commands (
  run_number bigint not null,
  command_id text not null,
  digest bytea not null,
  version bigint not null,
  primary key (run_number, command_id)
);

-- name: journal
-- One row a committed transition: its events, and the nonce by which an unsure writer finds it.
create table journal (
  run_number bigint not null,
  version bigint not null,
  first_seq bigint not null,
  at_us bigint not null,
  nonce uuid not null,
  entries bytea not null,
  chain bytea not null check (octet_length(chain) = 32),
  primary key (run_number, version)
);

-- name: journal_never_changes
-- What happened is not rewritten.
create trigger journal_never_changes before update on journal
  for each row execute function refuse_change();

-- name: journal_stays
-- A journal goes when its run is pruned, and not before.
create trigger journal_stays before delete on journal
  for each row execute function refuse_delete_while_run_is_there();

-- name: run_write
-- One transition of a run on its way here; `fence` is null where it is no condition. A release that
-- sends other columns brings a type of another name, and this one stays while older releases write.
create type run_write as (
  run_id uuid, fence bigint, nonce uuid, entries bytea, command_id text, command_digest bytea,
  status text, version bigint, event_seq bigint, chain bytea, settled_at_us bigint,
  settlement bigint, maximum_micros bigint, spent_micros bigint, reserved_micros bigint,
  overrun_micros bigint, paused_at_us bigint, cancelled boolean, result_code text, wake_at_us bigint
);

-- name: step_write
-- One step of the write at a place; a step that begins gets its times when it is committed.
create type step_write as (
  place bigint, begins boolean, node text, status text, code text, cause text, acted text,
  output boolean, dispatch_nonce uuid, dispatched_at_us bigint, settle_at_us bigint,
  settle_epoch text, settle_wait_us bigint, timeout_ms bigint, input_digest bytea, fence bigint,
  receipt text, contradiction text, released boolean, reserved_micros bigint,
  charged_micros bigint, detail text, resolution text
);

-- name: payload_write
-- One payload of the write at a place.
create type payload_write as (place bigint, name text, codec text, key_id text, body bytea);

-- name: subject_write
-- One `once` subject that the write at a place takes for a node or, without a node, releases.
create type subject_write as (place bigint, digest bytea, node text);

-- name: submission
-- One submission on its way here.
create type submission as (
  run_id uuid, key text, requested_by text, submission bytea, salt bytea, definition bytea,
  policy bytea, nonce uuid, entries bytea, codec text, key_id text, body bytea, status text,
  version bigint, event_seq bigint, chain bytea, settled_at_us bigint, settlement bigint,
  maximum_micros bigint, spent_micros bigint, reserved_micros bigint, overrun_micros bigint,
  paused_at_us bigint, cancelled boolean, result_code text, wake_at_us bigint
);
