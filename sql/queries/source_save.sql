-- A name belongs to one table, and to one role of it: saving it for another one touches nothing.
INSERT INTO storage_reaper.source AS s
    (name, relation, bound, kind, columns, attnums, locator, filter, backend_id, grace, on_update, on_truncate, alias, captures, row_of, allow_scan, fenced, owns, is_shared, document, member, immutable)
VALUES ($1, $2::regclass, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)
ON CONFLICT (name) WHERE detached_at IS NULL DO UPDATE
SET bound = excluded.bound, kind = excluded.kind, columns = excluded.columns, attnums = excluded.attnums,
    locator = excluded.locator, filter = excluded.filter, backend_id = excluded.backend_id, grace = excluded.grace,
    on_update = excluded.on_update, on_truncate = excluded.on_truncate, alias = excluded.alias, row_of = excluded.row_of, allow_scan = excluded.allow_scan, fenced = excluded.fenced, owns = excluded.owns, is_shared = excluded.is_shared,
    document = excluded.document, member = excluded.member, immutable = excluded.immutable, fault = NULL
WHERE s.relation = excluded.relation AND s.captures = excluded.captures
RETURNING s.id
