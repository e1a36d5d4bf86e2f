-- Tables that carry the source's triggers, and have none of its columns' numbers recorded yet.
INSERT INTO storage_reaper.covered (source_id, relation, attnums)
SELECT s.id, g.tgrelid, ARRAY(SELECT coalesce(c.number, 0::smallint) FROM storage_reaper.source_columns(s.id, g.tgrelid) c ORDER BY c.place)
FROM storage_reaper.source s
JOIN pg_catalog.pg_trigger g
    ON g.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)::name AND g.tgfoid = 'storage_reaper.capture()'::regprocedure
WHERE s.id = $1 AND s.bound = s.relation::oid
ON CONFLICT (source_id, relation) DO NOTHING
