UPDATE storage_reaper.source s
SET columns = ARRAY(SELECT c.name::text FROM storage_reaper.source_columns(s.id, $1) c ORDER BY c.place)
WHERE s.relation::oid = $1 AND s.bound = $1 AND s.detached_at IS NULL
  AND s.columns <> ARRAY(SELECT c.name::text FROM storage_reaper.source_columns(s.id, $1) c ORDER BY c.place)
