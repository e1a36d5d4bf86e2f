-- Of the store that was asked: if it was altered since, it is asked again.
UPDATE storage_reaper.backend
SET probe_prefix = NULL, probed_at = pg_catalog.clock_timestamp(), probe_error = $5,
    takes_batches = coalesce($6, takes_batches),
    keeps_versions = coalesce($7, keeps_versions),
    honours_if_match = CASE WHEN verify = 'if-match' THEN coalesce($8, honours_if_match) END
WHERE id = $1 AND probe_prefix = $2 AND endpoint = $3 AND bucket = $4
