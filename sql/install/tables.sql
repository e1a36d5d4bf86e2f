-- Configuration: what is declared.

CREATE TABLE storage_reaper.backend (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    kind        text NOT NULL,
    endpoint    text NOT NULL,
    bucket      text NOT NULL,
    region      text NOT NULL,
    addressing  text NOT NULL CHECK (addressing IN ('path', 'virtual')),
    credentials text NOT NULL,
    verify      text NOT NULL CHECK (verify IN ('none', 'head', 'if-match')),
    -- Whether a deletion may depend on a version there, as a probe has found out; NULL before it.
    honours_if_match boolean,
    -- Which versions a deletion removes in a bucket that keeps them.
    versions    text NOT NULL CHECK (versions IN ('current', 'all', 'captured')),
    -- Objects in one request and in a second, at most; NULL for as many as the settings allow.
    batch_size  integer CHECK (batch_size BETWEEN 1 AND 1000),
    rate_limit  integer CHECK (rate_limit > 0),
    -- Whether it takes DeleteObjects, as requests have found out; NULL before the first.
    takes_batches boolean,
    -- Whether deletions were seen to leave a marker there; NULL before the first.
    keeps_versions boolean,
    -- By how many seconds its clock is ahead of this server's, where it refused what was signed by this one.
    clock_ahead_s bigint,
    -- Below which prefix somebody wants it to be asked what it can do, and where and when that was wanted; NULL when it is done.
    probe_prefix text,
    probe_wanted text,
    -- When it was asked last, and why it did not let us delete; NULL if it did.
    probed_at   timestamptz,
    probe_error text,
    paused      boolean NOT NULL DEFAULT false,
    held_since  timestamptz,
    held_reason text
);
COMMENT ON TABLE storage_reaper.backend IS 'Private. One endpoint and bucket; read it through the view backends.';

CREATE TABLE storage_reaper.location (
    url_base   text PRIMARY KEY,
    -- No foreign keys: pg_restore fills an extension's tables in any order, and drop_backend() looks itself.
    backend_id integer NOT NULL,
    bucket     text NOT NULL,
    key_prefix text NOT NULL DEFAULT ''
);
COMMENT ON TABLE storage_reaper.location IS 'Private. URL bases that name objects of a backend; read it through the view locations.';

CREATE TABLE storage_reaper.source (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL,
    relation    regclass NOT NULL,
    -- The oid for which attnums hold. After a restore it differs from relation, and columns count instead.
    bound       oid NOT NULL,
    -- What expressions call the table: its name when it was attached, on partitions and after a rename too.
    alias       text NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('column', 'array', 'jsonpath', 'template', 'expression', 'array_expression',
                                          'strings', 'urls', 'row_ids')),
    -- Whether triggers capture what its rows let go; else its rows only protect.
    captures    boolean NOT NULL,
    columns     text[] NOT NULL,
    attnums     smallint[] NOT NULL,
    -- The jsonpath, template or expression; NULL where the column says it all.
    locator     text,
    filter      text,
    -- Within which prefix a row owns objects, a template over columns that follow the locator's; '*' for anywhere.
    owns        text,
    -- Whether the last column is the value by which rows share an object.
    is_shared   boolean NOT NULL,
    -- The table whose rows the ids in the column, document or array are of.
    row_of      regclass,
    -- How the documents are read that the locators name; NULL where the rows say it all.
    document    text CHECK (document IN ('json', 'text')),
    -- Only what stands under members of that name in them.
    member      text,
    -- Whether a document never changes once it is there.
    immutable   boolean NOT NULL,
    -- Whether a search that no index answers is accepted.
    allow_scan  boolean NOT NULL,
    -- Whether writers of the table look for objects in flight.
    fenced      boolean NOT NULL,
    backend_id  integer,
    grace       interval NOT NULL,
    on_update   text NOT NULL CHECK (on_update IN ('capture', 'ignore')),
    on_truncate text NOT NULL CHECK (on_truncate IN ('capture', 'forbid')),
    paused      boolean NOT NULL DEFAULT false,
    -- Since when the breaker holds it, and why; what was captured before it was released does not count again.
    held_since  timestamptz,
    held_reason text,
    released_at timestamptz,
    fault       text,
    detached_at timestamptz
);
CREATE UNIQUE INDEX source_name_key ON storage_reaper.source (name) WHERE detached_at IS NULL;
COMMENT ON TABLE storage_reaper.source IS 'Private. Attached tables; a detached one stays while the queue and history name it. Read it through the view sources.';

CREATE TABLE storage_reaper.derivation (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id   integer NOT NULL,
    -- Over the object's key; with a slash at the end, everything below goes.
    template    text NOT NULL,
    -- Sets of values for further names in it.
    over        jsonb,
    -- Whether what cannot be deleted waits for a person; else it is given up.
    is_required boolean NOT NULL,
    -- Below a prefix with more objects than this nothing is touched.
    max_objects integer NOT NULL CHECK (max_objects > 0),
    ended_at    timestamptz
);
CREATE UNIQUE INDEX derivation_key ON storage_reaper.derivation (source_id, template) WHERE ended_at IS NULL;
COMMENT ON TABLE storage_reaper.derivation IS 'Private. What goes with the objects of a source; an ended one stays while the queue and history name it. Read it through the view derivations.';

