-- What waits for a day: no cache keeps anything for so long, as a rule. And what nobody is to be told of any more.
WITH old AS (
         DELETE FROM storage_reaper.purge_entry e
         WHERE e.created_at < pg_catalog.clock_timestamp() - interval '1 day'
            OR NOT EXISTS (SELECT FROM storage_reaper.purge p WHERE p.id = e.purge_id)
         RETURNING e.purge_id, e.urls),
     of_purge AS (SELECT old.purge_id, pg_catalog.sum(old.urls) AS urls FROM old GROUP BY old.purge_id)
UPDATE storage_reaper.purge p SET given_up = p.given_up + of_purge.urls
FROM of_purge WHERE p.id = of_purge.purge_id
