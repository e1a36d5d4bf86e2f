UPDATE storage_reaper.backend
SET held_reason = $2,
    held_since = CASE WHEN $2 IS NULL THEN NULL ELSE coalesce(held_since, pg_catalog.clock_timestamp()) END
WHERE id = $1 AND held_reason IS DISTINCT FROM $2
