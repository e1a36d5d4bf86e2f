WITH gone AS (DELETE FROM storage_reaper.purge WHERE url_base = $1 RETURNING id),
     untold AS (DELETE FROM storage_reaper.purge_entry e USING gone WHERE e.purge_id = gone.id)
SELECT gone.id FROM gone
