DELETE FROM storage_reaper.location WHERE url_base = $1 RETURNING url_base
