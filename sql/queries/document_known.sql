-- What was read while it might change does not count for one that never does.
SELECT d.digest FROM storage_reaper.document d
WHERE d.source_id = $1 AND d.format = $2 AND d.member IS NOT DISTINCT FROM $3 AND d.immutable = $4
