WITH freed AS (
    UPDATE storage_reaper.source SET backend_id = NULL WHERE backend_id = $1
)
DELETE FROM storage_reaper.backend WHERE id = $1
