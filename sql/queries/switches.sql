-- Sources that are paused or held, and paused backends as negative numbers; in order.
SELECT a.state, a.paused,
       ARRAY(SELECT s.id FROM storage_reaper.source s WHERE s.paused OR s.held_since IS NOT NULL
             UNION ALL SELECT -b.id FROM storage_reaper.backend b WHERE b.paused ORDER BY 1) AS stopped,
       ARRAY(SELECT b.id FROM storage_reaper.backend b WHERE b.held_since IS NOT NULL) AS held,
       EXISTS (SELECT FROM storage_reaper.backend b WHERE b.probe_wanted IS NOT NULL AND NOT b.paused) AS is_probe_wanted
FROM storage_reaper.arming_state a
