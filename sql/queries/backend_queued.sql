-- Objects in the outbox or parked whose plain keys go to the backend.
SELECT (SELECT coalesce(pg_catalog.sum(e.objects), 0) FROM storage_reaper.entry e
        JOIN storage_reaper.strand t USING (source_id, backend_id) WHERE t.serves = $1)::bigint
     + (SELECT pg_catalog.count(*) FROM storage_reaper.parked_object p
        LEFT JOIN storage_reaper.source s ON s.id = p.source_id WHERE coalesce(p.backend_id, s.backend_id) = $1) AS objects
