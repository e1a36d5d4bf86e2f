-- Tables on which a trigger of ours is missing, or does not fire.
WITH RECURSIVE tree AS (
    SELECT s.id, s.name, s.relation::oid AS relation, s.captures, s.fenced FROM storage_reaper.source s
    WHERE s.detached_at IS NULL AND s.bound = s.relation::oid
    UNION
    SELECT t.id, t.name, i.inhrelid, t.captures, t.fenced FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.relation
), wanted AS (
    SELECT t.id, t.name, t.relation, pg_catalog.format(w.pattern, t.id) AS trigger
    FROM tree t
    JOIN pg_catalog.pg_class c ON c.oid = t.relation AND c.relkind IN ('r', 'p')
    CROSS JOIN LATERAL (VALUES
        ('storage_reaper_%s_delete', t.captures), ('storage_reaper_%s_update', t.captures), ('storage_reaper_%s_truncate', t.captures),
        ('storage_reaper_%s_fence_insert', t.fenced), ('storage_reaper_%s_fence_update', t.fenced)) AS w (pattern, is_wanted)
    WHERE w.is_wanted
)
SELECT 'error' AS severity, pg_catalog.concat('table ', w.relation::regclass) AS subject,
       pg_catalog.format('trigger %I is missing: what its statements let go is not captured, or not fenced', w.trigger) AS finding,
       pg_catalog.format('Call attach() or protect() again for %s.', w.name) AS remedy
FROM wanted w
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgrelid = w.relation AND g.tgname = w.trigger::name)
UNION ALL
SELECT 'error', pg_catalog.concat('table ', g.tgrelid::regclass),
       pg_catalog.format('trigger %I is %s: what its statements let go is not captured, or not fenced', g.tgname,
                         CASE g.tgenabled WHEN 'D' THEN 'disabled' ELSE 'enabled for replica sessions only' END),
       pg_catalog.format('ALTER TABLE %s ENABLE TRIGGER %I;', g.tgrelid::regclass, g.tgname)
FROM pg_catalog.pg_trigger g
WHERE g.tgfoid IN ('storage_reaper.capture()'::regprocedure, 'storage_reaper.fence()'::regprocedure) AND g.tgenabled IN ('D', 'R')
UNION ALL
SELECT 'error', pg_catalog.concat('event trigger ', e.evtname), 'it is disabled: new partitions are not covered, renames not followed, drops not refused',
       pg_catalog.format('ALTER EVENT TRIGGER %I ENABLE;', e.evtname)
FROM pg_catalog.pg_event_trigger e
WHERE e.evtname IN ('storage_reaper_on_ddl_end', 'storage_reaper_on_drop') AND e.evtenabled IN ('D', 'R')
UNION ALL
SELECT 'warning', pg_catalog.concat_ws(' ', CASE WHEN d.setrole <> 0 THEN 'role ' || pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(d.setrole)) END,
                                       CASE WHEN d.setdatabase <> 0 THEN 'database ' || pg_catalog.quote_ident(pg_catalog.current_database()) END),
       'its sessions fire no ordinary trigger: what they delete is not captured',
       'RESET session_replication_role for it, with ALTER ROLE or ALTER DATABASE.'
FROM pg_catalog.pg_db_role_setting d
WHERE d.setdatabase IN (0, (SELECT b.oid FROM pg_catalog.pg_database b WHERE b.datname = pg_catalog.current_database()))
  AND EXISTS (SELECT FROM pg_catalog.unnest(d.setconfig) AS c (line) WHERE c.line = 'session_replication_role=replica')
