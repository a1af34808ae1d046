-- What one transition writes, table by table. The run's row comes first: it decides.

-- name: insert_run_if_new
-- A submission; no row where the key has a run, or the definition or policy is not stored.
insert into runs (
  run_id, scope_id, definition_id, policy_id, key, requested_by, submission, salt, created_at_us,
  status, version, event_seq, chain, last_at_us, settled_at_us, settlement, maximum_micros,
  spent_micros, reserved_micros, overrun_micros, paused_at_us, cancelled, result_code, wake_at_us)
select ?, ?, d.definition_id, p.policy_id, ?, ?, ?, ?, ?,
  ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?
from definitions d, policies p where d.digest = ? and p.digest = ?
on conflict do nothing;

-- name: update_run_if_version
-- The compare-and-set of a transition; the last parameter is the fence, null where it is no
-- condition (G7, G8).
update runs set
  status = ?, version = ?, event_seq = ?, chain = ?, last_at_us = ?, settled_at_us = ?,
  settlement = ?, maximum_micros = ?, spent_micros = ?, reserved_micros = ?, overrun_micros = ?,
  paused_at_us = ?, cancelled = ?, result_code = ?, wake_at_us = ?
where run_number = ? and run_id = ? and scope_id = ? and version = ?
  and claim_fence = coalesce(?, claim_fence);

-- name: take_once_if_released
-- The subject of a `once` tool: free if nobody has it or it was released (G16).
insert into once (scope_id, digest, run_id, node, released) values (?, ?, ?, ?, 0)
on conflict (scope_id, digest) do update
set run_id = excluded.run_id, node = excluded.node, released = 0 where once.released;

-- name: release_once_if_held
-- The call that held the subject is known not to have acted.
update once set released = 1 where scope_id = ? and digest = ? and run_id = ?;

-- name: insert_dispatch
-- That a call was begun; a second one for the same step is an integrity violation (G1).
insert into dispatches (run_number, node, nonce, at_us) values (?, ?, ?, ?);

-- name: put_step
-- What is known of a step now.
insert into steps (
  run_number, node, status, code, cause, acted, output, dispatch_nonce, dispatched_at_us, settle_at_us,
  settle_epoch, settle_wait_us, timeout_ms, input_digest, fence, receipt, contradiction, released,
  reserved_micros, charged_micros, detail, resolution)
values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (run_number, node) do update set
  status = excluded.status, code = excluded.code, cause = excluded.cause, acted = excluded.acted,
  output = excluded.output, dispatch_nonce = excluded.dispatch_nonce,
  dispatched_at_us = excluded.dispatched_at_us, settle_at_us = excluded.settle_at_us,
  settle_epoch = excluded.settle_epoch, settle_wait_us = excluded.settle_wait_us,
  timeout_ms = excluded.timeout_ms, input_digest = excluded.input_digest, fence = excluded.fence,
  receipt = excluded.receipt, contradiction = excluded.contradiction,
  released = excluded.released, reserved_micros = excluded.reserved_micros,
  charged_micros = excluded.charged_micros, detail = excluded.detail,
  resolution = excluded.resolution;

-- name: put_payload
-- A payload as its codec encoded it.
insert into payloads (run_number, name, codec, key_id, body) values (?, ?, ?, ?, ?)
on conflict (run_number, name) do update set
  codec = excluded.codec, key_id = excluded.key_id, body = excluded.body;

-- name: insert_command_if_new
-- No row where the command was carried out before.
insert into commands (run_number, command_id, digest, version) values (?, ?, ?, ?)
on conflict (run_number, command_id) do nothing;

-- name: read_run_number
-- Under which number the tables about a run know it.
select run_number from runs where run_id = ? and scope_id = ?;

-- name: insert_journal
-- What happened, under the version it made.
insert into journal (run_number, version, first_seq, at_us, nonce, entries, chain)
values (?, ?, ?, ?, ?, ?, ?);
