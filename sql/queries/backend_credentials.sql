SELECT b.credentials FROM storage_reaper.backend b WHERE b.id = $1
