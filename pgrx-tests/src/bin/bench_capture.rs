//! `make bench-capture`: what capture adds to the application's DELETE, beside no trigger, a trigger that does nothing,
//! and the usual plpgsql outbox. Interleaved rounds on one cluster; medians. ROUNDS and ROWS make it shorter.

use std::env;
use std::fmt::Write;
use std::time::Instant;

use anyhow::Result;
use storage_reaper_tests::benchmarks::{circumstances, median, write_section};
use storage_reaper_tests::cluster::{Cluster, SHOP};
use storage_reaper_tests::database::Database;

const CONF: &str = "
shared_preload_libraries = 'storage_reaper'
storage_reaper.database = 'postgres'
shared_buffers = '1GB'
max_wal_size = '8GB'
checkpoint_timeout = '1h'
autovacuum = off
";

/// The usual outbox: a row an object, with the columns and the second index that a queue needs.
const OUTBOX: &str = "
CREATE TABLE outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, source int, key text,
                     created_at timestamptz DEFAULT now(), due_at timestamptz DEFAULT now(), attempts int DEFAULT 0);
CREATE INDEX ON outbox (due_at, id);
CREATE FUNCTION to_outbox() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN INSERT INTO public.outbox (source, key) SELECT 1, url FROM old_rows; RETURN NULL; END $$;
CREATE FUNCTION do_nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Capture {
    None,
    DoNothing,
    Plpgsql,
    Ours,
}

const ALL: [Capture; 4] = [Capture::None, Capture::DoNothing, Capture::Plpgsql, Capture::Ours];

impl Capture {
    fn table(self) -> &'static str {
        match self {
            Capture::None => "t_none",
            Capture::DoNothing => "t_nothing",
            Capture::Plpgsql => "t_plpgsql",
            Capture::Ours => "t_ours",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Capture::None => "no trigger",
            Capture::DoNothing => "trigger that does nothing",
            Capture::Plpgsql => "plpgsql outbox",
            Capture::Ours => "storage_reaper",
        }
    }

    /// Puts this capture on its table.
    fn install(self, db: &mut Database) -> Result<()> {
        let function = match self {
            Capture::None => return Ok(()),
            Capture::Ours => {
                return db
                    .run("SELECT storage_reaper.attach('t_ours', 'url', backend => 'media', on_update => 'ignore', allow_scan => true)");
            }
            Capture::DoNothing => "do_nothing",
            Capture::Plpgsql => "to_outbox",
        };
        db.run(&format!(
            "CREATE TRIGGER capture AFTER DELETE ON {} REFERENCING OLD TABLE AS old_rows
             FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
            self.table()
        ))
    }
}

/// One measurement: seconds and bytes of WAL.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    wal: f64,
}

fn main() -> Result<()> {
    let number = |name: &str, default: u32| env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default);
    let rounds = number("ROUNDS", 5).max(1);
    let rows = number("ROWS", 1_000_000).max(1000);
    let singles = rows / 10;
    let cluster = Cluster::start(CONF)?;
    let mut db = cluster.database(SHOP)?;
    prepare(&mut db)?;

    let mut bulk: [Vec<Cost>; 4] = Default::default();
    let mut single: [Vec<Cost>; 4] = Default::default();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        // Each round begins with another one, so that none always runs first.
        for place in 0..ALL.len() {
            let index = (place + round as usize) % ALL.len();
            bulk[index].push(bulk_delete(&mut db, ALL[index], rows)?);
            single[index].push(single_deletes(&mut db, ALL[index], singles)?);
        }
    }
    write_section("capture", &report(&circumstances(cluster.installation())?, rounds, rows, &bulk, singles, &single)?)
}

fn prepare(db: &mut Database) -> Result<()> {
    db.run("CREATE EXTENSION storage_reaper")?;
    db.run("SELECT storage_reaper.create_backend('media', kind => 'generic', endpoint => 'https://s3.example.test', bucket => 'media')")?;
    db.run(OUTBOX)?;
    for capture in ALL {
        let table = capture.table();
        db.run(&format!(
            "CREATE TABLE {table} (id bigint PRIMARY KEY, url text, owner int, meta jsonb) WITH (autovacuum_enabled = off);
             CREATE PROCEDURE delete_singly_from_{table}(n int) LANGUAGE plpgsql AS $$
             BEGIN FOR i IN 1..n LOOP DELETE FROM {table} WHERE id = i; END LOOP; END $$"
        ))?;
        capture.install(db)?;
    }
    Ok(())
}

