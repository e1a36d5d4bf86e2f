-- Detached ones too: what they captured is still in the queue.
UPDATE storage_reaper.source
SET held_since = NULL, held_reason = NULL, released_at = pg_catalog.clock_timestamp()
WHERE name = $1 AND held_since IS NOT NULL
