-- Not told: later ($4, in milliseconds), and what the service said.
WITH later AS (
    UPDATE storage_reaper.purge_entry SET due_at = pg_catalog.clock_timestamp() + $4 * interval '1 millisecond', attempts = $5
    WHERE purge_id = $1 AND due_at = $2 AND id = $3 RETURNING purge_id)
UPDATE storage_reaper.purge p SET failed_since = coalesce(p.failed_since, pg_catalog.clock_timestamp()), last_error = $6
FROM later
WHERE p.id = later.purge_id
