-- The conditions of claim.sql.
SELECT EXISTS (
    SELECT FROM storage_reaper.entry e
    LEFT JOIN storage_reaper.source s ON s.id = e.source_id
    LEFT JOIN storage_reaper.backend b ON b.id = coalesce(e.backend_id, s.backend_id)
    CROSS JOIN (SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS oldest OFFSET 0) here
    WHERE e.due_at <= pg_catalog.clock_timestamp()
      AND (e.horizon <= here.oldest OR e.horizon > $3::text::xid8)
      AND NOT coalesce(s.paused OR s.held_since IS NOT NULL, false) AND NOT coalesce(b.paused, false)
      AND e.id <> ALL ($1::bigint[])
      AND coalesce(e.backend_id, s.backend_id, 0) <> ALL ($2::integer[])) AS found
