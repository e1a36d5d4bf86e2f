UPDATE storage_reaper.backend SET honours_if_match = $2 WHERE id = $1 AND honours_if_match IS DISTINCT FROM $2
