-- A source's own table stands for everything that a query through it reaches. What carries the source's trigger, or was below
-- a table that only protects, and is not reached any more (detached, being detached, or moved below another table) is asked by
-- itself.
WITH RECURSIVE reached AS (
    SELECT s.id, s.relation::oid AS relation FROM storage_reaper.source s WHERE s.detached_at IS NULL
    UNION
    SELECT r.id, i.inhrelid FROM pg_catalog.pg_inherits i
    JOIN reached r ON i.inhparent = r.relation AND NOT i.inhdetachpending
), asked AS (
    SELECT s.id, s.relation::oid AS relation FROM storage_reaper.source s WHERE s.detached_at IS NULL
    UNION
    SELECT s.id, t.tgrelid FROM storage_reaper.source s
    JOIN pg_catalog.pg_trigger t
        ON t.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)::name
           AND t.tgfoid = 'storage_reaper.capture()'::regprocedure
    WHERE s.detached_at IS NULL
      AND NOT EXISTS (SELECT FROM reached r WHERE r.id = s.id AND r.relation = t.tgrelid)
    UNION
    SELECT s.id, k.relation FROM storage_reaper.source s
    JOIN storage_reaper.covered k ON k.source_id = s.id
    JOIN pg_catalog.pg_class c ON c.oid = k.relation
    WHERE s.detached_at IS NULL AND NOT s.captures AND s.bound = s.relation::oid
      AND NOT EXISTS (SELECT FROM reached r WHERE r.id = s.id AND r.relation = k.relation)
)
SELECT s.id, s.name, CASE WHEN s.captures THEN 'source ' ELSE 'reference ' END || s.name AS title,
       s.kind, s.locator, s.backend_id, s.alias, s.allow_scan, s.fenced, s.owns, s.is_shared, s.document, s.member, s.immutable,
       -- A row that no longer owns an object may still name it; what only protects does so as declared.
       CASE WHEN NOT s.captures THEN s.filter END AS filter,
       ARRAY(SELECT c.name::text FROM storage_reaper.source_columns(s.id, a.relation) c ORDER BY c.place) AS columns,
       (SELECT pg_catalog.format_type(t.atttypid, NULL) FROM storage_reaper.source_columns(s.id, a.relation) f
        JOIN pg_catalog.pg_attribute t ON t.attrelid = a.relation AND t.attnum = f.number WHERE f.place = 1) AS column_type,
       (SELECT pg_catalog.format_type(t.atttypid, NULL) FROM storage_reaper.source_columns(s.id, a.relation) f
        JOIN pg_catalog.pg_attribute t ON t.attrelid = a.relation AND t.attnum = f.number
        WHERE s.is_shared ORDER BY f.place DESC LIMIT 1) AS shared_type,
       ARRAY(SELECT k.attname::text FROM pg_catalog.pg_index i
             CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY p(attnum, place)
             JOIN pg_catalog.pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = p.attnum
             WHERE i.indrelid = a.relation AND i.indisprimary AND p.place <= i.indnkeyatts ORDER BY p.place) AS key_columns,
       -- NULL when the table is gone.
       a.relation, CASE WHEN c.oid IS NOT NULL THEN pg_catalog.format('%I.%I', n.nspname, c.relname) END AS qualified_name,
       -- Every source that captures from that table, detached or not: what it captured may still be in the queue.
       CASE WHEN s.row_of IS NOT NULL THEN
           ARRAY(SELECT o.id FROM storage_reaper.source o WHERE o.relation::oid = s.row_of::oid AND o.captures) END AS row_of,
       -- The same for the source's own table.
       ARRAY(SELECT o.id FROM storage_reaper.source o WHERE o.relation::oid = s.relation::oid AND o.captures) AS siblings,
       s.row_of::oid AS row_table,
       CASE WHEN rc.oid IS NOT NULL THEN pg_catalog.format('%I.%I', rn.nspname, rc.relname) END AS row_table_name,
       rk.name AS row_key, rk.type AS row_key_type
FROM asked a
JOIN storage_reaper.source s ON s.id = a.id
LEFT JOIN pg_catalog.pg_class c ON c.oid = a.relation
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class rc ON rc.oid = s.row_of::oid
LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace
LEFT JOIN LATERAL (
    SELECT k.attname::text AS name, pg_catalog.format_type(k.atttypid, NULL) AS type
    FROM pg_catalog.pg_index i
    JOIN pg_catalog.pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = i.indkey[0]
    WHERE i.indrelid = s.row_of::oid AND i.indisprimary AND i.indnkeyatts = 1) rk ON true
ORDER BY s.id, a.relation
