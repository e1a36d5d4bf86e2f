UPDATE storage_reaper.derivation SET ended_at = pg_catalog.clock_timestamp()
WHERE source_id = $1 AND template = $2 AND ended_at IS NULL
