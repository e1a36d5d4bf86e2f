-- Committed before anything else happens to its objects: from then on every writer sees it. $2: nothing is fenced, and
-- nobody will say when it is sent.
INSERT INTO storage_reaper.flight (id, marks, sent_at)
VALUES (
    pg_catalog.nextval('storage_reaper.flight_id'), $1, CASE WHEN $2 THEN pg_catalog.clock_timestamp() END
)
RETURNING id
