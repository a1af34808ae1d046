-- What is asked about runs. Every statement is confined to one scope.

-- name: read_run
-- A run's row, its digests in place of their numbers.
select r.key, d.digest, p.digest, r.requested_by, r.salt, r.status, r.version, r.event_seq,
  r.chain, r.last_at_us, r.created_at_us, r.settled_at_us, r.settlement, r.maximum_micros,
  r.spent_micros, r.reserved_micros, r.overrun_micros, r.paused_at_us, r.cancelled, r.result_code,
  r.wake_at_us, r.claim_fence
from runs r join definitions d using (definition_id) join policies p using (policy_id)
where r.run_id = ? and r.scope_id = ?;

-- name: read_submission
-- Which run a key has, and what was asked for under it.
select run_id, submission from runs where scope_id = ? and key = ?;

-- name: read_steps
-- The steps of a run that anything was written about.
select s.node, s.status, s.code, s.cause, s.acted, s.output, s.dispatch_nonce, s.dispatched_at_us,
  s.settle_at_us, s.settle_epoch, s.settle_wait_us, s.timeout_ms, s.input_digest, s.fence,
  s.receipt, s.contradiction, s.released, s.reserved_micros, s.charged_micros, s.detail,
  s.resolution
from runs r join steps s using (run_number) where r.run_id = ?;

-- name: read_standing
-- Why a write found no row to change.
select version, claim_fence from runs where run_number = ?;

-- name: read_commit
-- Whether the transition to a version is the one of this nonce, and when it was committed.
select at_us from journal where run_number = ? and version = ? and nonce = ?;

-- name: read_settle_deadline
-- The deadline that a commit of ours gave to a dispatch.
select settle_at_us, settle_epoch from steps
where run_number = ? and node = ? and dispatch_nonce = ?;

-- name: read_last_check
-- Everything the last check compares (G3).
select case when s.status = 'dispatching' then s.dispatch_nonce end,
  case when s.status = 'dispatching' then s.input_digest end,
  p.digest, r.cancelled, r.settled_at_us is null
from runs r join policies p using (policy_id)
left join steps s on s.run_number = r.run_number and s.node = ?
where r.run_id = ? and r.scope_id = ?;

-- name: read_journal
-- A run's transitions after a version, in order.
select j.version, j.first_seq, j.at_us, j.nonce, j.entries, j.chain
from runs r join journal j using (run_number)
where r.run_id = ? and r.scope_id = ? and j.version > ? order by j.version;

-- name: read_payload
-- One payload and what is needed to decode it.
select y.codec, y.key_id, y.body from runs r join payloads y using (run_number)
where r.run_id = ? and r.scope_id = ? and y.name = ?;

-- name: read_command
-- The digest under a command id.
select c.digest from runs r join commands c using (run_number)
where r.run_id = ? and r.scope_id = ? and c.command_id = ?;

-- name: read_once_holder
-- The call that holds a subject.
select run_id, node from once where scope_id = ? and digest = ? and not released;

-- name: read_due
-- What has something to do at a time, after a place in (wake time, run id) order.
select r.run_id, d.digest, p.digest, r.wake_at_us
from runs r join definitions d using (definition_id) join policies p using (policy_id)
where r.scope_id = ? and r.wake_at_us <= ? and (r.wake_at_us, r.run_id) > (?, ?)
order by r.wake_at_us, r.run_id limit ?;

-- name: read_cancelled
-- Whether a run was cancelled.
select 1 from runs where run_id = ? and scope_id = ? and cancelled;
