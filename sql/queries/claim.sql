-- An entry is touched only when every transaction that was writing at its capture has ended: until then a reference may
-- be written that no snapshot shows. A horizon beyond the next id ($4) comes from another server, by a restore.
SELECT e.id, e.due_at, e.captured_at,
       (pg_catalog.date_part('epoch', e.captured_at) * 1000000)::bigint AS captured_us, e.whole, e.horizon::text AS horizon, e.source_id,
       coalesce(e.backend_id, s.backend_id) AS backend_id,
       e.attempts, e.payload, e.last_error, e.fault,
       e.derivation_id, coalesce(e.is_prefix, false) AS is_prefix, coalesce(d.is_required, true) AS is_required, d.max_objects
FROM storage_reaper.entry e
LEFT JOIN storage_reaper.source s ON s.id = e.source_id
LEFT JOIN storage_reaper.backend b ON b.id = coalesce(e.backend_id, s.backend_id)
LEFT JOIN storage_reaper.derivation d ON d.id = e.derivation_id
CROSS JOIN (SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS oldest OFFSET 0) here
WHERE e.due_at <= pg_catalog.clock_timestamp()
  AND (e.horizon <= here.oldest OR e.horizon > $4::text::xid8)
  AND NOT coalesce(s.paused OR s.held_since IS NOT NULL, false) AND NOT coalesce(b.paused, false)
  AND e.id <> ALL ($1::bigint[])
  AND coalesce(e.backend_id, s.backend_id, 0) <> ALL ($2::integer[])
ORDER BY e.due_at, e.id
LIMIT $3
FOR UPDATE OF e SKIP LOCKED
