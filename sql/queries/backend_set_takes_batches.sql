-- Of the store that was asked: it may have been altered since.
UPDATE storage_reaper.backend SET takes_batches = $2
WHERE id = $1 AND takes_batches IS DISTINCT FROM $2 AND endpoint = $3 AND bucket = $4
