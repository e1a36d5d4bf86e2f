-- Nouns are views. A line per object, whatever the storage.

-- Joined through the singletons' primary keys, so that the planner knows that it is one row.
CREATE VIEW storage_reaper.arming_state AS
SELECT CASE
           WHEN a.singleton IS NULL THEN 'observe'
           WHEN a.system_identifier = (SELECT s.system_identifier::text FROM pg_catalog.pg_control_system() s)
                AND a.database_name = pg_catalog.current_database()
                AND a.database_oid = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()) THEN 'armed'
           ELSE 'disarmed'
       END AS state,
       a.armed_at, a.armed_by, coalesce(c.paused, true) AS paused
FROM (SELECT true AS singleton) one
LEFT JOIN storage_reaper.control c ON c.singleton = one.singleton
LEFT JOIN storage_reaper.arming a ON a.singleton = one.singleton;
COMMENT ON VIEW storage_reaper.arming_state IS 'Private. Whether this database may delete: observe, armed, or disarmed (armed elsewhere, as in a copy).';

CREATE VIEW storage_reaper.backends AS
SELECT b.name, b.kind, b.endpoint, b.bucket, b.region, b.addressing, b.credentials, b.verify, b.honours_if_match, b.versions,
       b.batch_size, b.rate_limit, b.takes_batches, b.keeps_versions,
       pg_catalog.make_interval(secs => b.clock_ahead_s) AS clock_ahead, b.probed_at, b.probe_error, b.paused, b.held_since, b.held_reason
FROM storage_reaper.backend b;
COMMENT ON VIEW storage_reaper.backends IS 'Declared backends; held_reason says why nothing is sent to one, keeps_versions whether deletions free no bytes there, clock_ahead by which other time than this server''s it is asked, probe_error why it did not let a probe delete.';

CREATE VIEW storage_reaper.locations AS
SELECT l.url_base, b.name AS backend, l.bucket, l.key_prefix
FROM storage_reaper.location l JOIN storage_reaper.backend b ON b.id = l.backend_id;
COMMENT ON VIEW storage_reaper.locations IS 'URL bases and the backend, bucket and key prefix that they stand for.';

CREATE VIEW storage_reaper.sources AS
SELECT s.name, s.relation,
       CASE s.kind WHEN 'jsonpath' THEN pg_catalog.concat(s.columns[1], ' ', s.locator)
                   ELSE coalesce(s.locator, s.columns[1]) END AS locator,
       CASE s.kind WHEN 'array_expression' THEN 'expression' ELSE s.kind END AS kind,
       s.filter, b.name AS backend, s.grace, s.on_update, s.on_truncate, s.paused, s.held_since, s.held_reason,
       (SELECT pg_catalog.count(*)::integer FROM pg_catalog.pg_trigger t
        WHERE t.tgname = pg_catalog.format('storage_reaper_%s_delete', s.id)
          AND t.tgfoid = 'storage_reaper.capture()'::pg_catalog.regprocedure) AS covered_relations,
       s.fault
FROM storage_reaper.source s
LEFT JOIN storage_reaper.backend b ON b.id = s.backend_id
-- One that is gone and held still has something to be released.
WHERE (s.detached_at IS NULL OR s.held_since IS NOT NULL) AND s.captures;
COMMENT ON VIEW storage_reaper.sources IS 'Attached tables; covered_relations counts the table, its partitions and children that carry capture; fault says what stops the reference check.';

CREATE VIEW storage_reaper.protections AS
SELECT s.name, s.relation,
       CASE s.kind WHEN 'row_ids' THEN pg_catalog.concat(s.columns[1], ' of ', s.locator)
                   WHEN 'strings' THEN pg_catalog.concat_ws(' ', s.columns[1], s.locator)
                   ELSE coalesce(s.locator, s.columns[1]) END AS locator,
       CASE s.kind WHEN 'array_expression' THEN 'expression' ELSE s.kind END AS kind,
       s.filter, b.name AS backend, s.fenced AS fence, s.row_of, s.document, s.member,
       CASE WHEN s.document IS NOT NULL THEN
           (SELECT pg_catalog.count(*) FROM storage_reaper.document d WHERE d.source_id = s.id) END AS documents_read,
       s.fault
