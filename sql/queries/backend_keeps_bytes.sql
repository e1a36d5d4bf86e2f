-- Whether deletions were seen to free nothing there, or do so at every store of the kind.
SELECT b.versions = 'current' AND (b.kind = 'b2' OR b.delete_markers > 0) AS keeps
FROM storage_reaper.backends b JOIN storage_reaper.backend o ON o.name = b.name
WHERE o.id = $1
