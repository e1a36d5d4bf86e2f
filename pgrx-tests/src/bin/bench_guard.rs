//! `make bench-guard`: how many keys a second of one core the reference check answers for, by kind of reference, beside
//! a loop that asks for one key at a time. The queries are the worker's own: their text is taken from the server's log.
//! Interleaved rounds on one cluster, medians. ROUNDS, ROWS and KEYS make it shorter.

use std::env;
use std::fmt::Write;
use std::fs;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::benchmarks::{circumstances, median, write_section};
use storage_reaper_tests::database::Database;
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

/// Later lines win: the worker's queries are logged until they are known.
const CONF: &str = "
shared_preload_libraries = 'storage_reaper, auto_explain'
auto_explain.log_min_duration = 0
shared_buffers = '4GB'
max_wal_size = '8GB'
checkpoint_timeout = '1h'
maintenance_work_mem = '512MB'
autovacuum = off
";
/// As the check has to ask: by index, whatever the planner thinks of the table, and not compiled anew for each batch.
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";
const BATCH: u32 = 1000;
const TARGET: f64 = 50_000.0;

/// A reference: its table, what people call it, how it is declared, and the question that a loop would ask.
struct Reference {
    table: &'static str,
    title: &'static str,
    /// Columns, and a row that names live/N.jpeg.
    columns: &'static str,
    row: &'static str,
    index: &'static str,
    declare: &'static str,
    retract: &'static str,
    one_key: &'static str,
}

const REFERENCES: [Reference; 5] = [
    Reference {
        table: "image",
        title: "text column, attached",
        columns: "id bigint PRIMARY KEY, url text",
        row: "n, 'https://cdn.example.test/live/' || n || '.jpeg'",
        index: "(storage_reaper.fingerprint(url))",
        declare: "attach('image', 'url', backend => 'media')",
        retract: "detach('image.url')",
        one_key: "storage_reaper.fingerprint(url) = ANY (a.prints)",
    },
    Reference {
        table: "link",
        title: "id of a row, row_of",
        columns: "image_id bigint",
        row: "n",
        index: "(image_id)",
        declare: "protect('link', 'image_id', row_of => 'image.url')",
        retract: "unprotect('link.image_id')",
        one_key: "image_id = a.id",
    },
    Reference {
        table: "gallery",
        title: "array of three keys",
        columns: "id bigint, files text[]",
        row: "n, ARRAY['live/' || n || '.jpeg', 'else/' || n || '.jpeg', 'more/' || n || '.jpeg']",
        index: "USING gin (storage_reaper.fingerprints(files))",
        declare: "protect('gallery', 'files', backend => 'media')",
        retract: "unprotect('gallery.files')",
        one_key: "storage_reaper.fingerprints(files) && a.prints",
    },
    Reference {
        table: "doc",
        title: "strings of a jsonb",
        columns: "id bigint, meta jsonb",
        row: r#"n, jsonb_build_object('title', 'Document ' || n, 'cover', jsonb_build_object('src', 'https://cdn.example.test/live/' || n || '.jpeg'))"#,
        index: "USING gin (storage_reaper.fingerprints(storage_reaper.strings(meta)))",
        declare: "protect('doc', 'meta')",
        retract: "unprotect('doc.meta')",
        one_key: "storage_reaper.fingerprints(storage_reaper.strings(meta)) && a.prints",
    },
    Reference {
        table: "article",
        title: "URLs in HTML",
        columns: "id bigint, body text",
        row: r#"n, '<p>' || repeat('Some words about it. ', 10) || '<img src="https://cdn.example.test/live/' || n || '.jpeg"> and so on.</p>'"#,
        index: "USING gin (storage_reaper.fingerprints(storage_reaper.urls(body)))",
        declare: "protect('article', 'body', embedded => true)",
        retract: "unprotect('article.body')",
        one_key: "storage_reaper.fingerprints(storage_reaper.urls(body)) && a.prints",
    },
];

/// What the worker asks one table.
struct Question {
    text: String,
    /// What the worker's own planner did with it.
    is_by_index: bool,
}

/// How much is measured.
#[derive(Clone, Copy)]
struct Size {
    rounds: u32,
    rows: u32,
    keys: u32,
}

/// Seconds of CPU for all keys, round by round.
#[derive(Default)]
struct Costs {
    of_reference: [Asking; REFERENCES.len()],
    drain: Vec<f64>,
    drain_unasked: Vec<f64>,
}

