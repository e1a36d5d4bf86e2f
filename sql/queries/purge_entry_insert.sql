INSERT INTO storage_reaper.purge_entry (purge_id, urls, payload)
SELECT n.purge_id, n.urls, n.payload
FROM ROWS FROM (pg_catalog.unnest($1::integer[]), pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::bytea[]))
    AS n (purge_id, urls, payload)
