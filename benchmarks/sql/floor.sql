-- The floor's table and its one write, on both databases.

-- name: floor_create_postgres
-- A row a step; the submission is the row of step -1.
create table floor_steps (
    run bigint not null,
    step integer not null,
    status smallint not null,
    value text not null,
    primary key (run, step)
) with (fillfactor = 50)

-- name: floor_put_postgres
-- Everything that was pending, as one statement.
insert into floor_steps as kept (run, step, status, value)
select run, step, status, value
from unnest($1::bigint[], $2::integer[], $3::smallint[], $4::text[])
    as sent (run, step, status, value)
on conflict (run, step) do update set status = excluded.status, value = excluded.value

-- name: floor_count_postgres
-- The rows of one run whose step is done.
select count(*) from floor_steps where run = $1 and status = 2

-- name: floor_create_sqlite
-- The same table.
create table floor_steps (
    run integer not null,
    step integer not null,
    status integer not null,
    value text not null,
    primary key (run, step)
) without rowid, strict

-- name: floor_put_sqlite
-- One row; a transaction executes it for everything that was pending.
insert into floor_steps (run, step, status, value) values (?, ?, ?, ?)
on conflict (run, step) do update set status = excluded.status, value = excluded.value

-- name: floor_journal_sqlite
-- A write-ahead log.
pragma journal_mode = wal

-- name: floor_synchronous_sqlite
-- An acknowledged commit survives a power cut.
pragma synchronous = full

-- name: floor_begin_sqlite
-- Opens the writing transaction.
begin immediate

-- name: floor_commit_sqlite
-- Makes everything in it durable.
commit
