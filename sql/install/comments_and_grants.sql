COMMENT ON FUNCTION storage_reaper.create_backend(text, text, text, text, text, text, text, text, text, integer, integer) IS
    'Declares a store: kind, API endpoint, bucket, region, addressing (auto, path, virtual) and where the worker finds credentials (profile:NAME, environment, role:ARN, instance); verify asks whether an object was put back (none, head, if-match).';
COMMENT ON FUNCTION storage_reaper.alter_backend(text, text, text, text, text, text, text, text, integer, integer) IS
    'Changes what is given of a backend and tries it again at once.';
COMMENT ON FUNCTION storage_reaper.probe_backend(text, text) IS
    'Has the worker ask the store what it can do, and whether it lets us delete below a prefix, with a key that cannot be there. The view backends shows the answer.';
COMMENT ON FUNCTION storage_reaper.drop_backend(text) IS 'Forgets a backend that nothing uses any more.';
COMMENT ON FUNCTION storage_reaper.create_location(text, text, text, text) IS
    'Declares that URLs under a base name objects of a backend; what follows the base is the key, behind key_prefix.';
COMMENT ON FUNCTION storage_reaper.drop_location(text) IS 'Forgets a location.';
COMMENT ON FUNCTION storage_reaper.attach(regclass, text, text, text, text, text, text, interval, text, text, text, boolean, boolean, text, text) IS
    'Puts capture on a table, its partitions and children: a column, a jsonb column with path, a template or an expression says which objects a row owns. Called again it alters. Returns the source''s name.';
COMMENT ON FUNCTION storage_reaper.detach(text) IS 'Takes capture off; what is queued stays queued. The source''s rows protect nothing any more.';
COMMENT ON FUNCTION storage_reaper.protect(regclass, text, text, boolean, text, text, boolean, text, text, text, text, text, boolean, boolean) IS
    'Declares a table or view whose rows keep the objects that they name, and are never asked to give one up. Called again it alters. Returns the name.';
COMMENT ON FUNCTION storage_reaper.unprotect(text) IS 'Takes back what protect() declared.';
COMMENT ON FUNCTION storage_reaper.derive(text, text, jsonb, boolean, integer) IS
    'Declares what goes with the objects of a source: a template over the key, which with a slash at the end means all that lies below. Called again it alters.';
COMMENT ON FUNCTION storage_reaper.underive(text, text) IS 'Takes back what derive() declared; what is queued stays queued.';
COMMENT ON FUNCTION storage_reaper.create_purge(text, text, text, text, text, text, integer) IS
    'Declares a cache in front of a location that is told of URLs whose objects are gone: http (any POST), cloudflare or fastly.';
COMMENT ON FUNCTION storage_reaper.drop_purge(text) IS 'Forgets a purge, and what it was still to tell.';
COMMENT ON FUNCTION storage_reaper.enqueue(text[], text, interval) IS
    'Queues objects that the application names itself; returns how many.';
COMMENT ON FUNCTION storage_reaper.cancel(text[], text) IS
    'Takes objects out of the queue that are not due yet; returns how many.';
COMMENT ON FUNCTION storage_reaper.arm() IS
    'Lets this database delete. Binds to its system identifier, oid and name: a copy deletes nothing before arm() is called there.';
COMMENT ON FUNCTION storage_reaper.disarm() IS 'Back to observing: capture goes on, nothing is deleted.';
COMMENT ON FUNCTION storage_reaper.pause(text, text) IS 'Stops deleting for a source, a backend, or everything; capture goes on.';
COMMENT ON FUNCTION storage_reaper.resume(text, text) IS 'Ends a pause of a source, a backend, or everything.';
COMMENT ON FUNCTION storage_reaper.release(text) IS
    'Lets a source go on that the mass-delete breaker holds; what it has captured so far does not count again.';
COMMENT ON FUNCTION storage_reaper.retry(bigint[], text, boolean) IS
    'Queues parked objects again: all, by id or by source. With preview it only lists them.';
COMMENT ON FUNCTION storage_reaper.discard(bigint[], text, boolean) IS
    'Gives parked objects up and records that: all, by id or by source. With preview it only lists them.';
COMMENT ON FUNCTION storage_reaper.explain(text) IS
    'Says which object a locator names, what refers to it, and where it stands in the queue, among the parked and in history.';
COMMENT ON FUNCTION storage_reaper.discover_references(text, integer) IS
    'Lists columns that seem to name objects of a backend, or of any, and are neither attached nor protected, with the statement that would protect each. Judged by a sample of their values.';
COMMENT ON FUNCTION storage_reaper.doctor() IS
    'Lists what is wrong or may be, the worst first, with what it means and the statement or setting that mends it.';
COMMENT ON FUNCTION storage_reaper.start_worker() IS
    'Starts a worker for the current database until the server stops, unless one runs; returns its process id.';
COMMENT ON FUNCTION storage_reaper.wake() IS 'Wakes the worker when the transaction commits.';
COMMENT ON FUNCTION storage_reaper.preloaded() IS 'Whether the library was loaded through shared_preload_libraries.';
COMMENT ON FUNCTION storage_reaper.fingerprint(text) IS
    'For indexes: a number that all spellings of an object have in common. Immutable; NULL for NULL.';
COMMENT ON FUNCTION storage_reaper.fingerprints(text[]) IS 'For indexes: the fingerprint of each element.';
COMMENT ON FUNCTION storage_reaper.strings(jsonb) IS 'For indexes: every string and name in a document, at any depth, and URLs inside of them.';
COMMENT ON FUNCTION storage_reaper.strings(jsonb, text) IS 'For indexes: every string and name in a document under members of that name, at any depth, and URLs inside of them.';
COMMENT ON FUNCTION storage_reaper.urls(text) IS 'For indexes: every URL in a text, such as HTML, Markdown, CSS or JSON.';
COMMENT ON FUNCTION storage_reaper.unpack(bytea) IS 'Private. The objects of a packed segment, for the views.';
COMMENT ON FUNCTION storage_reaper.follow_ddl(oid) IS 'Private. Called by the event trigger after CREATE TABLE and ALTER TABLE.';
COMMENT ON FUNCTION storage_reaper.follow_drop(oid, text, text[]) IS 'Private. Called by the event trigger after a drop.';

-- A single-row statement is the usual case, and a thousand the most: with the default of 1000 rows a call, the planner
-- would think a look at an empty queue worth compiling.
ALTER FUNCTION storage_reaper.unpack(bytea) ROWS 10;

-- Nobody may change anything without a GRANT; monitoring may read the views.
REVOKE ALL ON ALL TABLES IN SCHEMA storage_reaper FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA storage_reaper FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA storage_reaper FROM PUBLIC;
GRANT USAGE ON SCHEMA storage_reaper TO PUBLIC;
-- The views run these as whoever reads them; they read nothing but their argument.
GRANT EXECUTE ON FUNCTION storage_reaper.unpack(bytea), storage_reaper.preloaded() TO PUBLIC;
-- Whoever writes to an indexed table runs these; they read nothing but their argument.
GRANT EXECUTE ON FUNCTION storage_reaper.fingerprint(text), storage_reaper.fingerprints(text[]), storage_reaper.strings(jsonb),
    storage_reaper.strings(jsonb, text), storage_reaper.urls(text) TO PUBLIC;
GRANT SELECT ON storage_reaper.status, storage_reaper.queue, storage_reaper.parked, storage_reaper.history, storage_reaper.outcomes,
    storage_reaper.sources, storage_reaper.protections, storage_reaper.derivations, storage_reaper.purges, storage_reaper.backends, storage_reaper.locations TO pg_monitor;
