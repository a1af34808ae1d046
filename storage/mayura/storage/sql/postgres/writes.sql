-- What changes runs. Each statement carries a batch and is a whole transaction: no lock is held
-- across a round trip, and it works behind a pooler. Rows travel as arrays of the types that the
-- schema names for them; `place` is a write's place in the batch, from 1.

-- name: write_runs_if_version
-- The compare-and-set of a batch of transitions. What decides, in this order: the run's own row,
-- locked in the order of run ids: its version and, for a dispatch, its fence and whether this
-- session keeps what it commits (G2, G7, G8); the command, which nobody could write since without
-- moving the version; the `once` subjects, in the order of their digests, by the arbiter of their
-- unique key (G16). Everything else follows the rows that the update returned. A run that somebody
-- has locked is skipped and answered busy. The clock is read once, after all waiting, since settle
-- deadlines count from it (G9).
with w as materialized (
  select w.*,
    w.fence is null or (
      current_setting('synchronous_commit') <> 'off' and current_setting('fsync') = 'on'
    ) as durable,
    w.command_id is not null and exists (
      select from commands c join runs r using (run_number)
      where r.run_id = w.run_id and c.command_id = w.command_id
    ) as commanded
  from unnest($2::run_write[]) with ordinality as w (
    run_id, fence, nonce, entries, command_id, command_digest, status, version, event_seq, chain,
    settled_at_us, settlement, maximum_micros, spent_micros, reserved_micros, overrun_micros,
    paused_at_us, cancelled, result_code, wake_at_us, place)
), locked as materialized (
  select w.*, r.run_number, r.event_seq + 1 as first_seq
  from w join runs r on r.run_id = w.run_id and r.version = w.version - 1
    and r.scope_id is not distinct from $1 and r.claim_fence = coalesce(w.fence, r.claim_fence)
  where w.durable and not w.commanded
  order by w.run_id for update of r skip locked
), subject as materialized (
  select s.digest, locked.place, locked.run_id, coalesce(s.node, held.node) as node,
    s.node is null as released
  from unnest($3::subject_write[]) s join locked using (place)
  left join once held on s.node is null
    and held.scope_id = $1 and held.digest = s.digest and held.run_id = locked.run_id
  where s.node is not null or held.node is not null
), settled_subject as (
  insert into once as held (scope_id, digest, run_id, node, released)
  select $1, digest, run_id, node, released from subject order by digest
  on conflict (scope_id, digest) do update
  set run_id = excluded.run_id, node = excluded.node, released = excluded.released
  where held.released <> excluded.released
    and (held.released or held.run_id = excluded.run_id)
  returning digest
), commit as materialized (
  select (extract(epoch from clock_timestamp()) * 1000000)::bigint as at_us
  from (select count(*) from locked) as waited_for_runs
  cross join (select count(*) from settled_subject) as waited_for_subjects
), won as (
  update runs r set
    status = w.status, version = w.version, event_seq = w.event_seq, chain = w.chain,
    last_at_us = commit.at_us, settled_at_us = w.settled_at_us, settlement = w.settlement,
    maximum_micros = w.maximum_micros, spent_micros = w.spent_micros,
    reserved_micros = w.reserved_micros, overrun_micros = w.overrun_micros,
    paused_at_us = w.paused_at_us, cancelled = w.cancelled, result_code = w.result_code,
    wake_at_us = w.wake_at_us
  from commit cross join locked w
  where r.run_number = w.run_number and not exists (
    select from subject
    where subject.place = w.place and not subject.released
      and subject.digest not in (select digest from settled_subject))
  returning w.place, r.run_number, r.version, r.chain, r.last_at_us as at_us, w.first_seq, w.nonce,
    w.entries, w.command_id, w.command_digest
), step as materialized (
  select won.run_number, won.at_us, s.*
  from unnest($4::step_write[]) s join won using (place)
), put_step as (
  insert into steps (
    run_number, node, status, code, cause, acted, output, dispatch_nonce, dispatched_at_us,
    settle_at_us, settle_epoch, settle_wait_us, timeout_ms, input_digest, fence, receipt,
    contradiction, released, reserved_micros, charged_micros, detail, resolution)
  select run_number, node, status, code, cause, acted, output, dispatch_nonce,
    case when begins then at_us else dispatched_at_us end,
    case when begins then at_us + settle_wait_us else settle_at_us end,
    case when begins then '' else settle_epoch end,
    settle_wait_us, timeout_ms, input_digest, fence, receipt, contradiction, released,
    reserved_micros, charged_micros, detail, resolution
  from step
  on conflict (run_number, node) do update set
    status = excluded.status, code = excluded.code, cause = excluded.cause,
    acted = excluded.acted, output = excluded.output, dispatch_nonce = excluded.dispatch_nonce,
    dispatched_at_us = excluded.dispatched_at_us, settle_at_us = excluded.settle_at_us,
    settle_epoch = excluded.settle_epoch, settle_wait_us = excluded.settle_wait_us,
    timeout_ms = excluded.timeout_ms, input_digest = excluded.input_digest,
    fence = excluded.fence, receipt = excluded.receipt, contradiction = excluded.contradiction,
    released = excluded.released, reserved_micros = excluded.reserved_micros,
    charged_micros = excluded.charged_micros, detail = excluded.detail,
    resolution = excluded.resolution
), insert_dispatch as (
  insert into dispatches (run_number, node, nonce, at_us)
  select run_number, node, dispatch_nonce, at_us from step where begins
), put_payload as (
  insert into payloads (run_number, name, codec, key_id, body)
  select won.run_number, y.name, y.codec, y.key_id, y.body
  from unnest($5::payload_write[]) y join won using (place)
  on conflict (run_number, name) do update set
    codec = excluded.codec, key_id = excluded.key_id, body = excluded.body
), insert_command as (
  insert into commands (run_number, command_id, digest, version)
  select run_number, command_id, command_digest, version from won where command_id is not null
), insert_journal as (
  insert into journal (run_number, version, first_seq, at_us, nonce, entries, chain)
  select run_number, version, first_seq, at_us, nonce, entries, chain from won
)
select
  case when won.place is not null then 'won' else coalesce((
    select case
      when exists (
        select from journal j
        where j.run_number = r.run_number and j.version = w.version and j.nonce = w.nonce
      ) then 'won before'
      when not w.durable then 'not_durable'
      when r.version <> w.version - 1 then 'lost'
      when r.claim_fence <> w.fence then 'fenced'
      when w.commanded then 'command'
      when w.place in (select place from locked) then 'once'
      else 'busy'
    end
    from runs r where r.run_id = w.run_id and r.scope_id is not distinct from $1
  ), 'lost') end,
  case when won.place is not null then won.at_us else (
    select j.at_us from runs r join journal j using (run_number)
    where r.run_id = w.run_id and r.scope_id is not distinct from $1
      and j.version = w.version and j.nonce = w.nonce
  ) end
