UPDATE storage_reaper.backend
SET probe_prefix = $2,
    probe_wanted = pg_catalog.format('%s/%s/%s', (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s),
                                     (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()),
                                     pg_catalog.clock_timestamp())
WHERE name = $1
RETURNING id
