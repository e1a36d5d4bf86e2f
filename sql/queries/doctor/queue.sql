-- What waits, and for whom.
SELECT 'warning' AS severity, 'parked objects' AS subject,
       pg_catalog.format('%s wait for a person: %s%s', pg_catalog.count(*), p.reason,
                         coalesce(', such as: ' || pg_catalog.min(p.last_error), '')) AS finding,
       'See storage_reaper.parked; then SELECT * FROM storage_reaper.retry(…); or storage_reaper.discard(…);' AS remedy
FROM storage_reaper.parked_object p
GROUP BY p.reason
UNION ALL
SELECT 'warning', 'queue', pg_catalog.format('%s objects are due since %s or later', pg_catalog.sum(e.objects), pg_catalog.date_trunc('second', pg_catalog.min(e.due_at))),
       'See the other findings; else an old transaction may hold them back: SELECT * FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start;'
FROM storage_reaper.entry e
CROSS JOIN (SELECT * FROM storage_reaper.arming_state LIMIT 1) a
WHERE a.state = 'armed' AND NOT a.paused AND e.due_at < pg_catalog.clock_timestamp() - interval '15 minutes'
HAVING pg_catalog.count(*) > 0
UNION ALL
SELECT 'warning', pg_catalog.format('purge "%s"', p.url_base),
       pg_catalog.format('its service does not listen since %s: %s', pg_catalog.date_trunc('second', p.failed_since), p.last_error),
       'Put right what it says; after a change of the credentials file it is tried at once: SELECT pg_catalog.pg_reload_conf();'
FROM storage_reaper.purge p
WHERE p.failed_since IS NOT NULL
UNION ALL
SELECT 'notice', 'history', pg_catalog.concat('it takes ', pg_catalog.pg_size_pretty(pg_catalog.pg_total_relation_size('storage_reaper.settlement'))),
       'ALTER SYSTEM SET storage_reaper.history_retention to less than ' || pg_catalog.current_setting('storage_reaper.history_retention', true) || ', if nobody needs it.'
WHERE pg_catalog.pg_total_relation_size('storage_reaper.settlement') > 10::bigint * 1024 * 1024 * 1024
