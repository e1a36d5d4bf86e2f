SELECT s.name, s.fault FROM storage_reaper.source s WHERE s.fault IS NOT NULL AND s.detached_at IS NULL ORDER BY s.id
