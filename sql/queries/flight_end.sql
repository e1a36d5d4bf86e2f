-- The horizon of one that is unclear is taken when it is clear.
UPDATE storage_reaper.flight
SET ended_at = pg_catalog.clock_timestamp(), gone = $3, unclear = $4,
    end_horizon = CASE WHEN pg_catalog.length($4) = 0 THEN $2::text::xid8 END,
    unclear_until = CASE WHEN pg_catalog.length($4) > 0 THEN pg_catalog.clock_timestamp() + $5 * interval '1 millisecond' END
WHERE id = $1
