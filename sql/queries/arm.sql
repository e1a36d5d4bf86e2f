INSERT INTO storage_reaper.arming (singleton, system_identifier, database_oid, database_name, armed_at, armed_by)
SELECT true, (SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s), d.oid, d.datname,
       pg_catalog.clock_timestamp(), $1
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
ON CONFLICT (singleton) DO UPDATE
SET system_identifier = excluded.system_identifier, database_oid = excluded.database_oid,
    database_name = excluded.database_name, armed_at = excluded.armed_at, armed_by = excluded.armed_by
