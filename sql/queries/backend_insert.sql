INSERT INTO storage_reaper.backend (name, kind, endpoint, bucket, region, addressing, credentials, verify)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO NOTHING
RETURNING id
