UPDATE storage_reaper.source SET held_since = pg_catalog.clock_timestamp(), held_reason = $2
WHERE id = $1 AND held_since IS NULL
RETURNING name
