-- Columns that can hold locators, and that nothing declared covers. A partition is read through its root; materialized
-- views and foreign tables cannot be protected.
WITH RECURSIVE declared AS (
    (SELECT s.id, s.relation::oid AS relation FROM storage_reaper.source s WHERE s.detached_at IS NULL
     UNION
     -- Detached partitions stay covered.
     SELECT s.id, t.tgrelid FROM storage_reaper.source s
     JOIN pg_catalog.pg_trigger t
         ON t.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)::name
            AND t.tgfoid = 'storage_reaper.capture()'::regprocedure
     WHERE s.detached_at IS NULL
     UNION
     SELECT s.id, k.relation FROM storage_reaper.source s
     JOIN storage_reaper.covered k ON k.source_id = s.id
     WHERE s.detached_at IS NULL AND NOT s.captures AND s.bound = s.relation::oid)
    UNION
    SELECT d.id, i.inhrelid FROM pg_catalog.pg_inherits i JOIN declared d ON i.inhparent = d.relation
), covered AS (
    SELECT d.relation, c.name FROM declared d CROSS JOIN LATERAL storage_reaper.source_columns(d.id, d.relation::oid) c
    UNION
    -- What an expression names behind the table's name was thought about.
    SELECT d.relation, a.attname
    FROM declared d
    JOIN storage_reaper.source s ON s.id = d.id AND s.kind IN ('expression', 'array_expression')
    JOIN pg_catalog.pg_attribute a ON a.attrelid = d.relation AND a.attnum > 0 AND NOT a.attisdropped
    WHERE s.locator ~ (pg_catalog.regexp_replace(pg_catalog.format('%I.%I', s.alias, a.attname), '(\W)', '\\\1', 'g') || '(\W|$)')
    UNION
    -- So was what a protected view reads.
    SELECT p.refobjid, a.attname
    FROM declared d
    JOIN pg_catalog.pg_rewrite r ON r.ev_class = d.relation
    JOIN pg_catalog.pg_depend p ON p.classid = 'pg_catalog.pg_rewrite'::regclass AND p.objid = r.oid
        AND p.refclassid = 'pg_catalog.pg_class'::regclass AND p.refobjid <> d.relation AND p.refobjsubid > 0
    JOIN pg_catalog.pg_attribute a ON a.attrelid = p.refobjid AND a.attnum = p.refobjsubid
), base AS (
    SELECT t.oid, t.oid AS base FROM pg_catalog.pg_type t WHERE t.typtype <> 'd'
    UNION ALL
    SELECT d.oid, b.base FROM pg_catalog.pg_type d JOIN base b ON d.typbasetype = b.oid WHERE d.typtype = 'd'
), found AS (
    SELECT c.oid AS relation, n.nspname, c.relname, c.relkind, a.attname, a.attnum, a.atttypid, a.atttypmod,
           CASE WHEN t.typcategory = 'S' THEN 'text'
                WHEN t.typcategory = 'A' AND e.typcategory = 'S' THEN 'array'
                WHEN t.oid IN ('pg_catalog.json'::regtype, 'pg_catalog.jsonb'::regtype) THEN 'document' END AS kind,
           -- Whether attach and protect take the column as it is, see relation_column.sql.
           t.typcategory = 'S' OR t.oid = a.atttypid AS is_direct
    FROM pg_catalog.pg_class c
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated <> 'v'
    JOIN base b ON b.oid = a.atttypid
    JOIN pg_catalog.pg_type t ON t.oid = b.base
    LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
      AND n.nspname <> ALL (ARRAY['storage_reaper', 'information_schema']) AND n.nspname NOT LIKE 'pg\_%'
)
SELECT f.relation, f.nspname::text AS schema, f.relname::text AS table_name, f.attname::text AS name,
       pg_catalog.format_type(f.atttypid, f.atttypmod) AS type_name, f.kind, f.is_direct, f.relkind = 'p' AS is_partitioned,
       -- Reading the root would fetch them from elsewhere.
       f.relkind = 'p' AND EXISTS (SELECT FROM pg_catalog.pg_partition_tree(f.relation) p
                                   JOIN pg_catalog.pg_foreign_table g ON g.ftrelid = p.relid) AS is_foreign
FROM found f
WHERE f.kind IS NOT NULL
  AND NOT EXISTS (SELECT FROM covered c WHERE c.relation = f.relation AND c.name = f.attname)
ORDER BY f.nspname, f.relname, f.attnum