FROM storage_reaper.source s
LEFT JOIN storage_reaper.backend b ON b.id = s.backend_id
WHERE s.detached_at IS NULL AND NOT s.captures;
COMMENT ON VIEW storage_reaper.protections IS 'Tables and views whose rows keep objects, see protect(); fault says what stops the reference check.';

CREATE VIEW storage_reaper.derivations AS
SELECT s.name AS source, d.template, d.over, d.is_required AS required, d.max_objects
FROM storage_reaper.derivation d
JOIN storage_reaper.source s ON s.id = d.source_id
WHERE d.ended_at IS NULL AND s.detached_at IS NULL;
COMMENT ON VIEW storage_reaper.derivations IS 'What goes with the objects of a source, see derive().';

CREATE VIEW storage_reaper.purges AS
SELECT p.url_base, p.kind, p.address, p.zone, p.body, 'profile:' || p.secret AS secret, p.batch_size::integer AS batch_size,
       waiting.urls AS waiting, waiting.oldest AS waiting_since, p.done, p.given_up, p.failed_since, p.last_error
FROM storage_reaper.purge p
CROSS JOIN LATERAL (SELECT coalesce(pg_catalog.sum(e.urls), 0)::bigint AS urls, pg_catalog.min(e.created_at) AS oldest
                    FROM storage_reaper.purge_entry e WHERE e.purge_id = p.id) waiting;
COMMENT ON VIEW storage_reaper.purges IS 'Caches that are told of URLs whose objects are gone, see create_purge(); last_error says why one does not listen.';

CREATE VIEW storage_reaper.strand AS
WITH RECURSIVE present AS (
    (SELECT e.source_id, e.backend_id FROM storage_reaper.entry e ORDER BY e.source_id, e.backend_id LIMIT 1)
    UNION ALL
    SELECT next.source_id, next.backend_id
    FROM present p
    CROSS JOIN LATERAL (
        SELECT e.source_id, e.backend_id FROM storage_reaper.entry e
        WHERE (e.source_id, e.backend_id) > (p.source_id, p.backend_id)
        ORDER BY e.source_id, e.backend_id LIMIT 1) next
)
SELECT p.source_id, p.backend_id, coalesce(nullif(p.backend_id, 0), s.backend_id) AS serves,
       coalesce(s.paused OR s.held_since IS NOT NULL, false) OR coalesce(b.paused, false) AS is_stopped
FROM present p
LEFT JOIN storage_reaper.source s ON s.id = p.source_id
LEFT JOIN storage_reaper.backend b ON b.id = coalesce(nullif(p.backend_id, 0), s.backend_id);
COMMENT ON VIEW storage_reaper.strand IS 'Private. What the outbox holds by source and backend, found by a look at the index for each; serves is the backend that plain keys go to.';

CREATE VIEW storage_reaper.queue AS
SELECT e.id AS entry_id, s.name AS source, b.name AS backend, o.locator, o.row_id, d.template AS derived_by,
       e.captured_at, e.due_at, e.attempts::integer AS attempts,
       coalesce(e.fault, e.last_error) AS last_error,
       CASE
           WHEN a.state <> 'armed' THEN 'observed'
           WHEN a.paused OR s.paused OR b.paused THEN 'paused'
           WHEN e.due_at > pg_catalog.clock_timestamp() THEN 'waiting'
           WHEN b.held_since IS NOT NULL OR s.held_since IS NOT NULL THEN 'held'
           ELSE 'due'
       END AS state
FROM storage_reaper.entry e
CROSS JOIN (SELECT * FROM storage_reaper.arming_state LIMIT 1) a
LEFT JOIN storage_reaper.source s ON s.id = e.source_id
LEFT JOIN storage_reaper.backend b ON b.id = coalesce(nullif(e.backend_id, 0), s.backend_id)
LEFT JOIN storage_reaper.derivation d ON d.id = e.derivation_id
CROSS JOIN LATERAL storage_reaper.unpack(e.payload) o;
COMMENT ON VIEW storage_reaper.queue IS 'The outbox, a line an object. State: observed (nothing is deleted before arm()), paused, waiting (for due_at), held (see backends), due.';

