SELECT b.id FROM storage_reaper.backend b WHERE b.name = $1
