INSERT INTO storage_reaper.purge (url_base, kind, address, zone, body, secret, batch_size)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (url_base) DO NOTHING
RETURNING id
