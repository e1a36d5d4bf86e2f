UPDATE storage_reaper.backend SET clock_ahead_s = NULL WHERE clock_ahead_s IS NOT NULL
