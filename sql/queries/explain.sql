(SELECT 'queue' AS place, q.state, q.source, q.backend, q.locator,
        CASE q.state
            WHEN 'observed' THEN 'nothing is deleted before storage_reaper.arm()'
            WHEN 'paused' THEN 'paused: see storage_reaper.resume()'
            WHEN 'held' THEN coalesce((SELECT s.held_reason || '; see storage_reaper.release()' FROM storage_reaper.source s
                                       WHERE s.name = q.source AND s.held_since IS NOT NULL LIMIT 1),
                                      (SELECT b.held_reason FROM storage_reaper.backend b WHERE b.name = q.backend))
            WHEN 'waiting' THEN 'waits for the end of its grace'
            ELSE CASE WHEN e.horizon > pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())
                      THEN 'waits for a transaction that was writing when it was captured'
                      ELSE 'is checked and deleted next' END
        END || CASE WHEN q.attempts > 0 THEN pg_catalog.format('; %s attempts, the last one: %s', q.attempts, q.last_error)
                    ELSE '' END AS detail, q.due_at
 FROM storage_reaper.queue q JOIN storage_reaper.entry e ON e.id = q.entry_id
 WHERE storage_reaper.fingerprint(q.locator) = ANY ($1::bigint[]) LIMIT 100)
UNION ALL
(SELECT 'parked', 'parked', p.source, p.backend, p.locator, pg_catalog.concat_ws(': ', p.reason, p.last_error), NULL
 FROM storage_reaper.parked p WHERE storage_reaper.fingerprint(p.locator) = ANY ($1::bigint[]) LIMIT 100)
UNION ALL
(SELECT 'history', h.outcome, h.source, h.backend, h.locator,
        pg_catalog.concat_ws(', ', h.reason, 'at ' || h.settled_at::text), NULL
 FROM storage_reaper.history h WHERE storage_reaper.fingerprint(h.locator) = ANY ($1::bigint[]) ORDER BY h.settled_at DESC LIMIT 100)
