-- Flights that writers may have to know of, and milliseconds until the first is clear, if none is to be forgotten before.
SELECT pg_catalog.count(*) AS flights, pg_catalog.count(*) FILTER (WHERE ended_at IS NOT NULL) AS ended,
       CASE WHEN pg_catalog.bool_and(end_horizon IS NULL) THEN
           (pg_catalog.date_part('epoch', pg_catalog.min(unclear_until) - pg_catalog.clock_timestamp()) * 1000)::bigint + 1 END AS wait_ms
FROM storage_reaper.flight
