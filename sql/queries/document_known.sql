SELECT d.digest FROM storage_reaper.document d
WHERE d.source_id = $1 AND d.format = $2 AND d.member IS NOT DISTINCT FROM $3
