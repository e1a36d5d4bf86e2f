-- Each alone from now on: one of several that were refused may be to blame.
WITH gone AS (
         DELETE FROM storage_reaper.purge_entry e
         USING (SELECT k.due_at, k.id FROM storage_reaper.purge_entry k
                WHERE k.purge_id = $1 AND (k.due_at, k.id) IN (SELECT * FROM ROWS FROM (pg_catalog.unnest($2::timestamptz[]), pg_catalog.unnest($3::bigint[])))
                FOR UPDATE SKIP LOCKED) k
         WHERE e.purge_id = $1 AND e.due_at = k.due_at AND e.id = k.id
         RETURNING e.created_at),
     begun AS (SELECT pg_catalog.count(*) AS entries, pg_catalog.min(created_at) AS created_at FROM gone),
     halves AS (
         INSERT INTO storage_reaper.purge_entry (purge_id, due_at, created_at, attempts, urls, payload)
         SELECT $1, pg_catalog.clock_timestamp() + $4 * interval '1 millisecond', begun.created_at, $5, n.urls, n.payload
         FROM begun, ROWS FROM (pg_catalog.unnest($6::smallint[]), pg_catalog.unnest($7::bytea[])) AS n (urls, payload)
         WHERE begun.entries = pg_catalog.cardinality($3::bigint[]))
SELECT begun.entries FROM begun
