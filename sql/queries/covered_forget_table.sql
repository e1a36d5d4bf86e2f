-- Its oid may name another table one day.
DELETE FROM storage_reaper.covered WHERE relation = $1
