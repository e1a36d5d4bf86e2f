SELECT EXISTS (SELECT FROM pg_catalog.pg_extension e WHERE e.extname = 'storage_reaper') AS installed
