-- Settings of a connection, and the frame of a transaction.

-- name: set_busy_timeout
-- A short wait inside SQLite; whoever must wait longer asks again and can say when to give up.
pragma busy_timeout = 5;

-- name: set_reader_busy_timeout
-- Readers meet a lock only while a log is recovered or reset.
pragma busy_timeout = 5000;

-- name: set_write_ahead_log
-- Readers and one writer beside each other; answers the mode that is now in force.
pragma journal_mode = wal;

-- name: set_synchronous_full
-- A commit is on the disk before it is answered: NORMAL loses answered commits in a power cut.
pragma synchronous = full;

-- name: read_synchronous
-- 2 is FULL, 3 is EXTRA; below that a dispatch would not survive a crash (G2).
pragma synchronous;

-- name: set_foreign_keys
-- References are checked; SQLite's default is not to.
pragma foreign_keys = on;

-- name: set_cache_size
-- Pages kept in memory, in KiB because negative.
pragma cache_size = -16384;

-- name: set_auto_checkpoint
-- Pages of log after which a commit moves what it can into the file.
pragma wal_autocheckpoint = 4000;

-- name: set_log_size_limit
-- A log that was reset is cut back to this many bytes.
pragma journal_size_limit = 16777216;

-- name: set_query_only
-- The reader writes nothing.
pragma query_only = on;

-- name: checkpoint_truncate
-- Move the whole log into the file and cut it to nothing; answers busy where a reader is in it.
pragma wal_checkpoint(truncate);

-- name: probe_write
-- The smallest write there is: it dirties the first page.
pragma user_version = 1;

-- name: begin_write
-- Take the write lock first, so that no transaction is upgraded in the middle (case D14).
begin immediate;

-- name: begin_read
-- One view for several reads.
begin deferred;

-- name: commit
-- Durable when answered.
commit;

-- name: rollback
-- Nothing of it happened.
rollback;

-- name: savepoint
-- So that one write of a batch can fail alone.
savepoint one_write;

-- name: keep_savepoint
-- This write stays in the batch.
release one_write;

-- name: undo_savepoint
-- This write leaves the batch; `keep_savepoint` follows.
rollback to one_write;
