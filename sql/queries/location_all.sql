SELECT l.url_base, l.backend_id, l.bucket, l.key_prefix FROM storage_reaper.location l
