UPDATE storage_reaper.entry SET payload = $5, objects = $6 WHERE source_id = $1 AND backend_id = $2 AND due_at = $3 AND id = $4
