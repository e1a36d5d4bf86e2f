-- An entry is touched only when every transaction that was writing at its capture has ended: until then a reference may
-- be written that no snapshot shows. A horizon beyond the next id ($4) comes from another server, by a restore.
-- Strands take turns, an entry each, beginning behind the one that was served last ($5, $6): a long one delays no other.
WITH strand AS MATERIALIZED (
    SELECT t.source_id, t.backend_id, t.serves
    FROM storage_reaper.strand t
    WHERE NOT t.is_stopped AND coalesce(t.serves, 0) <> ALL ($2::integer[])
      AND EXISTS (SELECT FROM storage_reaper.entry e
                  WHERE e.source_id = t.source_id AND e.backend_id = t.backend_id
                    AND e.due_at <= (SELECT pg_catalog.clock_timestamp()))
), part AS (
    SELECT greatest($3 / greatest(pg_catalog.count(*), 1), 1) AS entries FROM strand
), picked AS MATERIALIZED (
    SELECT t.source_id, t.backend_id, t.serves, due.due_at, due.id, due.turn, due.turn = p.entries AS is_last_turn
    FROM strand t
    CROSS JOIN part p
    CROSS JOIN LATERAL (
        SELECT e.due_at, e.id, pg_catalog.row_number() OVER (ORDER BY e.due_at, e.id) AS turn
        FROM storage_reaper.entry e
        CROSS JOIN (SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS oldest OFFSET 0) here
        WHERE e.source_id = t.source_id AND e.backend_id = t.backend_id
          AND e.due_at <= (SELECT pg_catalog.clock_timestamp())
          AND (e.horizon <= here.oldest OR e.horizon > $4::text::xid8)
          AND e.id <> ALL ($1::bigint[])
        ORDER BY e.due_at, e.id
        LIMIT p.entries) due
)
SELECT e.id, e.due_at, e.captured_at,
       (pg_catalog.date_part('epoch', e.captured_at) * 1000000)::bigint AS captured_us, e.whole, e.horizon::text AS horizon,
       e.source_id AS strand_source, e.backend_id AS strand_backend, nullif(e.source_id, 0) AS source_id, p.serves AS backend_id,
       e.attempts, e.payload, e.last_error, e.fault,
       e.derivation_id, coalesce(e.is_prefix, false) AS is_prefix, coalesce(d.is_required, true) AS is_required, d.max_objects,
       p.is_last_turn
FROM picked p
JOIN storage_reaper.entry e
    ON e.source_id = p.source_id AND e.backend_id = p.backend_id AND e.due_at = p.due_at AND e.id = p.id
LEFT JOIN storage_reaper.derivation d ON d.id = e.derivation_id
ORDER BY p.turn, (e.source_id, e.backend_id) <= ($5::integer, $6::integer), e.source_id, e.backend_id
FOR UPDATE OF e SKIP LOCKED
