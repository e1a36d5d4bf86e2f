-- Whether this database may delete, and who does it.
SELECT f.severity, f.subject, f.finding, f.remedy
FROM storage_reaper.status s
CROSS JOIN LATERAL (VALUES
    (s.worker_pid IS NULL, 'error', 'worker', 'no worker serves this database: nothing is deleted',
     CASE WHEN s.preloaded THEN pg_catalog.format('SELECT storage_reaper.start_worker(); or ALTER SYSTEM SET storage_reaper.database = %L; and restart', pg_catalog.current_database())
          ELSE 'ALTER SYSTEM SET shared_preload_libraries = ''storage_reaper''; and restart, or SELECT storage_reaper.start_worker();' END),
    (NOT s.preloaded, 'warning', 'shared_preload_libraries', 'the library is not loaded with the server: the worker does not start by itself and looks once a second, and DROP of an attached table is refused',
     'ALTER SYSTEM SET shared_preload_libraries = ''storage_reaper''; with what stands there already, and restart'),
    (s.preloaded AND s.worker_kind = 'dynamic', 'notice', 'worker', 'the worker does not start again by itself after a restart of the server',
     pg_catalog.format('ALTER SYSTEM SET storage_reaper.database = %L; and restart', pg_catalog.current_database())),
    (s.state = 'observe', 'warning', 'arming', 'everything is captured and nothing is deleted',
     'SELECT storage_reaper.arm();'),
    (s.state = 'disarmed', 'warning', 'arming', 'this is a copy of the database that was armed: nothing is deleted',
     'SELECT storage_reaper.arm(); if the other one is off, else SELECT storage_reaper.disarm();'),
    (s.paused, 'warning', 'pause', 'everything is paused', 'SELECT storage_reaper.resume();')
) AS f (is_so, severity, subject, finding, remedy)
WHERE f.is_so
