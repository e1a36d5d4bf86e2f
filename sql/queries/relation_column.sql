-- Domains count as their base type; a domain over a domain ends at the type category.
SELECT a.attnum AS number, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type_name,
       pg_catalog.format_type(a.atttypid, NULL) AS base_name,
       t.typcategory = 'S' AS is_text,
       t.typcategory = 'A' AND coalesce(e.typcategory = 'S', false) AS is_text_array,
       t.oid IN ('pg_catalog.json'::regtype, 'pg_catalog.jsonb'::regtype) AS is_json,
       a.attgenerated = 'v' AS is_virtual
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
WHERE a.attrelid = $1 AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped
