SELECT (pg_catalog.date_part('epoch', pg_catalog.min(e.due_at) - pg_catalog.clock_timestamp()) * 1000)::bigint + 1 AS wait_ms
FROM storage_reaper.purge p
CROSS JOIN LATERAL (
    SELECT e.due_at FROM storage_reaper.purge_entry e
    WHERE e.purge_id = p.id AND e.due_at > pg_catalog.clock_timestamp()
    ORDER BY e.due_at LIMIT 1) e
