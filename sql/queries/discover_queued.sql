SELECT e.payload, t.serves AS backend_id
FROM storage_reaper.entry e
JOIN storage_reaper.strand t USING (source_id, backend_id)
WHERE e.fault IS NULL
ORDER BY e.due_at DESC
LIMIT $1
