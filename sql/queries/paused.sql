SELECT s.id FROM storage_reaper.source s WHERE s.paused OR s.held_since IS NOT NULL
UNION ALL
SELECT -b.id FROM storage_reaper.backend b WHERE b.paused
ORDER BY 1
