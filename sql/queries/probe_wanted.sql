-- Wanted here: a copy of the database asks nobody.
SELECT b.id, b.probe_prefix, b.probe_wanted
FROM storage_reaper.backend b
WHERE NOT b.paused
  AND pg_catalog.starts_with(
          b.probe_wanted,
          pg_catalog.format('%s/%s/', (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s),
                            (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())))
