-- Whether every transaction that was writing at that moment has ended, prepared ones too.
SELECT $1::text::xid8 <= pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) AS passed
