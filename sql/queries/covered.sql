SELECT DISTINCT g.tgrelid AS relation
FROM pg_catalog.pg_trigger g
WHERE g.tgfoid = 'storage_reaper.capture()'::regprocedure AND g.tgname = pg_catalog.format('storage_reaper_%s_delete', $1)::name
   OR g.tgfoid = 'storage_reaper.fence()'::regprocedure AND g.tgname = pg_catalog.format('storage_reaper_%s_fence_insert', $1)::name
