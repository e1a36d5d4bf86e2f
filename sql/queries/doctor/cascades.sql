-- A foreign key that cascades into an attached table and has no index: each deletion of a parent reads the whole table.
SELECT 'warning' AS severity, pg_catalog.concat('table ', k.conrelid::regclass) AS subject,
       pg_catalog.format('foreign key %I cascades from %s, and no index finds its rows', k.conname, k.confrelid::regclass) AS finding,
       pg_catalog.format('CREATE INDEX ON %s (%s);', k.conrelid::regclass,
                         (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY p.place)
                          FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY AS p (number, place)
                          JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = p.number)) AS remedy
FROM pg_catalog.pg_constraint k
WHERE k.contype = 'f' AND k.confdeltype = 'c' AND k.conparentid = 0
  AND EXISTS (SELECT FROM storage_reaper.source s WHERE s.relation::oid = k.conrelid AND s.captures AND s.detached_at IS NULL)
  AND NOT EXISTS (
      SELECT FROM pg_catalog.pg_index i
      WHERE i.indrelid = k.conrelid AND i.indisvalid AND i.indpred IS NULL
        AND ARRAY(SELECT c.number FROM pg_catalog.unnest(k.conkey) AS c (number) ORDER BY 1)
            = ARRAY(SELECT f.number FROM pg_catalog.unnest(i.indkey::smallint[]) WITH ORDINALITY AS f (number, place)
                    WHERE f.place <= pg_catalog.cardinality(k.conkey) ORDER BY 1))