CREATE TABLE storage_reaper.covered (
    source_id integer NOT NULL REFERENCES storage_reaper.source,
    -- An oid, not regclass: what a restore brings back gets another one, and is looked up by names.
    relation  oid NOT NULL,
    attnums   smallint[] NOT NULL,
    PRIMARY KEY (source_id, relation)
);
COMMENT ON TABLE storage_reaper.covered IS 'Private. Where a source''s columns are in each table that it covers; a detached partition is not renamed along with its root.';

CREATE TABLE storage_reaper.arming (
    singleton         boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    system_identifier text NOT NULL,
    database_oid      oid NOT NULL,
    database_name     text NOT NULL,
    armed_at          timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    armed_by          text NOT NULL
);
COMMENT ON TABLE storage_reaper.arming IS 'Private. The database that arm() was called in; a copy elsewhere does not match and deletes nothing.';

CREATE TABLE storage_reaper.control (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    paused    boolean NOT NULL DEFAULT false
);
INSERT INTO storage_reaper.control DEFAULT VALUES;
COMMENT ON TABLE storage_reaper.control IS 'Private. Switches for the whole database.';

-- State: what is going on.

CREATE SEQUENCE storage_reaper.entry_id CACHE 32;

CREATE TABLE storage_reaper.entry (
    -- 0 for what enqueue() brought.
    source_id   integer NOT NULL,
    -- Where plain keys went at the moment of capture; 0 where the source named no backend.
    backend_id  integer NOT NULL,
    due_at      timestamptz NOT NULL,
    id          bigint NOT NULL,
    -- The next transaction id at the moment of capture: every transaction that was writing then has a lower one.
    horizon     xid8 NOT NULL,
    captured_at timestamptz NOT NULL,
    attempts    smallint NOT NULL,
    objects     smallint NOT NULL,
    payload     bytea NOT NULL,
    last_error  text,
    -- Why the locators could not be computed; the payload then holds whole rows as JSON.
    fault       text,
    -- By TRUNCATE or DROP: no row was left.
    whole       boolean NOT NULL,
    -- By which rule its objects go with others; NULL for what was captured itself.
    derivation_id integer,
    -- Whether its locators are prefixes, and what lies below them has to be listed.
    is_prefix   boolean,
    -- By strands, in the order of each: what waits for a backend that is held costs the others no look.
    PRIMARY KEY (source_id, backend_id, due_at, id)
);
-- The payload is compressed already.
ALTER TABLE storage_reaper.entry ALTER COLUMN payload SET STORAGE EXTERNAL;
ALTER TABLE storage_reaper.entry SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.5);
COMMENT ON TABLE storage_reaper.entry IS 'Private. The outbox: up to 1000 objects of one statement in a row; read it through the view queue.';

CREATE TABLE storage_reaper.document (
    source_id  integer NOT NULL,
    -- SHA-256 of backend, endpoint, bucket and key, in hexadecimal: elsewhere it is another document.
    digest     text NOT NULL,
    backend_id integer NOT NULL,
    bucket     text NOT NULL,
    key        text NOT NULL,
    -- How it was read.
    format     text NOT NULL,
    member     text,
    immutable  boolean NOT NULL,
    -- What the store called this version of it.
    etag       text,
    read_at    timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- Fingerprints of all that it names.
    prints     bigint[] NOT NULL,
    PRIMARY KEY (source_id, digest)
);
CREATE INDEX document_prints_idx ON storage_reaper.document USING gin (prints);
COMMENT ON TABLE storage_reaper.document IS 'Private. What documents in storage name, as the worker has read them; another server reads them anew.';

CREATE SEQUENCE storage_reaper.flight_id;

CREATE TABLE storage_reaper.flight (
    id            bigint PRIMARY KEY,
    marked_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- Fingerprints of its objects, sorted, eight bytes each.
    marks         bytea NOT NULL,
    -- From then on requests may have left.
    sent_at       timestamptz,
    ended_at      timestamptz,
    -- Who was writing before it ended, and was clear, has a lower transaction id.
    end_horizon   xid8,
    -- Marks of objects that are gone, or may be.
    gone          bytea,
    -- Marks of objects that a request without an answer may still remove, and until when.
    unclear       bytea,
    unclear_until timestamptz
);
ALTER TABLE storage_reaper.flight ALTER COLUMN marks SET STORAGE EXTERNAL;
COMMENT ON TABLE storage_reaper.flight IS 'Private. Objects whose deletion is under way: what writers of fenced tables look for.';

