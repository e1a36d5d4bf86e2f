-- What was deleted within the window, by a leader before this one.
SELECT h.source_id AS id, (pg_catalog.date_part('epoch', h.captured_at) * 1000000)::bigint AS captured_us,
       h.objects::bigint AS objects, false AS whole
FROM storage_reaper.settlement h
WHERE h.settled_at > pg_catalog.clock_timestamp() - $1 * interval '1 microsecond'
  AND h.outcome IN ('deleted', 'delete_marker') AND h.source_id IS NOT NULL AND h.derivation_id IS NULL
