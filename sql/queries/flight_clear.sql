-- Whoever began to write while a flight was unclear still has to see it.
UPDATE storage_reaper.flight SET end_horizon = $1::text::xid8
WHERE end_horizon IS NULL AND unclear_until < pg_catalog.clock_timestamp()
