-- Whoever may drop a table ($2) drops its partitions and children with it, whoever owns those.
WITH RECURSIVE gone AS (
    SELECT c.oid AS relation, 0 AS level
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = ANY ($1::oid[])
      AND (pg_catalog.pg_has_role($2, c.relowner, 'USAGE') OR pg_catalog.pg_has_role($2, n.nspowner, 'USAGE'))
    UNION
    SELECT i.inhrelid, g.level + 1 FROM pg_catalog.pg_inherits i JOIN gone g ON i.inhparent = g.relation
)
-- Roots first, and with each partition its parent, as the command locks them: the other way round, whoever works on the
-- root would wait for us and we for them.
SELECT g.relation, s.id AS source,
       (SELECT i.inhparent FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
        WHERE i.inhrelid = g.relation AND c.relispartition) AS parent
FROM gone g
JOIN pg_catalog.pg_trigger t ON t.tgrelid = g.relation AND t.tgfoid = 'storage_reaper.capture()'::regprocedure
JOIN storage_reaper.source s ON t.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)::name AND s.detached_at IS NULL
GROUP BY g.relation, s.id
ORDER BY pg_catalog.max(g.level), g.relation, s.id
