-- What is wanted anew, or of an altered backend, is asked again.
UPDATE storage_reaper.backend
SET probe_prefix = NULL, probe_wanted = NULL, probed_at = pg_catalog.clock_timestamp(), probe_error = $3,
    takes_batches = coalesce($4, takes_batches),
    keeps_versions = coalesce($5, keeps_versions),
    honours_if_match = CASE WHEN verify = 'if-match' THEN coalesce($6, honours_if_match) END
WHERE id = $1 AND probe_wanted = $2
