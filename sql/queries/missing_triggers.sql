-- The table itself and everything below it. Statement triggers do not spread to partitions by themselves, and a
-- parent's does not fire for a statement that names the partition. Foreign tables have no transition tables.
WITH RECURSIVE tree AS (
    SELECT s.id, s.relation::oid AS relation, 0 AS level, s.captures, s.fenced FROM storage_reaper.source s WHERE s.id = $1
    UNION
    SELECT t.id, i.inhrelid, t.level + 1, t.captures, t.fenced FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.relation
)
SELECT pg_catalog.format('CREATE TRIGGER %I %s ON %I.%I %s FOR EACH STATEMENT EXECUTE FUNCTION storage_reaper.%s(%L)',
                         w.name, w.event, n.nspname, c.relname, w.tables, w.function, t.id) AS statement
FROM tree t
JOIN pg_catalog.pg_class c ON c.oid = t.relation AND c.relkind IN ('r', 'p')
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (VALUES
    (pg_catalog.format('storage_reaper_%s_delete', t.id), 'AFTER DELETE', 'REFERENCING OLD TABLE AS storage_reaper_old', 'capture', t.captures),
    (pg_catalog.format('storage_reaper_%s_update', t.id), 'AFTER UPDATE', 'REFERENCING OLD TABLE AS storage_reaper_old NEW TABLE AS storage_reaper_new', 'capture', t.captures),
    (pg_catalog.format('storage_reaper_%s_truncate', t.id), 'BEFORE TRUNCATE', '', 'capture', t.captures),
    (pg_catalog.format('storage_reaper_%s_fence_insert', t.id), 'AFTER INSERT', 'REFERENCING NEW TABLE AS storage_reaper_new', 'fence', t.fenced),
    (pg_catalog.format('storage_reaper_%s_fence_update', t.id), 'AFTER UPDATE', 'REFERENCING OLD TABLE AS storage_reaper_old NEW TABLE AS storage_reaper_new', 'fence', t.fenced))
    AS w (name, event, tables, function, is_wanted)
WHERE w.is_wanted AND NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = t.relation AND g.tgname = w.name::name)
GROUP BY t.relation, w.name, w.event, w.tables, w.function, n.nspname, c.relname, t.id
ORDER BY pg_catalog.max(t.level), t.relation, w.name
