UPDATE storage_reaper.backend SET probe_prefix = $2 WHERE name = $1 RETURNING id
