SELECT e.payload, coalesce(nullif(e.backend_id, 0), s.backend_id) AS backend_id
FROM storage_reaper.entry e
LEFT JOIN storage_reaper.source s ON s.id = e.source_id
WHERE e.fault IS NULL
ORDER BY e.due_at DESC
LIMIT $1
