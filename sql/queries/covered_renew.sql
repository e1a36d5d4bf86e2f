-- The columns are other ones now: they are where their names are.
UPDATE storage_reaper.covered k
SET attnums = ARRAY(
    SELECT coalesce(a.attnum, 0::smallint)
    FROM pg_catalog.unnest(s.columns) WITH ORDINALITY AS c (name, place)
    LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = k.relation AND a.attname = c.name::name AND NOT a.attisdropped
    ORDER BY c.place)
FROM storage_reaper.source s
WHERE s.id = $1 AND k.source_id = s.id
