-- How many hundredths of a table's pages are so many pages. A partitioned table has those of its partitions.
SELECT least(100.0, 100.0 * $2 * pg_catalog.current_setting('block_size')::numeric
                    / greatest(1, coalesce((SELECT pg_catalog.sum(pg_catalog.pg_relation_size(p.relid))
                                            FROM pg_catalog.pg_partition_tree($1) p WHERE p.isleaf),
                                           pg_catalog.pg_relation_size($1))))::float8 AS share
