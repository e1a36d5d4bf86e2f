-- Only what is not due: the worker may have sent the rest already. The row lock keeps the worker's claim off.
SELECT e.source_id AS strand_source, e.backend_id AS strand_backend, e.due_at, e.id, e.captured_at, nullif(e.source_id, 0) AS source_id,
       nullif(e.backend_id, 0) AS backend_id, e.payload, e.derivation_id
FROM storage_reaper.entry e
LEFT JOIN storage_reaper.source s ON s.id = e.source_id
WHERE e.due_at > pg_catalog.clock_timestamp() AND e.fault IS NULL
  AND ($2::text IS NULL OR s.name = $2)
  AND EXISTS (SELECT FROM storage_reaper.unpack(e.payload) o WHERE o.locator = ANY ($1::text[]))
FOR UPDATE OF e SKIP LOCKED
