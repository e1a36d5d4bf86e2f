-- Stores that nothing is sent to, or that do less than they are asked to.
SELECT f.severity, pg_catalog.concat('backend ', b.name) AS subject, f.finding, f.remedy
FROM storage_reaper.backends b
CROSS JOIN LATERAL (VALUES
    (b.held_since IS NOT NULL, 'error', pg_catalog.format('held since %s: %s', pg_catalog.date_trunc('second', b.held_since), b.held_reason),
     'Mend the cause; it is tried again by itself, and at once after SELECT pg_catalog.pg_reload_conf();'),
    (b.keeps_versions AND b.versions = 'current', 'warning', 'the bucket keeps versions: deletions free no bytes',
     pg_catalog.format('SELECT storage_reaper.alter_backend(%L, versions => ''all''); -- or let a lifecycle rule of the bucket expire old versions', b.name)),
    (b.probe_error IS NOT NULL AND b.held_since IS NULL, 'warning', pg_catalog.format('did not let a probe delete: %s', b.probe_error),
     pg_catalog.format('SELECT storage_reaper.probe_backend(%L); -- once that is mended, or with prefix => ''…/'' where the right to delete is for a part of the bucket', b.name)),
    (b.clock_ahead IS NOT NULL, 'warning', pg_catalog.format('its clock is %s ahead of this server''s; requests are signed by its time', b.clock_ahead),
     'Put this server''s clock right, for instance: timedatectl set-ntp true'),
    (b.paused, 'warning', 'paused', pg_catalog.format('SELECT storage_reaper.resume(backend => %L);', b.name)),
    (b.verify = 'if-match' AND NOT b.honours_if_match, 'warning', 'the store deletes whatever version there is: verify ''if-match'' does what ''head'' does',
     pg_catalog.format('SELECT storage_reaper.alter_backend(%L, verify => ''head'');', b.name))
) AS f (is_so, severity, finding, remedy)
WHERE f.is_so
