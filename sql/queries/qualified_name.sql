SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = $1
