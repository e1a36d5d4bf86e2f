-- Tables that belong to the source, and have none of its columns' numbers recorded yet: those that carry its triggers, or, of
-- one that only protects, its table and everything below.
WITH RECURSIVE tree AS (
    SELECT s.id, s.relation::oid AS relation FROM storage_reaper.source s WHERE s.id = $1 AND NOT s.captures
    UNION
    SELECT t.id, i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.relation
), covers AS (
    SELECT s.id, g.tgrelid AS relation
    FROM storage_reaper.source s
    JOIN pg_catalog.pg_trigger g
        ON g.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)::name AND g.tgfoid = 'storage_reaper.capture()'::regprocedure
    WHERE s.id = $1
    UNION
    SELECT t.id, t.relation FROM tree t
)
INSERT INTO storage_reaper.covered (source_id, relation, attnums)
SELECT s.id, o.relation, ARRAY(SELECT coalesce(c.number, 0::smallint) FROM storage_reaper.source_columns(s.id, o.relation) c ORDER BY c.place)
FROM storage_reaper.source s JOIN covers o ON o.id = s.id
WHERE s.bound = s.relation::oid
ON CONFLICT (source_id, relation) DO NOTHING
