-- The source is no index condition: for the planner, an array's content is unlikely to narrow anything down.
SELECT a.print, f.backend_id, f.bucket, f.key
FROM pg_catalog.unnest($2::bigint[]) AS a (print)
CROSS JOIN LATERAL (
    SELECT d.backend_id, d.bucket, d.key FROM storage_reaper.document d
    WHERE d.source_id + 0 = $1 AND d.prints @> ARRAY[a.print] AND d.format = $4 AND d.member IS NOT DISTINCT FROM $5
    LIMIT $3) f
