SELECT b.id, b.name, b.kind, b.endpoint, b.bucket, b.region, b.addressing, b.credentials, b.verify, b.honours_if_match FROM storage_reaper.backend b ORDER BY b.id
