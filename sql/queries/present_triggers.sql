-- Roots first, as everybody locks them.
WITH RECURSIVE above AS (
    SELECT g.tgrelid AS relation, g.tgrelid AS ancestor, 0 AS level FROM pg_catalog.pg_trigger g
    WHERE g.tgfoid IN ('storage_reaper.capture()'::regprocedure, 'storage_reaper.fence()'::regprocedure)
    UNION
    SELECT a.relation, i.inhparent, a.level + 1 FROM above a JOIN pg_catalog.pg_inherits i ON i.inhrelid = a.ancestor
)
SELECT pg_catalog.format('DROP TRIGGER %I ON %I.%I', g.tgname, n.nspname, c.relname) AS statement
FROM pg_catalog.pg_trigger g
JOIN pg_catalog.pg_class c ON c.oid = g.tgrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
-- $2: only those of the fence.
WHERE NOT $2 AND g.tgfoid = 'storage_reaper.capture()'::regprocedure
      AND g.tgname IN (pg_catalog.format('storage_reaper_%s_delete', $1)::name,
                       pg_catalog.format('storage_reaper_%s_update', $1)::name,
                       pg_catalog.format('storage_reaper_%s_truncate', $1)::name)
   OR g.tgfoid = 'storage_reaper.fence()'::regprocedure
      AND g.tgname IN (pg_catalog.format('storage_reaper_%s_fence_insert', $1)::name,
                       pg_catalog.format('storage_reaper_%s_fence_update', $1)::name)
ORDER BY (SELECT pg_catalog.max(a.level) FROM above a WHERE a.relation = g.tgrelid), g.tgrelid, g.tgname
