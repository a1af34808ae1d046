-- What the benchmarks ask a server about itself.

-- name: read_log_position
-- How many bytes of write-ahead log there ever were.
select pg_current_wal_insert_lsn() - '0/0'::pg_lsn

-- name: checkpoint
-- So that no contest pays for the pages that the one before it left dirty.
checkpoint
