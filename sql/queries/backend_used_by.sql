SELECT 'source' AS what FROM storage_reaper.source s WHERE s.backend_id = $1 AND s.detached_at IS NULL
UNION ALL
SELECT 'location' FROM storage_reaper.location l WHERE l.backend_id = $1
UNION ALL
SELECT 'queue' FROM storage_reaper.strand t WHERE t.serves = $1
UNION ALL
SELECT 'parked' FROM storage_reaper.parked_object p LEFT JOIN storage_reaper.source s ON s.id = p.source_id
WHERE coalesce(p.backend_id, s.backend_id) = $1
LIMIT 1
