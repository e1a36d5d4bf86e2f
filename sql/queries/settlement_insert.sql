INSERT INTO storage_reaper.settlement (source_id, backend_id, captured_at, objects, outcome, reason, payload, derivation_id)
SELECT n.source_id, n.backend_id, n.captured_at, n.objects, n.outcome, n.reason, n.payload, n.derivation_id
FROM ROWS FROM (pg_catalog.unnest($1::integer[]), pg_catalog.unnest($2::integer[]), pg_catalog.unnest($3::timestamptz[]),
                pg_catalog.unnest($4::smallint[]), pg_catalog.unnest($5::text[]), pg_catalog.unnest($6::text[]),
                pg_catalog.unnest($7::bytea[]), pg_catalog.unnest($8::integer[]))
    AS n (source_id, backend_id, captured_at, objects, outcome, reason, payload, derivation_id)
