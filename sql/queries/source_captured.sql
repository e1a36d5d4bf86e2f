-- A source as it applies to one table: the root itself, a partition, a child or a detached partition.
SELECT s.kind, s.locator, s.owns, s.is_shared, s.filter,
       s.on_update = 'capture' AS on_update,
       s.on_truncate = 'forbid' AS forbid_truncate,
       (pg_catalog.date_part('epoch', s.grace) * 1000000)::bigint AS grace_us,
       ARRAY(SELECT c.number FROM storage_reaper.source_columns(s.id, $2) c ORDER BY c.place) AS attnums,
       ARRAY(SELECT c.name::text FROM storage_reaper.source_columns(s.id, $2) c ORDER BY c.place) AS columns,
       ARRAY(SELECT k.attnum FROM pg_catalog.pg_index i
             CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, place)
             WHERE i.indrelid = $2 AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place) AS key,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i
             CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY k(attnum, place)
             JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
             WHERE i.indrelid = $2 AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place) AS key_columns,
       s.alias, s.backend_id, s.captures,
       CASE WHEN s.row_of IS NOT NULL THEN
           ARRAY(SELECT o.id FROM storage_reaper.source o WHERE o.relation::oid = s.row_of::oid AND o.captures) END AS row_of
FROM storage_reaper.source s
WHERE s.id = $1 AND s.detached_at IS NULL
