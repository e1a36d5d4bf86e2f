//! Bad input: a clear error with its SQLSTATE and a way out, and nothing changed.

use anyhow::{Result, ensure};
use storage_reaper_tests::cluster::{Cluster, SHOP};
use storage_reaper_tests::database::Database;
use storage_reaper_tests::scenario::Bed;

/// Everything that a refused call must not have changed.
const STATE: &str = "
    SELECT (SELECT count(*) FROM storage_reaper.backends), (SELECT count(*) FROM storage_reaper.locations),
           (SELECT count(*) FROM storage_reaper.sources), (SELECT count(*) FROM storage_reaper.queue),
           (SELECT state FROM storage_reaper.status), (SELECT paused FROM storage_reaper.status),
           (SELECT count(*) FROM pg_trigger),
           (SELECT string_agg(b::text, ';' ORDER BY name) FROM storage_reaper.backends b)";

/// Each call must be refused with its SQLSTATE, a message of the manual's style, and no change.
fn refused(db: &mut Database, cases: &[(&str, &str)]) -> Result<()> {
    let before = db.row(STATE)?;
    for (call, code) in cases {
        let refusal = db.refusal(&format!("SELECT storage_reaper.{call}"))?;
        ensure!(refusal.code == *code, "{call}\nexpected {code}, got {refusal}");
        ensure!(!refusal.message.contains("panicked") && !refusal.message.ends_with('.'), "{call}: {refusal}");
        if ["22023", "22004", "42704", "42703", "42804", "42809", "55000"].contains(&refusal.code.as_str()) {
            ensure!(!refusal.hint.is_empty() || !refusal.detail.is_empty(), "{call} gives no way out: {refusal}");
        }
        let after = db.row(STATE)?;
        ensure!(after == before, "{call} changed something:\n{before}\n{after}");
    }
    Ok(())
}

#[test]
fn a_bad_backend_is_accepted() -> Result<()> {
    let mut bed = Bed::new()?;
    let endpoints = [
        "ftp://s3.example.test",
        "s3.example.test",
        "",
        "https://",
        "https://key:secret@s3.example.test",
        "https://s3.example.test/?x=1",
        "https://s3.example.test/#x",
        "http://169.254.169.254",
        "http://169.254.169.254/latest",
        "http://2852039166",
        "http://0xa9fea9fe",
        "http://0251.0376.0251.0376",
        "http://[fd00:ec2::254]",
        "http://[::ffff:169.254.169.254]",
        "http://metadata.google.internal",
        "https://other.s3.eu-west-1.amazonaws.com",
        "https://s3.example.test/other",
        "https://s3.exa mple.test",
    ];
    for endpoint in endpoints {
        let call = format!("create_backend('other', 'aws', '{endpoint}', 'other')");
        refused(&mut bed.db, &[(&call, "22023")])?;
        refused(
            &mut bed.db,
            &[(&format!("alter_backend('media', endpoint => '{}')", endpoint.replace("other", "media")), "22023")],
        )?;
    }
    for bucket in
        ["", "ab", "Upper", "under_score", "-start", "end-", "two..dots", "10.0.0.1", "with/slash", "..", "a b c"]
    {
        let call = format!("create_backend('other', 'generic', 'https://s3.example.test', '{bucket}')");
        refused(&mut bed.db, &[(&call, "22023")])?;
    }
    refused(
        &mut bed.db,
        &[
            ("create_backend('other', 'floppy', 'https://s3.example.test', 'bucket')", "22023"),
            (
                "create_backend('other', 'generic', 'https://s3.example.test', 'bucket', addressing => 'sideways')",
                "22023",
            ),
            ("create_backend('other', 'generic', 'https://s3.example.test', 'bucket', region => 'a/b')", "22023"),
            ("create_backend('media', 'generic', 'https://s3.example.test', 'bucket')", "42710"),
            ("create_backend(' ', 'generic', 'https://s3.example.test', 'bucket')", "22023"),
            ("create_backend(NULL, 'generic', 'https://s3.example.test', 'bucket')", "22004"),
            ("create_backend('other', NULL, 'https://s3.example.test', 'bucket')", "22004"),
            ("create_backend('other', 'generic', NULL, 'bucket')", "22004"),
            ("create_backend('other', 'generic', 'https://s3.example.test', NULL)", "22004"),
            ("alter_backend('nobody', region => 'eu')", "42704"),
            ("alter_backend('media', bucket => 'NO')", "22023"),
            ("drop_backend('nobody')", "42704"),
            ("drop_backend(NULL)", "22004"),
        ],
    )
}

