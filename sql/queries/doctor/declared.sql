-- Sources and references that are held, paused or cannot be asked.
SELECT f.severity, pg_catalog.concat(CASE WHEN s.captures THEN 'source ' ELSE 'reference ' END, s.name) AS subject, f.finding, f.remedy
FROM storage_reaper.source s
CROSS JOIN LATERAL (VALUES
    (s.held_since IS NOT NULL, 'error', pg_catalog.format('held since %s by the mass-delete breaker: %s', pg_catalog.date_trunc('second', s.held_since), s.held_reason),
     pg_catalog.format('If it was meant: SELECT storage_reaper.release(%L);', s.name)),
    (s.fault IS NOT NULL AND s.detached_at IS NULL, 'error', pg_catalog.concat('nothing is deleted, since it cannot be asked: ', s.fault),
     pg_catalog.format('Mend the cause, or SELECT storage_reaper.%s(%L);', CASE WHEN s.captures THEN 'detach' ELSE 'unprotect' END, s.name)),
    (s.paused AND s.detached_at IS NULL, 'warning', 'paused', pg_catalog.format('SELECT storage_reaper.resume(source => %L);', s.name)),
    (s.allow_scan AND s.detached_at IS NULL, 'notice', 'the whole table may be read before each deletion: allow_scan is set',
     'Create the index that attach() or protect() asks for without allow_scan, and call it again.')
) AS f (is_so, severity, finding, remedy)
WHERE f.is_so
