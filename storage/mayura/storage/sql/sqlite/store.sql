-- The store's own row, its schema's marks, and its scopes.

-- name: store_exists
-- Whether anything was ever set up in this file.
select 1 from sqlite_master where type = 'table' and name = 'store';

-- name: anything_exists
-- Whether the file holds somebody else's tables.
select 1 from sqlite_master limit 1;

-- name: read_marks
-- What the store says of its schema.
select schema_version, writable_by from store;

-- name: insert_store
-- The one row, as the first migration leaves it; no environment has claimed it yet.
insert into store (only_row, schema_version, writable_by, store_id, environment, created_at_us)
values (1, ?, ?, ?, null, ?);

-- name: update_marks
-- The marks of a migration, in the transaction of its change.
update store set schema_version = ?, writable_by = ?;

-- name: claim_environment_if_unclaimed
-- The first that opens a store says to which environment it belongs (G15).
update store set environment = ? where environment is null;

-- name: read_environment
-- The environment this store belongs to.
select environment from store;

-- name: insert_scope_if_new
-- A scope begins with a secret of its own, which is never deleted (G16).
insert into scopes (principal, project, once_key) values (?, ?, ?)
on conflict (principal, project) do nothing;

-- name: read_scope
-- The scope's number and secret.
select scope_id, once_key from scopes where principal = ? and project = ?;

-- name: put_definition_if_new
-- A manifest under its digest.
insert into definitions (digest, workflow_id, version, manifest) values (?, ?, ?, ?)
on conflict (digest) do nothing;

-- name: read_definition
-- The manifest behind a digest.
select manifest from definitions where digest = ?;

-- name: put_policy_if_new
-- A policy under its digest.
insert into policies (digest, manifest) values (?, ?) on conflict (digest) do nothing;

-- name: read_policy
-- The policy behind a digest.
select manifest from policies where digest = ?;
