UPDATE storage_reaper.source SET paused = $2 WHERE name = $1 AND detached_at IS NULL RETURNING id
