INSERT INTO storage_reaper.backend (name, kind, endpoint, bucket, region, addressing, credentials, verify, versions, batch_size, rate_limit)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (name) DO NOTHING
RETURNING id
