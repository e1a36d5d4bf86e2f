SELECT EXISTS (SELECT FROM storage_reaper.source s WHERE s.name = $1) AS found
