UPDATE storage_reaper.source s
SET bound = s.relation::oid,
    attnums = ARRAY(SELECT coalesce(a.attnum, 0::smallint) FROM pg_catalog.unnest(s.columns) WITH ORDINALITY c(name, place)
                    LEFT JOIN pg_catalog.pg_attribute a
                        ON a.attrelid = s.relation::oid AND a.attname = c.name AND NOT a.attisdropped
                    ORDER BY c.place)
WHERE s.bound <> s.relation::oid AND s.detached_at IS NULL
  AND EXISTS (SELECT FROM pg_catalog.pg_class r WHERE r.oid = s.relation::oid)
RETURNING s.id
