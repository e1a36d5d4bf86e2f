DELETE FROM storage_reaper.parked_object WHERE id = ANY ($1::bigint[])
