INSERT INTO storage_reaper.document AS d (source_id, digest, backend_id, bucket, key, format, member, immutable, etag, prints)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (source_id, digest) DO UPDATE
SET backend_id = excluded.backend_id, format = excluded.format, member = excluded.member, immutable = excluded.immutable,
    etag = excluded.etag, prints = excluded.prints, read_at = excluded.read_at