/// One reference, asked by the worker's question or by a loop.
#[derive(Default)]
struct Asking {
    free: Vec<f64>,
    known: Vec<f64>,
    named: Vec<f64>,
    singly: Vec<f64>,
}

fn main() -> Result<()> {
    let number = |name: &str, default: u32| env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default);
    let size = Size {
        rounds: number("ROUNDS", 5).max(1),
        rows: number("ROWS", 1_000_000).max(10_000),
        keys: number("KEYS", 50_000).next_multiple_of(BATCH),
    };
    let Size { rounds, rows, keys } = size;
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, CONF)?;
    prepare(&mut reaper, rows, keys)?;
    let questions = questions_of_the_worker(&mut reaper)?;
    let asked_by_index: Vec<&Reference> =
        REFERENCES.iter().zip(&questions).filter(|(_, question)| question.is_by_index).map(|(one, _)| one).collect();
    for Reference { retract, table, .. } in &REFERENCES {
        if !asked_by_index.iter().any(|one| one.table == *table) {
            eprintln!("the worker reads all of {table} for each fingerprint: left out of the drain");
            reaper.db.run(&format!("SELECT storage_reaper.{retract}"))?;
        }
    }
    reaper.db.run(BY_INDEX)?;

    let mut costs = Costs::default();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        // Each round begins with another one, so that none always runs first.
        for place in 0..REFERENCES.len() {
            let index = (place + round as usize) % REFERENCES.len();
            let cost = &mut costs.of_reference[index];
            cost.free.push(in_batches(&mut reaper.db, &questions[index].text, index, "free", keys)?);
            cost.known.push(in_batches(&mut reaper.db, &questions[index].text, index, "known", keys)?);
            cost.singly.push(singly(&mut reaper.db, &REFERENCES[index], keys)?);
            cost.named.push(in_batches(&mut reaper.db, &questions[index].text, index, "named", keys)?);
        }
        costs.drain.push(drain(&mut reaper, &server, keys, &asked_by_index, true)?);
        costs.drain_unasked.push(drain(&mut reaper, &server, keys, &asked_by_index, false)?);
    }
    let text = report(&circumstances(reaper.cluster.installation())?, size, &questions, &costs)?;
    write_section("guard", &text)
}

fn prepare(reaper: &mut Reaper, rows: u32, keys: u32) -> Result<()> {
    reaper.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    for Reference { table, columns, row, index, declare, one_key, .. } in &REFERENCES {
        eprintln!("{table}: {rows} rows");
        reaper.db.run(&format!("CREATE TABLE {table} ({columns}) WITH (autovacuum_enabled = off)"))?;
        reaper.db.run(&format!("INSERT INTO {table} SELECT {row} FROM generate_series(1, {rows}) n"))?;
        reaper.db.run(&format!("CREATE INDEX ON {table} {index}"))?;
        reaper.db.run(&format!("VACUUM ANALYZE {table}"))?;
        reaper.db.run(&format!("SELECT storage_reaper.{declare}"))?;
        // The plan is made once, and the texts of rows are not even read: a loop in the worker could not do with less.
        reaper.db.run(&format!(
            "CREATE PROCEDURE ask_{table}_singly() LANGUAGE plpgsql AS $$ DECLARE a record;
             BEGIN FOR a IN SELECT prints, id FROM asked WHERE kind = 'free' LOOP
                 PERFORM FROM {table} WHERE {one_key} LIMIT 1;
             END LOOP; END $$"
        ))?;
    }
    // The fingerprints that the worker asks for: of the key, of the bucket, of each location; the endpoint's own addresses
    // are the bucket's again where the vendor is known.
    reaper.db.run(&format!(
        "CREATE TABLE asked AS
         SELECT k.kind, (row_number() OVER (PARTITION BY k.kind ORDER BY id) - 1) / {BATCH} AS batch, id, ARRAY[
             storage_reaper.fingerprint(key), storage_reaper.fingerprint('s3://' || b.bucket || '/' || key),
             storage_reaper.fingerprint('https://cdn.example.test/' || key)]
             || CASE WHEN k.kind <> 'known' THEN ARRAY[
                 storage_reaper.fingerprint(b.endpoint || '/' || b.bucket || '/' || key),
                 storage_reaper.fingerprint(replace(b.endpoint, '//', '//' || b.bucket || '.') || '/' || key)] END AS prints
         FROM storage_reaper.backends b, (
             SELECT 'named' AS kind, id, 'live/' || id || '.jpeg' AS key
             FROM (SELECT id FROM image ORDER BY md5(id::text) LIMIT {keys}) named
             UNION ALL SELECT none.kind, -n, 'gone/' || n || '.jpeg'
             FROM unnest(ARRAY['free', 'known']) none (kind), generate_series(1, {keys}) n) k;
         ANALYZE asked"
    ))
}

