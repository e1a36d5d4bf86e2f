-- References to rows of a dropped table go on with the table that its source lives on in.
UPDATE storage_reaper.source r SET row_of = s.relation
FROM storage_reaper.source s
WHERE r.row_of::oid = $1 AND r.detached_at IS NULL AND s.id = ANY ($2::integer[])
