-- An untyped literal or NULL counts as text.
SELECT pg_catalog.format_type(t.oid, NULL) AS type_name,
       t.typcategory IN ('S', 'X') AS is_text,
       t.typcategory = 'A' AND coalesce(e.typcategory = 'S', false) AS is_text_array
FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
WHERE t.oid = $1
