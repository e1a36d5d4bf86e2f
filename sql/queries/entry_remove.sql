DELETE FROM storage_reaper.entry e
USING ROWS FROM (pg_catalog.unnest($1::integer[]), pg_catalog.unnest($2::integer[]), pg_catalog.unnest($3::timestamptz[]),
                 pg_catalog.unnest($4::bigint[])) AS gone (source_id, backend_id, due_at, id)
WHERE e.source_id = gone.source_id AND e.backend_id = gone.backend_id AND e.due_at = gone.due_at AND e.id = gone.id
