-- What is asked about runs. Every statement is confined to one scope, which is compared in a form
-- that no index answers: a run is looked up by its id, whatever the planner believes of scopes.

-- name: read_now
-- The database's time: the store's clock.
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: read_run
-- A run's row, its digests in place of their numbers, the time, and a step: one row for each, the
-- run's columns in all of them, and no step in the one row of a run without any.
select r.key, d.digest, p.digest, r.requested_by, r.salt, r.status, r.version, r.event_seq,
  r.chain, r.last_at_us, r.created_at_us, r.settled_at_us, r.settlement, r.maximum_micros,
  r.spent_micros, r.reserved_micros, r.overrun_micros, r.paused_at_us, r.cancelled, r.result_code,
  r.wake_at_us, r.claim_fence,
  (extract(epoch from clock_timestamp()) * 1000000)::bigint,
  s.node, s.status, s.code, s.cause, s.acted, s.output, uuid_send(s.dispatch_nonce),
  s.dispatched_at_us, s.settle_at_us, s.settle_epoch, s.settle_wait_us, s.timeout_ms,
  s.input_digest, s.fence, s.receipt, s.contradiction, s.released, s.reserved_micros,
  s.charged_micros, s.detail, s.resolution
from runs r
join definitions d using (definition_id)
join policies p using (policy_id)
left join steps s using (run_number)
where r.run_id = $2 and r.scope_id is not distinct from $1;

-- name: read_last_checks
-- Everything the last check compares, for many calls in one look (G3). Each look-up is one by a
-- whole key (`limit` keeps the planner from joining otherwise, as it would while tables are empty).
select r.run_number is not null, s.dispatch_nonce, s.input_digest, p.digest, r.cancelled,
  r.settled_at_us is null
from unnest($2::uuid[], $3::text[]) with ordinality call (run_id, node, place)
left join lateral (
  select run_number, policy_id, cancelled, settled_at_us from runs
  where run_id = call.run_id and scope_id is not distinct from $1 limit 1
) r on true
left join policies p using (policy_id)
left join lateral (
  select uuid_send(dispatch_nonce) as dispatch_nonce, input_digest from steps
  where run_number = r.run_number and node = call.node and status = 'dispatching' limit 1
) s on true
order by call.place;

-- name: read_journal
-- A run's transitions after a version, in order, until a number of bytes is reached.
select version, first_seq, at_us, uuid_send(nonce), entries, chain
from (
  select j.version, j.first_seq, j.at_us, j.nonce, j.entries, j.chain,
    sum(octet_length(j.entries)) over (order by j.version) as bytes,
    row_number() over (order by j.version) as place
  from runs r join journal j using (run_number)
  where r.run_id = $2 and r.scope_id is not distinct from $1 and j.version > $3
  order by j.version limit 1000
) page
where bytes <= $4 or place = 1
order by version;

-- name: read_payloads
-- Payloads by name, with what is needed to decode them.
select y.name, y.codec, y.key_id, y.body from runs r join payloads y using (run_number)
where r.run_id = $2 and r.scope_id is not distinct from $1 and y.name = any($3::text[]);

-- name: read_command
-- The digest under a command id.
select c.digest from runs r join commands c using (run_number)
where r.run_id = $2 and r.scope_id is not distinct from $1 and c.command_id = $3;

-- name: read_once_holder
-- The call that holds a subject.
select uuid_send(run_id), node from once where scope_id = $1 and digest = $2 and not released;

-- name: read_due
-- What has something to do now, after a place in (wake time, run id) order.
select uuid_send(r.run_id), d.digest, p.digest, r.wake_at_us
from runs r join definitions d using (definition_id) join policies p using (policy_id)
where r.scope_id = $1 and r.wake_at_us is not null
  and r.wake_at_us <= (extract(epoch from statement_timestamp()) * 1000000)::bigint
  and (r.wake_at_us, r.run_id) > ($3, $4)
order by r.wake_at_us, r.run_id limit $2;

-- name: read_cancelled
-- Those of some runs that were cancelled.
select uuid_send(r.run_id) from unnest($2::uuid[]) asked (run_id) join runs r using (run_id)
where r.scope_id is not distinct from $1 and r.cancelled;
