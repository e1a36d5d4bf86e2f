UPDATE storage_reaper.entry SET payload = $3, objects = $4 WHERE due_at = $1 AND id = $2