/// One object goes all the way; each table's question stands in the log then, with its plan.
fn questions_of_the_worker(reaper: &mut Reaper) -> Result<Vec<Question>> {
    reaper.db.run("INSERT INTO image VALUES (0, 'first.jpeg'); DELETE FROM image WHERE id = 0")?;
    reaper.arm()?;
    reaper.until_drained()?;
    reaper.db.run("SELECT storage_reaper.disarm()")?;
    let log = reaper.cluster.log()?;
    let of = |reference: &Reference| {
        let from = format!("FROM public.{} AS", reference.table);
        // Asked before, for nothing: only to lock the table.
        let asked = if reference.declare.contains("row_of") {
            "storage_reaper_asked (id)"
        } else {
            "storage_reaper_asked (place)"
        };
        let mut lines = log.lines().skip_while(|line| !(line.contains(asked) && line.contains(&from)));
        let text = lines.next().and_then(|line| line.split_once("Query Text: "));
        let text = text.with_context(|| format!("the log has no question about {}", reference.table))?.1.to_owned();
        let is_by_index = !lines.take_while(|line| line.starts_with('\t')).any(|line| line.contains("Seq Scan on"));
        Ok(Question { text, is_by_index })
    };
    let questions = REFERENCES.iter().map(of).collect::<Result<Vec<_>>>()?;
    reaper.cluster.reconfigure("auto_explain.log_min_duration = -1")?;
    let is_read = "SELECT current_setting('auto_explain.log_min_duration') = '-1'";
    wait::until(wait::PATIENCE, "the setting is read", || {
        Ok(reaper.cluster.database("shop")?.holds(is_read)?.then_some(()))
    })?;
    Ok(questions)
}

/// The worker's question for each batch, over a connection: planned, run and read each time, as the worker does.
fn in_batches(db: &mut Database, query: &str, index: usize, kind: &str, keys: u32) -> Result<f64> {
    let is_row_of = REFERENCES[index].declare.contains("row_of");
    let backend = db.number("SELECT pg_backend_pid()")?;
    let (mut seconds, mut found) = (0.0, 0);
    for batch in 0..i64::from(keys / BATCH) {
        let asked = "FROM asked WHERE kind = $1 AND batch = $2";
        if is_row_of {
            let ids = format!("SELECT array_agg(id::text) {asked}");
            let ids: Vec<String> = db.client().query_one(&ids, &[&kind, &batch])?.get(0);
            let before = cpu(backend)?;
            found += db.client().query(query, &[&ids])?.len();
            seconds += cpu(backend)? - before;
        } else {
            let prints =
                format!("SELECT array_agg(print ORDER BY print) FROM (SELECT unnest(prints) AS print {asked}) p");
            let prints: Vec<i64> = db.client().query_one(&prints, &[&kind, &batch])?.get(0);
            let before = cpu(backend)?;
            found += db.client().query(query, &[&prints])?.len();
            seconds += cpu(backend)? - before;
        }
    }
    // A bench that finds nothing where something is, is fast and worthless.
    let expected = if kind == "named" { keys as usize } else { 0 };
    ensure!(found == expected, "found {found} of {expected} names in {}", REFERENCES[index].table);
    Ok(seconds)
}

fn singly(db: &mut Database, reference: &Reference, keys: u32) -> Result<f64> {
    let backend = db.number("SELECT pg_backend_pid()")?;
    ensure!(db.number("SELECT count(*) FROM asked WHERE kind = 'free'")? == i64::from(keys));
    let before = cpu(backend)?;
    db.run(&format!("CALL ask_{}_singly()", reference.table))?;
    Ok(cpu(backend)? - before)
}

