-- The service does not listen.
UPDATE storage_reaper.purge p SET failed_since = coalesce(p.failed_since, pg_catalog.clock_timestamp()), last_error = $2
FROM (SELECT id FROM storage_reaper.purge WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED) free
WHERE p.id = free.id
