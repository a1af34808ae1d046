-- What frames a statement behind a pooler, which keeps no settings of a session. Elsewhere a
-- statement is a transaction of its own, and the session was told its limits when it began.

-- name: begin_with_limits
-- The same limits as a session of our own has, for one transaction.
begin isolation level read committed;
set local statement_timeout = '6s';
set local lock_timeout = '4s';
set local idle_in_transaction_session_timeout = '5s';
set local enable_seqscan = off;
set local jit = off;

-- name: commit
-- Its answer is the write's answer.
commit;

-- name: roll_back
-- After a certain no: the session is sound.
rollback;
