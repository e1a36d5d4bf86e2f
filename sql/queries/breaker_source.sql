-- When the source was released, and the rows that it has left: an estimate, the higher one of the planner's and the
-- statistics'.
WITH RECURSIVE tree AS (
    SELECT s.relation::oid AS relation FROM storage_reaper.source s WHERE s.id = $1
    UNION
    SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN tree t ON i.inhparent = t.relation
)
SELECT (SELECT (pg_catalog.date_part('epoch', s.released_at) * 1000000)::bigint FROM storage_reaper.source s WHERE s.id = $1) AS released_us,
       coalesce((SELECT pg_catalog.sum(greatest(c.reltuples, pg_catalog.pg_stat_get_live_tuples(c.oid), 0))
                 FROM tree t JOIN pg_catalog.pg_class c ON c.oid = t.relation WHERE c.relkind = 'r'), 0)::bigint AS live
