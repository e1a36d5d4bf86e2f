-- A detached source's objects that are still queued take along what was declared.
SELECT d.id, d.source_id, d.template, d.over
FROM storage_reaper.derivation d
WHERE d.source_id = ANY ($1::integer[]) AND d.ended_at IS NULL
ORDER BY d.id
