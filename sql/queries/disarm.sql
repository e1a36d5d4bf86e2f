DELETE FROM storage_reaper.arming
