SELECT DISTINCT g.tgrelid AS relation FROM pg_catalog.pg_trigger g WHERE g.tgfoid = 'storage_reaper.fence()'::regprocedure
