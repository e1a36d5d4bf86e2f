DELETE FROM storage_reaper.settlement h
WHERE h.ctid = ANY (ARRAY(
    SELECT o.ctid FROM storage_reaper.settlement o
    WHERE o.settled_at < pg_catalog.clock_timestamp() - $1 * interval '1 second'
    ORDER BY o.settled_at LIMIT 1000))
