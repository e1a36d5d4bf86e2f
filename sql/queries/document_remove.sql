DELETE FROM storage_reaper.document d WHERE d.source_id = $1 AND d.digest = ANY ($2::text[])
