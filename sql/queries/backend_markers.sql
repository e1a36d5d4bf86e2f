SELECT b.delete_markers FROM storage_reaper.backends b WHERE b.name = $1
