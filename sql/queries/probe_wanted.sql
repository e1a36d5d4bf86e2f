SELECT b.id, b.probe_prefix FROM storage_reaper.backend b WHERE b.probe_prefix IS NOT NULL AND NOT b.paused
