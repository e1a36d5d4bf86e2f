-- Takes entries out. What somebody else is changing is left.
WITH gone AS (
    DELETE FROM storage_reaper.purge_entry e
    USING (SELECT k.due_at, k.id FROM storage_reaper.purge_entry k
           WHERE k.purge_id = $1 AND (k.due_at, k.id) IN (SELECT * FROM ROWS FROM (pg_catalog.unnest($2::timestamptz[]), pg_catalog.unnest($3::bigint[])))
           FOR UPDATE SKIP LOCKED) k
    WHERE e.purge_id = $1 AND e.due_at = k.due_at AND e.id = k.id
    RETURNING e.urls, e.created_at)
SELECT pg_catalog.count(*) AS entries, coalesce(pg_catalog.sum(gone.urls), 0)::bigint AS urls, pg_catalog.min(gone.created_at) AS created_at
FROM gone
