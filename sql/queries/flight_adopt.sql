-- What another leader left behind: its requests may have been carried out, or may still be, if any was sent.
UPDATE storage_reaper.flight
SET ended_at = pg_catalog.clock_timestamp(),
    gone = CASE WHEN sent_at IS NULL THEN '' ELSE marks END, unclear = CASE WHEN sent_at IS NULL THEN '' ELSE marks END,
    end_horizon = CASE WHEN sent_at IS NULL THEN $1::text::xid8 END,
    unclear_until = CASE WHEN sent_at IS NOT NULL THEN pg_catalog.clock_timestamp() + $2 * interval '1 millisecond' END
WHERE ended_at IS NULL