from w left join won using (place)
order by w.place;

-- name: wait_for_run
-- Nothing, once nobody holds the run's row any more.
select from runs where run_id = $1 for share;

-- name: create_runs_if_new
-- A batch of submissions: each makes its run, unless its key has one or its definition or policy
-- is not stored. A run is due from the moment it is there.
with commit as materialized (
  select (extract(epoch from clock_timestamp()) * 1000000)::bigint as at_us
), n as materialized (
  select n.* from unnest($2::submission[]) with ordinality as n (
    run_id, key, requested_by, submission, salt, definition, policy, nonce, entries, codec, key_id,
    body, status, version, event_seq, chain, settled_at_us, settlement, maximum_micros,
    spent_micros, reserved_micros, overrun_micros, paused_at_us, cancelled, result_code,
    wake_at_us, place)
), made as (
  insert into runs (
    run_id, scope_id, definition_id, policy_id, key, requested_by, submission, salt, status,
    version, event_seq, chain, last_at_us, created_at_us, settled_at_us, settlement,
    maximum_micros, spent_micros, reserved_micros, overrun_micros, paused_at_us, cancelled,
    result_code, wake_at_us)
  select n.run_id, $1, d.definition_id, p.policy_id, n.key, n.requested_by, n.submission, n.salt,
    n.status, n.version, n.event_seq, n.chain, commit.at_us, commit.at_us, n.settled_at_us,
    n.settlement, n.maximum_micros, n.spent_micros, n.reserved_micros, n.overrun_micros,
    n.paused_at_us, n.cancelled, n.result_code,
    case when n.wake_at_us is not null then greatest(n.wake_at_us, commit.at_us) end
  from commit cross join n
  join definitions d on d.digest = n.definition join policies p on p.digest = n.policy
  order by n.run_id
  on conflict do nothing
  returning run_number, run_id, version, chain, created_at_us as at_us
), put_payload as (
  insert into payloads (run_number, name, codec, key_id, body)
  select made.run_number, 'input', n.codec, n.key_id, n.body from made join n using (run_id)
), insert_journal as (
  insert into journal (run_number, version, first_seq, at_us, nonce, entries, chain)
  select made.run_number, made.version, 1, made.at_us, n.nonce, n.entries, made.chain
  from made join n using (run_id)
)
select made.at_us from n left join made using (run_id) order by n.place;

-- name: read_submissions
-- Which run each of some keys has, what was asked for under it, and who made it.
select uuid_send(r.run_id), r.submission, uuid_send(j.nonce)
from unnest($2::text[]) with ordinality as asked (key, place)
left join runs r on r.scope_id = $1 and r.key = asked.key
left join journal j on j.run_number = r.run_number and j.version = 1
order by asked.place;

-- name: barrier
-- A commit that waits for the standby as every commit does: what was committed before it, and
-- perhaps without that wait, is safe once it is (it changes no row).
select pg_logical_emit_message(true, 'mayura', 'barrier');
