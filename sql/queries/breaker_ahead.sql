-- What is due before long, of sources that are not held: as far ahead as is cheap to look, in each strand.
SELECT s.id, (pg_catalog.date_part('epoch', e.captured_at) * 1000000)::bigint AS captured_us, e.objects::bigint AS objects, e.whole
FROM storage_reaper.strand t
JOIN storage_reaper.source s ON s.id = t.source_id
CROSS JOIN LATERAL (
    SELECT e.captured_at, e.objects, e.whole
    FROM storage_reaper.entry e
    WHERE e.source_id = t.source_id AND e.backend_id = t.backend_id
      AND e.due_at <= (SELECT pg_catalog.clock_timestamp() + $1 * interval '1 microsecond')
      AND e.derivation_id IS NULL AND e.captured_at > coalesce(s.released_at, '-infinity')
    ORDER BY e.due_at, e.id
    LIMIT 2000) e
WHERE s.held_since IS NULL