#[test]
fn an_address_that_cannot_work_is_accepted() -> Result<()> {
    let mut bed = Bed::new()?;
    refused(
        &mut bed.db,
        &[
            ("create_backend('b', 'generic', 'http://127.0.0.1:9000', 'bucket', addressing => 'virtual')", "22023"),
            (
                "create_backend('b', 'aws', 'https://s3.example.test', 'dotted.bucket', addressing => 'virtual')",
                "22023",
            ),
            ("alter_backend('media', addressing => 'virtual', bucket => 'dotted.bucket')", "22023"),
        ],
    )
}

#[test]
fn an_endless_grace_breaks_deletes_or_the_queue() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    if bed.db.number("SELECT current_setting('server_version_num')::bigint")? >= 170_000 {
        refused(
            &mut bed.db,
            &[
                ("attach('image', 'url', grace => 'infinity', backend => 'media')", "22023"),
                ("attach('image', 'url', grace => '-infinity', backend => 'media')", "22023"),
                ("enqueue(ARRAY['x'], grace => 'infinity')", "22023"),
            ],
        )?;
    }
    bed.db.run(
        "SELECT storage_reaper.attach('image', 'url', grace => '100 years', backend => 'media'); DELETE FROM image",
    )?;
    assert_eq!(bed.db.row("SELECT state FROM storage_reaper.queue")?, "observed");
    Ok(())
}

#[test]
fn a_secret_typed_into_sql_is_taken_or_repeated() -> Result<()> {
    let mut bed = Bed::new()?;
    for secret in [
        "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "profile:",
        "role:x",
        "",
        "key=a;secret=b",
    ] {
        for call in [
            format!(
                "create_backend('other', 'generic', 'https://s3.example.test', 'bucket', credentials => '{secret}')"
            ),
            format!("alter_backend('media', credentials => '{secret}')"),
        ] {
            refused(&mut bed.db, &[(&call, "22023")])?;
            let refusal = bed.db.refusal(&format!("SELECT storage_reaper.{call}"))?;
            ensure!(secret.len() < 10 || !refusal.to_string().contains(secret), "repeats the secret: {refusal}");
        }
    }
    let user_info = "create_backend('other', 'generic', 'https://key:hunter2hunter2@s3.example.test', 'bucket')";
    let refusal = bed.db.refusal(&format!("SELECT storage_reaper.{user_info}"))?;
    ensure!(!refusal.to_string().contains("hunter2"), "repeats the secret: {refusal}");
    // The server logs a failed statement, but not these.
    let log = bed.cluster.log()?;
    ensure!(log.contains("invalid value for parameter \"credentials\""), "the log has no error");
    ensure!(!log.contains("hunter2") && !log.contains("wJalrXUtnFEMI"), "the log has the secret");
    Ok(())
}

#[test]
fn a_bad_location_is_accepted() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', 'media')")?;
    refused(
        &mut bed.db,
        &[
            ("create_location('cdn.example.test', 'media')", "22023"),
            ("create_location('ftp://cdn.example.test/', 'media')", "22023"),
            ("create_location('https://a:b@cdn.example.test/', 'media')", "22023"),
            ("create_location('https://cdn.example.test/?v=1', 'media')", "22023"),
            ("create_location('https://cdn.example.test/#x', 'media')", "22023"),
            ("create_location('https://CDN.example.test', 'media')", "42710"),
            ("create_location('https://other.example.test/', 'nobody')", "42704"),
            ("create_location('https://other.example.test/', 'media', bucket => '..')", "22023"),
            ("create_location('https://other.example.test/', 'media', key_prefix => 'images')", "22023"),
            ("create_location(NULL, 'media')", "22004"),
            ("create_location('https://other.example.test/', NULL)", "22004"),
            ("drop_location('https://unknown.example.test/')", "42704"),
            ("drop_location(NULL)", "22004"),
            ("drop_backend('media')", "2BP01"),
        ],
    )
}

