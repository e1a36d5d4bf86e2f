-- Nobody needs a flight any more when all that were writing before it ended have ended.
DELETE FROM storage_reaper.flight WHERE end_horizon <= pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())
