-- Told ($4), or given up. What somebody else is changing is left: it is told once more.
WITH gone AS (
         DELETE FROM storage_reaper.purge_entry e
         USING (SELECT k.due_at, k.id FROM storage_reaper.purge_entry k
                WHERE k.purge_id = $1 AND (k.due_at, k.id) IN (SELECT * FROM ROWS FROM (pg_catalog.unnest($2::timestamptz[]), pg_catalog.unnest($3::bigint[])))
                FOR UPDATE SKIP LOCKED) k
         WHERE e.purge_id = $1 AND e.due_at = k.due_at AND e.id = k.id
         RETURNING e.urls),
     counted AS (SELECT pg_catalog.count(*) AS entries, coalesce(pg_catalog.sum(urls), 0) AS urls FROM gone),
     free AS (SELECT p.id FROM storage_reaper.purge p WHERE p.id = $1 FOR NO KEY UPDATE SKIP LOCKED),
     noted AS (
         UPDATE storage_reaper.purge p
         SET done = p.done + CASE WHEN $4 THEN counted.urls ELSE 0 END,
             given_up = p.given_up + CASE WHEN $4 THEN 0 ELSE counted.urls END,
             failed_since = NULL, last_error = $5
         FROM counted, free
         WHERE p.id = free.id)
SELECT counted.entries FROM counted
