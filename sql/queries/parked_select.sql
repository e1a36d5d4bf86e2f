SELECT p.id, s.name AS source, p.source_id, p.backend_id, p.locator, p.row_id, p.owns, p.shares, p.reason, p.captured_at, p.horizon::text AS horizon, p.payload,
       p.derivation_id, p.is_prefix, p.parent
FROM storage_reaper.parked_object p
LEFT JOIN storage_reaper.source s ON s.id = p.source_id
WHERE ($1::bigint[] IS NULL OR p.id = ANY ($1)) AND ($2::text IS NULL OR s.name = $2)
ORDER BY p.id
FOR UPDATE OF p
