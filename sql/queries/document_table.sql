SELECT 'storage_reaper.document'::regclass::oid AS found
