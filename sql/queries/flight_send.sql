UPDATE storage_reaper.flight SET sent_at = pg_catalog.clock_timestamp() WHERE id = $1 AND sent_at IS NULL
