-- The store's own row, its schema's marks, its scopes, and what many runs share.

-- name: lock_schema
-- One process at a time looks whether there is something to migrate, and migrates.
select pg_advisory_xact_lock(hashtextextended('mayura schema', 0));

-- name: store_exists
-- Whether anything was ever set up in this database.
select to_regclass('store') is not null;

-- name: read_marks
-- What the store says of its schema.
select schema_version, writable_by from store;

-- name: insert_store
-- The one row, as the first migration leaves it; no environment has claimed it yet.
insert into store (only_row, schema_version, writable_by, store_id, environment, created_at_us)
values (true, $1, $2, gen_random_uuid(), null,
  (extract(epoch from clock_timestamp()) * 1000000)::bigint);

-- name: update_marks
-- The marks of a migration, in the transaction of its change.
update store set schema_version = $1, writable_by = $2;

-- name: claim_environment_if_unclaimed
-- The first that opens a store says to which environment it belongs (G15).
update store set environment = $1 where environment is null;

-- name: read_environment
-- The environment this store belongs to.
select environment from store;

-- name: insert_scope_if_new
-- A scope begins with a secret of its own, which is never deleted (G16).
insert into scopes (principal, project, once_key) values ($1, $2, $3)
on conflict (principal, project) do nothing;

-- name: read_scope
-- The scope's number and secret.
select scope_id, once_key from scopes where principal = $1 and project = $2;

-- name: put_definition_if_new
-- A manifest under its digest.
insert into definitions (digest, workflow_id, version, manifest) values ($1, $2, $3, $4)
on conflict (digest) do nothing;

-- name: read_definition
-- The manifest behind a digest.
select manifest from definitions where digest = $1;

-- name: put_policy_if_new
-- A policy under its digest.
insert into policies (digest, manifest) values ($1, $2) on conflict (digest) do nothing;

-- name: read_policy
-- The policy behind a digest.
select manifest from policies where digest = $1;
