INSERT INTO storage_reaper.document AS d (source_id, digest, locator, format, member, etag, prints)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (source_id, digest) DO UPDATE
SET format = excluded.format, member = excluded.member, etag = excluded.etag, prints = excluded.prints, read_at = excluded.read_at