#[test]
fn a_bad_attachment_is_accepted() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        "CREATE TABLE image (id int PRIMARY KEY, url text, size int, body jsonb, tags int[], blob bytea);
         CREATE VIEW shown AS SELECT * FROM image;
         CREATE MATERIALIZED VIEW kept AS SELECT * FROM image;
         CREATE TEMP TABLE passing (id int, url text);
         CREATE FOREIGN DATA WRAPPER nowhere; CREATE SERVER far FOREIGN DATA WRAPPER nowhere;
         CREATE FOREIGN TABLE remote (id int, url text) SERVER far; CREATE SEQUENCE counter;
         CREATE TABLE owner (id int PRIMARY KEY, key text); CREATE TABLE keyless (id int UNIQUE, key text);
         CREATE TABLE paired (id int, day int, key text, PRIMARY KEY (id, day)); CREATE TABLE only_kept (key text);
         SELECT storage_reaper.attach(t, 'key', backend => 'media', allow_scan => true) FROM unnest('{owner,keyless,paired}'::regclass[]) t;
         SELECT storage_reaper.protect('only_kept', 'key', backend => 'media', allow_scan => true)",
    )?;
    refused(
        &mut bed.db,
        &[
            ("attach('missing', 'url', backend => 'media')", "42P01"),
            ("attach(4294967295, 'url', backend => 'media')", "42704"),
            ("attach('image', 'missing', backend => 'media')", "42703"),
            ("attach('image', 'url', backend => 'nobody')", "42704"),
            ("attach('shown', 'url', backend => 'media')", "42809"),
            ("attach('kept', 'url', backend => 'media')", "42809"),
            ("attach('remote', 'url', backend => 'media')", "42809"),
            ("attach('passing', 'url', backend => 'media')", "42809"),
            ("attach('counter', 'url', backend => 'media')", "42809"),
            ("attach('pg_class', 'relname', backend => 'media')", "42809"),
            ("attach('storage_reaper.backend', 'name', backend => 'media')", "42809"),
            ("attach('image', 'size', backend => 'media')", "42804"),
            ("attach('image', 'blob', backend => 'media')", "42804"),
            ("attach('image', 'tags', backend => 'media')", "42804"),
            ("attach('image', 'body', backend => 'media')", "42804"),
            ("attach('image', 'ctid', backend => 'media')", "42703"),
            ("attach(NULL, 'url')", "22004"),
            ("attach('image')", "22023"),
            ("attach('image', 'url', template => '{id}', backend => 'media')", "22023"),
            ("attach('image', 'url', path => '$.x', backend => 'media')", "42804"),
            ("attach('image', template => 'always-the-same', backend => 'media')", "22023"),
            ("attach('image', template => 'x/{id', backend => 'media')", "22023"),
            ("attach('image', template => 'x/{}', backend => 'media')", "22023"),
            ("attach('image', template => 'x/{missing}', backend => 'media')", "42703"),
            ("attach('image', 'url', backend => 'media')", "55000"),
            ("attach('image', 'url', backend => 'media', allow_scan => NULL)", "22004"),
            ("attach('image', 'url', grace => '-1 second', backend => 'media')", "22023"),
            ("attach('image', 'url', grace => '300000 years', backend => 'media')", "22023"),
            ("attach('image', 'url', grace => NULL, backend => 'media')", "22004"),
            ("attach('image', 'url', on_update => 'maybe', backend => 'media')", "22023"),
            ("attach('image', 'url', on_truncate => 'maybe', backend => 'media')", "22023"),
            ("attach('image', 'url', on_update => NULL, backend => 'media')", "22004"),
            ("protect('image', 'missing')", "42703"),
            ("protect('image', 'size')", "42804"),
            ("protect('image', 'url')", "55000"),
            ("protect('image', 'url', backend => 'nobody', allow_scan => true)", "42704"),
            ("protect('image', 'url', member => 'src', allow_scan => true)", "42804"),
            ("protect('image', 'body', embedded => true, allow_scan => true)", "42804"),
            ("protect('image', 'body', member => 'src', embedded => true)", "22023"),
            ("protect('image', 'size', row_of => 'nobody')", "42704"),
            ("protect('image', 'url', row_of => 'owner.key', allow_scan => true)", "42804"),
            ("protect('image', 'size', row_of => 'keyless.key', allow_scan => true)", "22023"),
            ("protect('image', 'size', row_of => 'paired.key', allow_scan => true)", "22023"),
            ("protect('image', 'size', row_of => 'only_kept.key', allow_scan => true)", "42704"),
            (
                "attach('image', 'body', path => '$.a.keyvalue().value', backend => 'media', allow_scan => true)",
                "22023",
            ),
            ("protect('image', 'url', document => 'xml', allow_scan => true)", "22023"),
            ("protect('image', 'url', document => 'json')", "55000"),
            ("protect('image', 'size', document => 'json', allow_scan => true)", "42804"),
            ("protect('image', 'url', document => 'json', fence => true, allow_scan => true)", "22023"),
            ("protect('image', 'url', document => 'json', embedded => true, allow_scan => true)", "22023"),
            ("protect('image', 'url', document => 'text', member => 'src', allow_scan => true)", "22023"),
            ("protect('image', 'url', document => 'json', row_of => 'keyless.key', allow_scan => true)", "22023"),
            ("protect('image', 'url', immutable => true, allow_scan => true)", "22023"),
            ("protect('image', 'url', immutable => NULL, allow_scan => true)", "22004"),
            ("protect('kept', 'url', allow_scan => true)", "42809"),
            ("protect('remote', 'url', allow_scan => true)", "42809"),
            ("protect('passing', 'url', allow_scan => true)", "42809"),
            ("protect(NULL, 'url')", "22004"),
            ("unprotect('nobody')", "42704"),
            ("detach('nobody')", "42704"),
            ("detach(NULL)", "22004"),
        ],
    )?;
    // PostgreSQL's own complaints about SQL that does not fit are as good as ours.
    for call in [
        "attach('image', expression => 'missing || 1', backend => 'media')",
        "attach('image', expression => 'size', backend => 'media')",
        "attach('image', expression => 'url, url', backend => 'media')",
        "attach('image', expression => 'url; DROP TABLE image', backend => 'media')",
        "attach('image', 'url', filter => 'size', backend => 'media')",
        "attach('image', 'url', filter => 'missing', backend => 'media')",
        "attach('image', 'body', path => 'not a path (', backend => 'media')",
    ] {
        let before = bed.db.row(STATE)?;
        let refusal = bed.db.refusal(&format!("SELECT storage_reaper.{call}"))?;
        ensure!(refusal.code.starts_with("42") || refusal.code.starts_with("22"), "{call}: {refusal}");
        assert_eq!(bed.db.row(STATE)?, before, "{call}");
    }
    bed.db.run("DELETE FROM image")
}