/// Fills the table, and empties whatever the last measurement left.
fn fill(db: &mut Database, capture: Capture, rows: u32) -> Result<()> {
    let table = capture.table();
    db.run(&format!(
        "TRUNCATE outbox, storage_reaper.entry; ALTER TABLE {table} DISABLE TRIGGER USER; TRUNCATE {table};
         INSERT INTO {table} SELECT n, 'https://media.example.com/' || md5(n::text) || '/original.jpeg', n % 1000,
                '{{\"w\": 1024, \"h\": 768, \"hash\": \"abcdef\"}}' FROM generate_series(1, {rows}) n;
         ALTER TABLE {table} ENABLE TRIGGER USER"
    ))?;
    db.run(&format!("VACUUM ANALYZE {table}"))?;
    db.run("CHECKPOINT")
}

fn bulk_delete(db: &mut Database, capture: Capture, rows: u32) -> Result<Cost> {
    fill(db, capture, rows)?;
    let cost = measure(db, &format!("DELETE FROM {}", capture.table()))?;
    captured_all(db, capture, rows)?;
    Ok(cost)
}

fn single_deletes(db: &mut Database, capture: Capture, rows: u32) -> Result<Cost> {
    fill(db, capture, rows)?;
    let cost = measure(db, &format!("CALL delete_singly_from_{}({rows})", capture.table()))?;
    captured_all(db, capture, rows)?;
    Ok(cost)
}

/// A bench that captures nothing is fast, and worthless.
fn captured_all(db: &mut Database, capture: Capture, rows: u32) -> Result<()> {
    let count = match capture {
        Capture::None | Capture::DoNothing => return Ok(()),
        Capture::Plpgsql => db.number("SELECT count(*) FROM outbox")?,
        Capture::Ours => db.number("SELECT sum(objects) FROM storage_reaper.entry")?,
    };
    anyhow::ensure!(count == i64::from(rows), "{} captured {count} of {rows} objects", capture.title());
    Ok(())
}

fn measure(db: &mut Database, statement: &str) -> Result<Cost> {
    let before = db.row("SELECT pg_current_wal_insert_lsn()")?;
    let begun = Instant::now();
    db.run(statement)?;
    let seconds = begun.elapsed().as_secs_f64();
    let wal = db.row(&format!("SELECT pg_current_wal_insert_lsn() - '{before}'::pg_lsn"))?.parse()?;
    Ok(Cost { seconds, wal })
}

fn report(
    circumstances: &str,
    rounds: u32,
    rows: u32,
    bulk: &[Vec<Cost>; 4],
    singles: u32,
    single: &[Vec<Cost>; 4],
) -> Result<String> {
    let seconds = |costs: &[Cost]| median(&costs.iter().map(|cost| cost.seconds).collect::<Vec<_>>());
    let wal = |costs: &[Cost]| median(&costs.iter().map(|cost| cost.wal).collect::<Vec<_>>());
    let per_row = |costs: &[Cost]| seconds(costs) / f64::from(singles) * 1e6;
    let mut text = format!(
        "## Capture\n\n{circumstances}\nMedians of {rounds} interleaved rounds, a checkpoint before each measurement.\n\n"
    );

    writeln!(
        text,
        "| | DELETE of {rows} rows | WAL a row | {singles} single-row DELETEs | a row |\n|---|---|---|---|---|"
    )?;
    for (index, capture) in ALL.iter().enumerate() {
        writeln!(
            text,
            "| {} | {:.2} s | {:.0} bytes | {:.2} s | {:.1} µs |",
            capture.title(),
            seconds(&bulk[index]),
            wal(&bulk[index]) / f64::from(rows),
            seconds(&single[index]),
            per_row(&single[index])
        )?;
    }
    let [none, nothing, plpgsql, ours] = [0, 1, 2, 3];
    let added = (wal(&bulk[ours]) - wal(&bulk[nothing])) / f64::from(rows);
    let single_share =
        (per_row(&single[ours]) - per_row(&single[none])) / (per_row(&single[plpgsql]) - per_row(&single[none]));
    let targets = [
        ("bulk, time over the trigger that does nothing", seconds(&bulk[ours]) / seconds(&bulk[nothing]), 1.35, "×"),
        ("bulk, time over the plpgsql outbox", seconds(&bulk[ours]) / seconds(&bulk[plpgsql]), 0.35, "×"),
        ("bulk, WAL added over the trigger that does nothing", added, 25.0, " bytes a row"),
        ("single row, time added, over what plpgsql adds", single_share, 0.5, "×"),
    ];
    writeln!(text, "\n| storage_reaper | measured | target | |\n|---|---|---|---|")?;
    for (what, value, target, unit) in targets {
        let verdict = if value <= target { "met" } else { "missed" };
        writeln!(text, "| {what} | {value:.2}{unit} | ≤ {target}{unit} | {verdict} |")?;
    }
    Ok(text)
}
