-- The conditions of claim.sql.
SELECT EXISTS (
    SELECT FROM storage_reaper.strand t
    CROSS JOIN (SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS oldest OFFSET 0) here
    WHERE NOT t.is_stopped AND coalesce(t.serves, 0) <> ALL ($2::integer[])
      AND EXISTS (SELECT FROM storage_reaper.entry e
                  WHERE e.source_id = t.source_id AND e.backend_id = t.backend_id
                    AND e.due_at <= (SELECT pg_catalog.clock_timestamp())
                    AND (e.horizon <= here.oldest OR e.horizon > $3::text::xid8)
                    AND e.id <> ALL ($1::bigint[]))) AS found