CREATE VIEW storage_reaper.parked AS
SELECT p.id, s.name AS source, b.name AS backend, p.locator, p.row_id, d.template AS derived_by, p.reason, p.last_error, p.attempts, p.captured_at, p.parked_at
FROM storage_reaper.parked_object p
LEFT JOIN storage_reaper.source s ON s.id = p.source_id
LEFT JOIN storage_reaper.backend b ON b.id = coalesce(p.backend_id, s.backend_id)
LEFT JOIN storage_reaper.derivation d ON d.id = p.derivation_id;
COMMENT ON VIEW storage_reaper.parked IS 'Objects set aside for a person: see retry() and discard().';

CREATE VIEW storage_reaper.history AS
SELECT h.settled_at, s.name AS source, b.name AS backend, h.outcome, h.reason, o.locator, o.row_id, h.captured_at,
       d.template AS derived_by
FROM storage_reaper.settlement h
LEFT JOIN storage_reaper.source s ON s.id = h.source_id
LEFT JOIN storage_reaper.backend b ON b.id = coalesce(h.backend_id, s.backend_id)
LEFT JOIN storage_reaper.derivation d ON d.id = h.derivation_id
CROSS JOIN LATERAL storage_reaper.unpack(h.payload) o;
COMMENT ON VIEW storage_reaper.history IS 'What became of every object, a line each, for storage_reaper.history_retention.';

CREATE VIEW storage_reaper.outcomes AS
SELECT h.outcome, h.reason, pg_catalog.sum(h.objects)::bigint AS objects, pg_catalog.max(h.settled_at) AS last_settled_at
FROM storage_reaper.settlement h
GROUP BY h.outcome, h.reason;
COMMENT ON VIEW storage_reaper.outcomes IS 'How many objects ended in each outcome, by reason, for storage_reaper.history_retention.';

CREATE VIEW storage_reaper.status AS
SELECT a.state, a.paused, p.preloaded, w.pid AS worker_pid, w.kind AS worker_kind,
       CASE
           WHEN w.kind = 'static' THEN 'preloaded worker runs and is woken at commit'
           WHEN w.kind = 'dynamic' AND p.preloaded THEN 'dynamic worker runs and is woken at commit; it does not survive a restart of the server'
           WHEN w.kind = 'dynamic' THEN 'dynamic worker runs until the server restarts; without shared_preload_libraries it looks for work once a second'
           WHEN p.preloaded THEN pg_catalog.format('no worker serves this database: the preloaded one serves "%s"; call storage_reaper.start_worker(), or set storage_reaper.database and restart',
                                                   pg_catalog.current_setting('storage_reaper.database', true))
           ELSE 'no worker: add storage_reaper to shared_preload_libraries and restart, or call storage_reaper.start_worker()'
       END AS worker_note,
       a.armed_at, a.armed_by,
       (SELECT coalesce(pg_catalog.sum(e.objects), 0)::bigint FROM storage_reaper.entry e) AS queue_objects,
       (SELECT pg_catalog.min(e.due_at) FROM storage_reaper.entry e WHERE e.due_at <= pg_catalog.clock_timestamp()) AS oldest_due,
       (SELECT pg_catalog.count(*) FROM storage_reaper.parked_object o) AS parked,
       (SELECT pg_catalog.jsonb_object_agg(o.reason, o.objects)
        FROM (SELECT p.reason, pg_catalog.count(*) AS objects FROM storage_reaper.parked_object p GROUP BY p.reason) o) AS parked_reasons,
       (SELECT pg_catalog.count(*) FROM storage_reaper.backend b WHERE b.held_since IS NOT NULL) AS backends_held,
       (SELECT pg_catalog.count(*) FROM storage_reaper.source s WHERE s.held_since IS NOT NULL) AS sources_held,
       (SELECT pg_catalog.count(*) FROM storage_reaper.source s WHERE s.fault IS NOT NULL AND s.detached_at IS NULL) AS sources_faulty
FROM (SELECT * FROM storage_reaper.arming_state LIMIT 1) a
CROSS JOIN storage_reaper.preloaded() AS p (preloaded)
LEFT JOIN LATERAL (
    SELECT s.pid, CASE s.backend_type WHEN 'storage_reaper worker' THEN 'static' ELSE 'dynamic' END AS kind
    FROM pg_catalog.pg_stat_activity s
    WHERE s.datname = pg_catalog.current_database()
      AND s.backend_type IN ('storage_reaper worker', 'storage_reaper dynamic worker')
    ORDER BY s.backend_start LIMIT 1) w ON true;
COMMENT ON VIEW storage_reaper.status IS 'One row: may this database delete, which worker serves it, what waits.';
