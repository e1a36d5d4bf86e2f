SELECT s.id, s.relation::oid AS relation, s.captures
FROM storage_reaper.source s
WHERE s.name = $1 AND s.detached_at IS NULL
