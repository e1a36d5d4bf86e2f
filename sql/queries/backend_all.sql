SELECT b.id, b.name, b.kind, b.endpoint, b.bucket, b.region, b.addressing, b.credentials, b.verify, b.honours_if_match,
       b.versions, b.batch_size, b.rate_limit, b.takes_batches, b.keeps_versions
FROM storage_reaper.backend b ORDER BY b.id