/// From arm() to the empty queue: what the worker's main thread needs, with all references or without any.
fn drain(reaper: &mut Reaper, server: &FaultServer, keys: u32, references: &[&Reference], asks: bool) -> Result<f64> {
    let call = |reaper: &mut Reaper, what: fn(&Reference) -> &'static str| {
        references.iter().try_for_each(|reference| reaper.db.run(&format!("SELECT storage_reaper.{}", what(reference))))
    };
    reaper.db.run(&format!(
        "INSERT INTO image SELECT -n, 'https://cdn.example.test/gone/' || n || '.jpeg' FROM generate_series(1, {keys}) n;
         DELETE FROM image WHERE id < 0"
    ))?;
    if !asks {
        call(reaper, |reference| reference.retract)?;
    }
    let sent = || server.requests().iter().map(|request| request.keys().len().max(1)).sum::<usize>();
    let (worker, before) = (reaper.worker()?, sent());
    let begun = cpu(worker.into())?;
    reaper.arm()?;
    wait::until(wait::PATIENCE * 10, "the queue is empty", || {
        Ok(reaper.db.holds("SELECT count(*) = 0 FROM storage_reaper.entry")?.then_some(()))
    })?;
    let seconds = cpu(worker.into())? - begun;
    ensure!(sent() - before == keys as usize, "{} of {keys} keys were sent", sent() - before);
    reaper.db.run("SELECT storage_reaper.disarm()")?;
    reaper.db.run("VACUUM image")?;
    if !asks {
        call(reaper, |reference| reference.declare)?;
    }
    Ok(seconds)
}

/// Seconds that a process's main thread has been on a CPU: others on the machine do not count.
fn cpu(process: i64) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/schedstat")).context("the kernel counts no CPU time")?;
    let nanoseconds: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}

fn report(circumstances: &str, size: Size, questions: &[Question], costs: &Costs) -> Result<String> {
    let Size { rounds, rows, keys } = size;
    let speed = |seconds: &[f64]| f64::from(keys) / median(seconds);
    let verdict = |speed: f64| if speed >= TARGET { "met" } else { "missed" };
    let mut text = format!(
        "## Guard\n\n{circumstances}\nKeys that one core answers for in a second: {rows} rows in each table, {keys} keys in \
         batches of {BATCH}, medians of {rounds} interleaved rounds.\nEach key has three fingerprints: of the key, \
         its bucket and a location; at an endpoint that is no known vendor's it has five, with the\nendpoint's two addresses.\n\n\
         In the figures: the worker's own query, planned, run and its answer sent, in CPU time of one server process that is \
         held to indexes, without JIT.\nNot in them: fingerprints of the objects, and resolving the texts that are found. The loop runs \
         inside the server on\na kept plan, a query a key with all its fingerprints, and reads no text.\n\n\
         | reference | the worker's plan | no row names them, three fingerprints | five | one row names each, five \
         | loop, no row, five | over the loop | target {TARGET}, three and five |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    let mut line = |title: &str, plan: &str, cost: &Asking| {
        let [known, free, named, singly] = [&cost.known, &cost.free, &cost.named, &cost.singly].map(|one| speed(one));
        let (over, verdicts) = (free / singly, [known, free].map(verdict).join(", "));
        writeln!(
            text,
            "| {title} | {plan} | {known:.0} | {free:.0} | {named:.0} | {singly:.0} | {over:.1}× | {verdicts} |"
        )
    };
    for ((Reference { title, .. }, cost), question) in REFERENCES.iter().zip(&costs.of_reference).zip(questions) {
        let plan = if question.is_by_index { "by index" } else { "reads the whole table" };
        line(title, plan, cost)?;
    }
    let sum = |part: fn(&Asking) -> &Vec<f64>| -> Vec<f64> {
        (0..rounds as usize).map(|round| costs.of_reference.iter().map(|cost| part(cost)[round]).sum()).collect()
    };
    let all = Asking {
        free: sum(|cost| &cost.free),
        known: sum(|cost| &cost.known),
        named: sum(|cost| &cost.named),
        singly: sum(|cost| &cost.singly),
    };
    line("all five, one after the other", "", &all)?;
    writeln!(
        text,
        "\nThe whole drain of {keys} captured objects that no row names, from arm() to the empty queue, in CPU time of the \
         worker's main\nthread: claim, resolve, fingerprints, guard, plan, settle. Another thread sends the requests.\n\n\
         | | keys a second a core | a key |\n|---|---|---|"
    )?;
    let by_index = questions.iter().filter(|question| question.is_by_index).count();
    let (with, without) = (median(&costs.drain), median(&costs.drain_unasked));
    for (what, seconds) in [
        (format!("with the {by_index} references that it asks by index"), with),
        ("without any".to_owned(), without),
        ("the difference: all of the guard".to_owned(), with - without),
    ] {
        let keys = f64::from(keys);
        writeln!(text, "| {what} | {:.0} | {:.1} µs |", keys / seconds, seconds / keys * 1e6)?;
    }
    Ok(text)
}
