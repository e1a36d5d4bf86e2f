SELECT a.print, f.digest, f.locator
FROM pg_catalog.unnest($2::bigint[]) AS a (print)
CROSS JOIN LATERAL (
    SELECT d.digest, d.locator FROM storage_reaper.document d
    WHERE d.source_id = $1 AND d.prints @> ARRAY[a.print] AND d.format = $4 AND d.member IS NOT DISTINCT FROM $5
    LIMIT $3) f
