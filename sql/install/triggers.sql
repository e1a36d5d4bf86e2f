CREATE FUNCTION storage_reaper.capture() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'storage_reaper_capture';
COMMENT ON FUNCTION storage_reaper.capture() IS
    'Private. Trigger function: writes the objects that a statement let go into the outbox.';

CREATE FUNCTION storage_reaper.fence() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'storage_reaper_fence';
COMMENT ON FUNCTION storage_reaper.fence() IS
    'Private. Trigger function: a statement that names an object in flight waits, and fails if the object is gone.';

CREATE FUNCTION storage_reaper.on_ddl_end() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    altered oid;
BEGIN
    FOR altered IN
        SELECT DISTINCT c.objid FROM pg_catalog.pg_event_trigger_ddl_commands() c
        WHERE c.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
          AND c.object_type IN ('table', 'table column')
    LOOP
        PERFORM storage_reaper.follow_ddl(altered);
    END LOOP;
END
$$;
COMMENT ON FUNCTION storage_reaper.on_ddl_end() IS
    'Private. Event trigger function: new partitions and children are covered, renamed columns are followed.';

CREATE FUNCTION storage_reaper.on_drop() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    FOR gone IN
        SELECT d.objid, d.object_identity,
               ARRAY(SELECT t.address_names[3] FROM pg_catalog.pg_event_trigger_dropped_objects() t
                     WHERE t.object_type = 'trigger' AND t.address_names[1:2] = d.address_names) AS triggers
        FROM pg_catalog.pg_event_trigger_dropped_objects() d
        WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
          AND d.objsubid = 0 AND d.object_type = 'table'
    LOOP
        PERFORM storage_reaper.follow_drop(gone.objid, gone.object_identity, gone.triggers);
    END LOOP;
END
$$;
COMMENT ON FUNCTION storage_reaper.on_drop() IS
    'Private. Event trigger function: refuses to drop a table whose objects could not be captured first.';

CREATE EVENT TRIGGER storage_reaper_on_ddl_end ON ddl_command_end
    WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE', 'CREATE SCHEMA')
    EXECUTE FUNCTION storage_reaper.on_ddl_end();

CREATE EVENT TRIGGER storage_reaper_on_drop ON sql_drop
    EXECUTE FUNCTION storage_reaper.on_drop();
