-- The primary key of a table, if it is one column.
SELECT pg_catalog.format_type(a.atttypid, NULL) AS type_name
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = $1 AND i.indisprimary AND i.indnkeyatts = 1
