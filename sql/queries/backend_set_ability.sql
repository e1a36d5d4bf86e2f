-- Of the store that was asked: it may have been altered since.
UPDATE storage_reaper.backend
SET honours_if_match = CASE $2 WHEN 'honours_if_match' THEN $3 ELSE honours_if_match END,
    takes_batches = CASE $2 WHEN 'takes_batches' THEN $3 ELSE takes_batches END,
    keeps_versions = CASE $2 WHEN 'keeps_versions' THEN $3 ELSE keeps_versions END
WHERE id = $1 AND endpoint = $4 AND bucket = $5
  AND CASE $2 WHEN 'honours_if_match' THEN honours_if_match IS DISTINCT FROM $3 AND verify = 'if-match'
              WHEN 'takes_batches' THEN takes_batches IS DISTINCT FROM $3
              ELSE keeps_versions IS DISTINCT FROM $3 END
