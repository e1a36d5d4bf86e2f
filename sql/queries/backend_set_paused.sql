UPDATE storage_reaper.backend SET paused = $2 WHERE name = $1 RETURNING id
