SELECT b.id FROM storage_reaper.backend b WHERE b.held_since IS NOT NULL
