DELETE FROM storage_reaper.entry e
USING ROWS FROM (pg_catalog.unnest($1::timestamptz[]), pg_catalog.unnest($2::bigint[])) AS gone (due_at, id)
WHERE e.due_at = gone.due_at AND e.id = gone.id
