UPDATE storage_reaper.source SET detached_at = pg_catalog.clock_timestamp() WHERE id = $1
