-- So many URLs ($2) were told ($3), or given up. The service listens.
UPDATE storage_reaper.purge p
SET done = p.done + CASE WHEN $3 THEN $2 ELSE 0 END, given_up = p.given_up + CASE WHEN $3 THEN 0 ELSE $2 END,
    failed_since = NULL, last_error = $4
FROM (SELECT id FROM storage_reaper.purge WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED) free
WHERE p.id = free.id