#[test]
fn bad_operations_are_accepted() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    refused(
        &mut bed.db,
        &[
            ("enqueue(NULL)", "22004"),
            ("enqueue(ARRAY['x'], backend => 'nobody')", "42704"),
            ("enqueue(ARRAY['x'], grace => '-1 hour')", "22023"),
            ("enqueue(ARRAY['x'], grace => '101 years')", "22023"),
            ("enqueue(ARRAY['x'], grace => NULL)", "22004"),
            ("cancel(NULL)", "22004"),
            ("cancel(ARRAY['x'], source => 'nobody')", "42704"),
            ("pause(source => 'nobody')", "42704"),
            ("pause(backend => 'nobody')", "42704"),
            ("resume(source => 'nobody')", "42704"),
            ("resume(backend => 'nobody')", "42704"),
            ("retry(source => 'nobody')", "42704"),
            ("discard(source => 'nobody')", "42704"),
            ("explain(NULL)", "22004"),
            ("discover_references('nobody')", "42704"),
            ("discover_references(sample_rows => 0)", "22023"),
            ("discover_references(sample_rows => 100001)", "22023"),
            ("discover_references(sample_rows => NULL)", "22004"),
        ],
    )
}

#[test]
fn only_the_owner_may_attach() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE image (id int, url text)")?;
    let role =
        bed.role("GRANT ALL ON image TO {role}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA storage_reaper TO {role}")?;
    let refusal = bed
        .connect_as(&role)?
        .refusal("SELECT storage_reaper.attach('image', 'url', backend => 'media', allow_scan => true)")?;
    assert_eq!(refusal.code, "42501", "{refusal}");
    Ok(())
}

#[test]
fn a_missing_worker_slot_is_a_panic() -> Result<()> {
    let cluster = Cluster::start("max_worker_processes = 0\n")?;
    let mut db = cluster.database(SHOP)?;
    db.run("CREATE EXTENSION storage_reaper")?;
    let refusal = db.refusal("SELECT storage_reaper.start_worker()")?;
    assert_eq!(refusal.code, "53400", "{refusal}");
    ensure!(refusal.hint.contains("max_worker_processes"), "{refusal}");
    Ok(())
}

#[test]
fn a_database_of_another_encoding_gets_the_extension() -> Result<()> {
    let mut bed = Bed::bare()?;
    let name = format!("{}_latin", bed.name);
    bed.db.run(&format!("CREATE DATABASE {name} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"))?;
    let refusal = bed.cluster.database(&name)?.refusal("CREATE EXTENSION storage_reaper")?;
    assert_eq!(refusal.code, "0A000");
    ensure!(refusal.detail.contains("LATIN1") && !refusal.hint.is_empty(), "{refusal}");
    Ok(())
}
