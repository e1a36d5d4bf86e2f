SELECT EXISTS (
           SELECT FROM storage_reaper.strand t
           WHERE NOT t.is_stopped AND coalesce(t.serves, 0) <> ALL ($2::integer[])
             AND EXISTS (SELECT FROM storage_reaper.entry e
                         WHERE e.source_id = t.source_id AND e.backend_id = t.backend_id
                           AND e.due_at <= (SELECT pg_catalog.clock_timestamp())
                           AND e.id <> ALL ($1::bigint[]))) AS held_back,
       (SELECT (pg_catalog.date_part('epoch', pg_catalog.min(next.due_at) - pg_catalog.clock_timestamp()) * 1000)::bigint + 1
        FROM storage_reaper.strand t
        CROSS JOIN LATERAL (
            SELECT e.due_at FROM storage_reaper.entry e
            WHERE e.source_id = t.source_id AND e.backend_id = t.backend_id
              AND e.due_at > (SELECT pg_catalog.clock_timestamp())
            ORDER BY e.due_at LIMIT 1) next) AS next_due_ms