CREATE TABLE storage_reaper.purge (
    id          integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- URLs that begin so are told; a location's.
    url_base    text NOT NULL UNIQUE,
    kind        text NOT NULL CHECK (kind IN ('http', 'cloudflare', 'fastly')),
    address     text NOT NULL,
    zone        text,
    body        text,
    -- The profile that holds the token; never the token.
    secret      text,
    batch_size  smallint NOT NULL CHECK (batch_size BETWEEN 1 AND 1000),
    done        bigint NOT NULL DEFAULT 0,
    given_up    bigint NOT NULL DEFAULT 0,
    failed_since timestamptz,
    last_error  text
);
COMMENT ON TABLE storage_reaper.purge IS 'Private. Services that are told of URLs whose objects are gone; read it through the view purges.';

CREATE SEQUENCE storage_reaper.purge_entry_id CACHE 32;

CREATE TABLE storage_reaper.purge_entry (
    purge_id    integer NOT NULL,
    due_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    id          bigint NOT NULL DEFAULT pg_catalog.nextval('storage_reaper.purge_entry_id'),
    created_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- How often the service refused just these.
    attempts    smallint NOT NULL DEFAULT 0,
    urls        smallint NOT NULL,
    payload     bytea NOT NULL,
    PRIMARY KEY (purge_id, due_at, id)
);
ALTER TABLE storage_reaper.purge_entry ALTER COLUMN payload SET STORAGE EXTERNAL;
COMMENT ON TABLE storage_reaper.purge_entry IS 'Private. URLs that a service is to be told of, packed like the outbox.';

CREATE TABLE storage_reaper.parked_object (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source_id   integer,
    backend_id  integer,
    locator     text NOT NULL,
    row_id      text,
    reason      text NOT NULL,
    last_error  text,
    attempts    integer NOT NULL,
    horizon     xid8 NOT NULL,
    captured_at timestamptz NOT NULL,
    parked_at   timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- A whole segment that could not be read, as it was.
    payload     bytea,
    -- Within which prefix its row owns objects, and by which value rows share it.
    owns        text,
    shares      text,
    -- As in the outbox.
    derivation_id integer,
    is_prefix   boolean,
    -- With which object it goes.
    parent      text
);
ALTER TABLE storage_reaper.parked_object ALTER COLUMN payload SET STORAGE EXTERNAL;
COMMENT ON TABLE storage_reaper.parked_object IS 'Private. Objects set aside for a person; read it through the view parked.';

CREATE TABLE storage_reaper.settlement (
    -- So that a publication of all tables does not stop the trimming.
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    settled_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    source_id   integer,
    backend_id  integer,
    captured_at timestamptz NOT NULL,
    objects     smallint NOT NULL,
    outcome     text NOT NULL,
    reason      text,
    payload     bytea NOT NULL,
    derivation_id integer
);
ALTER TABLE storage_reaper.settlement ALTER COLUMN payload SET STORAGE EXTERNAL;
CREATE INDEX settlement_settled_at_idx ON storage_reaper.settlement (settled_at);
COMMENT ON TABLE storage_reaper.settlement IS 'Private. Outcomes, packed like the outbox and removed after storage_reaper.history_retention; read it through the view history.';

-- What pg_dump takes along: the configuration, the outbox and what waits for a person; never a secret, since none is here.
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.backend', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.backend_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.location', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.source', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.source_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.derivation', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.derivation_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.purge', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.purge_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.arming', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.entry', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.entry_id', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.parked_object', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.parked_object_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.settlement', '');
SELECT pg_catalog.pg_extension_config_dump('storage_reaper.settlement_id_seq', '');

CREATE FUNCTION storage_reaper.source_columns(source_id integer, relation oid)
    RETURNS TABLE (place bigint, name name, number smallint) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    -- Attribute numbers follow a rename and hold until a restore; names hold after it. A table of which no numbers are
    -- known has the names of the source's own table.
    SELECT c.place, coalesce(known.attname, root.attname, c.name::name),
           CASE WHEN k.source_id IS NULL THEN named.attnum ELSE known.attnum END
    FROM storage_reaper.source s
    CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(s.columns), pg_catalog.unnest(s.attnums)) WITH ORDINALITY AS c (name, number, place)
    LEFT JOIN storage_reaper.covered k ON k.source_id = s.id AND k.relation = source_columns.relation
    LEFT JOIN pg_catalog.pg_attribute known
        ON known.attrelid = k.relation AND known.attnum = k.attnums[c.place] AND NOT known.attisdropped
    LEFT JOIN pg_catalog.pg_attribute root
        ON s.bound = s.relation::oid AND root.attrelid = s.bound AND root.attnum = c.number AND NOT root.attisdropped
    LEFT JOIN pg_catalog.pg_attribute named
        ON named.attrelid = source_columns.relation AND named.attname = coalesce(root.attname, c.name::name) AND NOT named.attisdropped
    WHERE s.id = source_columns.source_id;
END;
COMMENT ON FUNCTION storage_reaper.source_columns(integer, oid) IS
    'Private. The columns that a source''s locator reads in one table, by their present names and numbers, in the order of the locator.';
