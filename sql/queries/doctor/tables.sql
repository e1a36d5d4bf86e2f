-- Tables that cannot be asked, or not be captured.
WITH RECURSIVE tree AS (
    SELECT s.id, s.name, s.captures, s.relation::oid AS relation FROM storage_reaper.source s WHERE s.detached_at IS NULL
    UNION
    SELECT t.id, t.name, t.captures, i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.relation
)
SELECT f.severity, pg_catalog.concat('table ', t.relation::regclass) AS subject, f.finding, f.remedy
FROM tree t
JOIN pg_catalog.pg_class c ON c.oid = t.relation
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner
CROSS JOIN LATERAL (VALUES
    (c.relrowsecurity AND c.relforcerowsecurity AND NOT r.rolbypassrls AND NOT r.rolsuper, 'error',
     'row security is forced on its owner: the reference check fails, and nothing is deleted',
     pg_catalog.format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY; or ALTER ROLE %I BYPASSRLS;', t.relation::regclass, r.rolname)),
    (t.captures AND c.relpersistence = 'u', 'warning', 'it is unlogged: a crash empties it, and captures nothing',
     pg_catalog.format('ALTER TABLE %s SET LOGGED;', t.relation::regclass)),
    (c.relkind = 'f', 'warning', pg_catalog.concat('it is a foreign table below ', t.name, ': its rows change where no trigger sees it'),
     'Attach the table where it lies.')
) AS f (is_so, severity, finding, remedy)
WHERE f.is_so
UNION ALL
SELECT 'error', pg_catalog.concat(CASE WHEN s.captures THEN 'source ' ELSE 'reference ' END, s.name),
       pg_catalog.format('column %I does not exist any more', c.name),
       pg_catalog.format('Declare it anew, or SELECT storage_reaper.%s(%L);', CASE WHEN s.captures THEN 'detach' ELSE 'unprotect' END, s.name)
FROM storage_reaper.source s
CROSS JOIN LATERAL storage_reaper.source_columns(s.id, s.relation::oid) c
WHERE s.detached_at IS NULL AND c.number IS NULL
