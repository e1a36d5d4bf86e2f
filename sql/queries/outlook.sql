SELECT EXISTS (
           SELECT FROM storage_reaper.entry e
           LEFT JOIN storage_reaper.source s ON s.id = e.source_id
           LEFT JOIN storage_reaper.backend b ON b.id = coalesce(e.backend_id, s.backend_id)
           WHERE e.due_at <= pg_catalog.clock_timestamp()
             AND NOT coalesce(s.paused OR s.held_since IS NOT NULL, false) AND NOT coalesce(b.paused, false)
             AND e.id <> ALL ($1::bigint[])
             AND coalesce(e.backend_id, s.backend_id, 0) <> ALL ($2::integer[])) AS held_back,
       (SELECT (pg_catalog.date_part('epoch', pg_catalog.min(e.due_at) - pg_catalog.clock_timestamp()) * 1000)::bigint + 1
        FROM storage_reaper.entry e WHERE e.due_at > pg_catalog.clock_timestamp()) AS next_due_ms
