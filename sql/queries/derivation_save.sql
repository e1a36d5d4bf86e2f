INSERT INTO storage_reaper.derivation AS d (source_id, template, over, is_required, max_objects)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (source_id, template) WHERE ended_at IS NULL DO UPDATE
SET over = excluded.over, is_required = excluded.is_required, max_objects = excluded.max_objects
