-- Told ($4), or given up.
WITH gone AS (DELETE FROM storage_reaper.purge_entry WHERE purge_id = $1 AND due_at = $2 AND id = $3 RETURNING urls)
UPDATE storage_reaper.purge p
SET done = p.done + CASE WHEN $4 THEN gone.urls ELSE 0 END, given_up = p.given_up + CASE WHEN $4 THEN 0 ELSE gone.urls END,
    failed_since = CASE WHEN $4 THEN NULL ELSE p.failed_since END, last_error = coalesce($5, CASE WHEN $4 THEN NULL ELSE p.last_error END)
FROM gone
WHERE p.id = $1
