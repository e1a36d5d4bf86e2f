-- Who holds the lock of the leader; unlike pg_stat_activity, pg_locks is not cached in a transaction.
SELECT l.pid
FROM pg_catalog.pg_locks l
WHERE l.locktype = 'userlock' AND l.granted
  AND l.classid = 1397900609 AND l.objid = 1346720305 AND l.objsubid = 2
  AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
LIMIT 1
