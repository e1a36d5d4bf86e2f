-- Due after a while ($2, in milliseconds), waiting since $3 or now.
INSERT INTO storage_reaper.purge_entry (purge_id, due_at, created_at, attempts, urls, payload)
SELECT n.purge_id, pg_catalog.clock_timestamp() + $2 * interval '1 millisecond', coalesce($3, pg_catalog.clock_timestamp()), $4, n.urls, n.payload
FROM ROWS FROM (pg_catalog.unnest($1::integer[]), pg_catalog.unnest($5::smallint[]), pg_catalog.unnest($6::bytea[]))
    AS n (purge_id, urls, payload)
