-- Some of each purge, so that a slow one stands in nobody's way; of those at rest ($2) none. Nothing in a database that may not delete.
SELECT e.id, e.due_at, e.attempts, e.payload, e.purge_id
FROM storage_reaper.purge p
CROSS JOIN (SELECT * FROM storage_reaper.arming_state LIMIT 1) a
CROSS JOIN LATERAL (
    SELECT * FROM storage_reaper.purge_entry e
    WHERE e.purge_id = p.id AND e.due_at <= pg_catalog.clock_timestamp() AND e.id <> ALL ($1::bigint[])
    ORDER BY e.due_at, e.id
    LIMIT $3) e
WHERE a.state = 'armed' AND NOT a.paused AND p.id <> ALL ($2::integer[])
