SELECT EXISTS (SELECT FROM storage_reaper.source s WHERE s.fenced AND s.detached_at IS NULL) AS fenced
