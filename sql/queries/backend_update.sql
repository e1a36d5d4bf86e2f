UPDATE storage_reaper.backend
SET kind = $2, endpoint = $3, bucket = $4, region = $5, addressing = $6, credentials = $7, verify = $8, honours_if_match = NULL,
    versions = $9, batch_size = $10, rate_limit = $11, takes_batches = NULL, keeps_versions = NULL, clock_ahead_s = NULL,
    probed_at = NULL, probe_error = NULL, probe_wanted = probe_wanted || '+', held_since = NULL, held_reason = NULL
WHERE name = $1
RETURNING id
