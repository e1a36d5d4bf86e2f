-- Refuses to install into a schema that somebody else prepared: its owner could have planted functions there.
DO $$
DECLARE
    schema_owner text;
BEGIN
    -- Keys in storage are UTF-8, and a text that a conversion has touched may name another object.
    IF (SELECT d.encoding FROM pg_catalog.pg_database d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
       OPERATOR(pg_catalog.<>) pg_catalog.pg_char_to_encoding('UTF8') THEN
        RAISE EXCEPTION 'storage_reaper needs a database whose encoding is UTF8'
            USING ERRCODE = 'feature_not_supported',
                  DETAIL = pg_catalog.format('The encoding of this database is %s.', pg_catalog.current_setting('server_encoding')),
                  HINT = 'Create a database with ENCODING ''UTF8'' and move the data there with pg_dump.';
    END IF;
    SELECT pg_catalog.pg_get_userbyid(n.nspowner) INTO schema_owner
    FROM pg_catalog.pg_namespace n
    WHERE n.nspname OPERATOR(pg_catalog.=) 'storage_reaper'
      AND n.nspowner OPERATOR(pg_catalog.<>) (SELECT r.oid FROM pg_catalog.pg_roles r WHERE r.rolname OPERATOR(pg_catalog.=) CURRENT_USER);
    IF schema_owner IS NOT NULL THEN
        RAISE EXCEPTION 'schema "storage_reaper" already exists and belongs to "%"', schema_owner
            USING ERRCODE = 'duplicate_schema',
                  DETAIL = 'The extension keeps its tables and functions in a schema of its own.',
                  HINT = 'Drop or rename that schema, then run CREATE EXTENSION again.';
    END IF;
END
$$;
