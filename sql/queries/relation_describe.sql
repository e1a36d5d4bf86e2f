SELECT c.relname::text AS name, n.nspname::text AS schema, c.relkind::text AS kind, c.relpersistence = 't' AS is_temporary
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = $1
