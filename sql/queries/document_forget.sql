DELETE FROM storage_reaper.document d WHERE d.source_id = $1
