DELETE FROM storage_reaper.covered WHERE source_id = $1
