UPDATE storage_reaper.source SET fault = $2 WHERE id = $1 AND fault IS DISTINCT FROM $2
