UPDATE storage_reaper.backend SET clock_ahead_s = nullif($2, 0)
WHERE id = $1 AND clock_ahead_s IS DISTINCT FROM nullif($2, 0)
RETURNING name
