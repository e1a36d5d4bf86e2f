INSERT INTO storage_reaper.parked_object
    (source_id, backend_id, locator, row_id, reason, last_error, attempts, horizon, captured_at, payload, owns, shares, derivation_id, is_prefix, parent)
SELECT n.source_id, n.backend_id, n.locator, n.row_id, n.reason, n.last_error, n.attempts, n.horizon::xid8, n.captured_at, n.payload, n.owns, n.shares, n.derivation_id, n.is_prefix, n.parent
FROM ROWS FROM (pg_catalog.unnest($1::integer[]), pg_catalog.unnest($2::integer[]), pg_catalog.unnest($3::text[]),
                pg_catalog.unnest($4::text[]), pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]),
                pg_catalog.unnest($7::integer[]), pg_catalog.unnest($8::text[]), pg_catalog.unnest($9::timestamptz[]),
                pg_catalog.unnest($10::bytea[]), pg_catalog.unnest($11::text[]), pg_catalog.unnest($12::text[]),
                pg_catalog.unnest($13::integer[]), pg_catalog.unnest($14::boolean[]), pg_catalog.unnest($15::text[]))
    AS n (source_id, backend_id, locator, row_id, reason, last_error, attempts, horizon, captured_at, payload, owns, shares, derivation_id, is_prefix, parent)
