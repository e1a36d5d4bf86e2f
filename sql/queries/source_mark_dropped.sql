-- A partition that was detached before is still covered: the source lives on there.
WITH heir AS (
    SELECT s.id, pg_catalog.min(t.tgrelid::bigint)::oid AS relation
    FROM storage_reaper.source s
    JOIN pg_catalog.pg_trigger t
        ON t.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)::name
           AND t.tgfoid = 'storage_reaper.capture()'::regprocedure AND t.tgrelid <> $1
    WHERE s.relation::oid = $1 AND s.bound = $1 AND s.detached_at IS NULL AND s.captures
    GROUP BY s.id
)
-- What only protects stays, so that nothing is deleted until somebody has said that it may go.
UPDATE storage_reaper.source s
SET relation = coalesce(h.relation, s.relation::oid)::regclass, bound = coalesce(h.relation, s.bound),
    columns = CASE WHEN h.relation IS NULL THEN s.columns ELSE ARRAY(
        SELECT c.name::text FROM storage_reaper.source_columns(s.id, h.relation) c ORDER BY c.place) END,
    attnums = CASE WHEN h.relation IS NULL THEN s.attnums ELSE ARRAY(
        SELECT coalesce(c.number, 0::smallint) FROM storage_reaper.source_columns(s.id, h.relation) c ORDER BY c.place) END,
    detached_at = CASE WHEN h.relation IS NULL THEN pg_catalog.clock_timestamp() END
FROM storage_reaper.source o LEFT JOIN heir h ON h.id = o.id
WHERE o.id = s.id AND s.relation::oid = $1 AND s.bound = $1 AND s.detached_at IS NULL AND s.captures
RETURNING CASE WHEN h.relation IS NOT NULL THEN s.id END AS heir
