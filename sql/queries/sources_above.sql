WITH RECURSIVE above AS (
    SELECT $1::oid AS relation
    UNION
    SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN above a ON i.inhrelid = a.relation
)
-- A restored source that is not bound yet is left to pg_restore, which brings its triggers itself.
SELECT s.id FROM storage_reaper.source s
JOIN above a ON a.relation = s.relation::oid
WHERE s.detached_at IS NULL AND s.bound = s.relation::oid
