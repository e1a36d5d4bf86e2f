UPDATE storage_reaper.control SET paused = $1
