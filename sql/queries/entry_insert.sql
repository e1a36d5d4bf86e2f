INSERT INTO storage_reaper.entry (due_at, id, horizon, captured_at, source_id, backend_id, attempts, objects, payload, last_error, whole, derivation_id, is_prefix)
SELECT pg_catalog.clock_timestamp() + n.delay_ms * interval '1 millisecond', pg_catalog.nextval('storage_reaper.entry_id'),
       n.horizon::xid8, n.captured_at, coalesce(n.source_id, 0), coalesce(n.backend_id, 0), n.attempts, n.objects, n.payload, n.last_error, n.whole, n.derivation_id, n.is_prefix
FROM ROWS FROM (pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::timestamptz[]),
                pg_catalog.unnest($4::integer[]), pg_catalog.unnest($5::integer[]), pg_catalog.unnest($6::smallint[]),
                pg_catalog.unnest($7::smallint[]), pg_catalog.unnest($8::bytea[]), pg_catalog.unnest($9::text[]),
                pg_catalog.unnest($10::boolean[]), pg_catalog.unnest($11::integer[]), pg_catalog.unnest($12::boolean[]))
    AS n (delay_ms, horizon, captured_at, source_id, backend_id, attempts, objects, payload, last_error, whole, derivation_id, is_prefix)
