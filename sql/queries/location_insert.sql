INSERT INTO storage_reaper.location (url_base, backend_id, bucket, key_prefix)
VALUES ($1, $2, $3, $4)
ON CONFLICT (url_base) DO NOTHING
RETURNING url_base
