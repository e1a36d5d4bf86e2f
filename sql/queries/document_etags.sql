SELECT d.digest, d.etag FROM storage_reaper.document d
WHERE d.source_id = $1 AND d.digest = ANY ($2::text[]) AND d.etag IS NOT NULL
  AND d.format = $3 AND d.member IS NOT DISTINCT FROM $4 AND d.immutable = $5
