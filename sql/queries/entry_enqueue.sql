INSERT INTO storage_reaper.entry (due_at, id, horizon, captured_at, source_id, backend_id, attempts, objects, payload, whole)
VALUES (pg_catalog.clock_timestamp() + $4, pg_catalog.nextval('storage_reaper.entry_id'),
        $5::text::xid8, pg_catalog.clock_timestamp(), 0, coalesce($3, 0), 0, $2, $1, false)
