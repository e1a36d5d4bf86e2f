-- Of the store that was asked: it may have been altered since.
UPDATE storage_reaper.backend SET honours_if_match = $2
WHERE id = $1 AND honours_if_match IS DISTINCT FROM $2 AND endpoint = $3 AND bucket = $4 AND verify = 'if-match'
