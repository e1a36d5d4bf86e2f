SELECT p.id, p.url_base, p.kind, p.address, p.zone, p.body, p.secret, p.batch_size
FROM storage_reaper.purge p
ORDER BY p.id
