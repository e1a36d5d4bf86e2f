//! `make bench-fence`: what the fence adds to the application's INSERT, beside no trigger and a trigger that does nothing,
//! while nothing is in flight and while thousands of objects are. Interleaved rounds on one cluster; medians. ROUNDS and
//! ROWS make it shorter.

use std::env;
use std::fmt::Write;
use std::time::Instant;

use anyhow::{Context, Result};
use storage_reaper_tests::benchmarks::{circumstances, median, write_section};
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const CONF: &str = "
shared_buffers = '1GB'
max_wal_size = '8GB'
checkpoint_timeout = '1h'
autovacuum = off
storage_reaper.request_timeout = '10min'
";

/// Objects whose deletion is under way meanwhile: one flight.
const IN_FLIGHT: usize = 4000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fence {
    None,
    DoNothing,
    AtRest,
    InFlight,
}

const ALL: [Fence; 4] = [Fence::None, Fence::DoNothing, Fence::AtRest, Fence::InFlight];

impl Fence {
    fn table(self) -> &'static str {
        match self {
            Fence::None => "t_none",
            Fence::DoNothing => "t_nothing",
            Fence::AtRest | Fence::InFlight => "t_fenced",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Fence::None => "no trigger",
            Fence::DoNothing => "trigger that does nothing",
            Fence::AtRest => "fence, nothing in flight",
            Fence::InFlight => "fence, 4000 objects in flight",
        }
    }
}

fn main() -> Result<()> {
    let number = |name: &str, default: u32| env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default);
    let rounds = number("ROUNDS", 5).max(1);
    let rows = number("ROWS", 1_000_000).max(1000);
    let singles = rows / 10;
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, CONF)?;
    prepare(&mut reaper)?;
    let mut bulk: [Vec<f64>; 4] = Default::default();
    let mut single: [Vec<f64>; 4] = Default::default();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for place in 0..ALL.len() {
            let index = (place + round as usize) % ALL.len();
            if ALL[index] == Fence::InFlight {
                take_off(&server, &mut reaper)?;
            }
            bulk[index].push(measure(&mut reaper, ALL[index], &insert(ALL[index], rows))?);
            single[index].push(measure(
                &mut reaper,
                ALL[index],
                &format!("CALL insert_singly_into_{}({singles})", ALL[index].table()),
            )?);
            if ALL[index] == Fence::InFlight {
                server.release();
                reaper.until_drained()?;
                reaper.until("no flight is left", "SELECT count(*) = 0 FROM storage_reaper.flight")?;
            }
        }
    }
    write_section(
        "fence",
        &report(&circumstances(reaper.cluster.installation())?, rounds, rows, &bulk, singles, &single)?,
    )
}

fn prepare(reaper: &mut Reaper) -> Result<()> {
    reaper.images()?;
    reaper.db.run("CREATE FUNCTION do_nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")?;
    for table in ["t_none", "t_nothing", "t_fenced"] {
        reaper.db.run(&format!(
            "CREATE TABLE {table} (id bigint PRIMARY KEY, url text);
             CREATE PROCEDURE insert_singly_into_{table}(n int) LANGUAGE plpgsql AS $$
             BEGIN FOR i IN 1..n LOOP INSERT INTO {table} VALUES (-i, 'https://media.example.com/' || i || '.jpeg'); END LOOP; END $$"
        ))?;
    }
    reaper.db.run(
        "CREATE TRIGGER nothing AFTER INSERT ON t_nothing REFERENCING NEW TABLE AS new_rows
             FOR EACH STATEMENT EXECUTE FUNCTION do_nothing();
         SELECT storage_reaper.protect('t_fenced', 'url', backend => 'media', fence => true, allow_scan => true)",
    )?;
    reaper.arm()
}

/// Puts a flight on the wire, and keeps it there.
fn take_off(server: &FaultServer, reaper: &mut Reaper) -> Result<()> {
    let seen = server.requests().len();
    server.hold();
    let keys: Vec<String> = (0..IN_FLIGHT).map(|number| format!("flight/{number}.jpeg")).collect();
    reaper.db.run("TRUNCATE t_fenced")?;
    reaper.add_images(&keys)?;
    reaper.db.run("DELETE FROM image")?;
    server.request_after(seen, wait::PATIENCE).context("no request came")?;
    Ok(())
}

fn insert(fence: Fence, rows: u32) -> String {
    format!(
        "INSERT INTO {} SELECT n, 'https://media.example.com/' || md5(n::text) || '/original.jpeg' FROM generate_series(1, {rows}) n",
        fence.table()
    )
}

fn measure(reaper: &mut Reaper, fence: Fence, statement: &str) -> Result<f64> {
    reaper.db.run(&format!("TRUNCATE {}", fence.table()))?;
    reaper.db.run("CHECKPOINT")?;
    let begun = Instant::now();
    reaper.db.run(statement)?;
    Ok(begun.elapsed().as_secs_f64())
}

fn report(
    circumstances: &str,
    rounds: u32,
    rows: u32,
    bulk: &[Vec<f64>; 4],
    singles: u32,
    single: &[Vec<f64>; 4],
) -> Result<String> {
    let per_row = |times: &[f64], rows: u32| median(times) / f64::from(rows) * 1e6;
    let mut text = format!(
        "## Fence\n\n{circumstances}\nMedians of {rounds} interleaved rounds, a checkpoint before each measurement.\n\n\
         | | INSERT of {rows} rows | a row | {singles} single-row INSERTs | a row |\n|---|---|---|---|---|\n"
    );
    for (index, fence) in ALL.iter().enumerate() {
        writeln!(
            text,
            "| {} | {:.2} s | {:.2} µs | {:.2} s | {:.2} µs |",
            fence.title(),
            median(&bulk[index]),
            per_row(&bulk[index], rows),
            median(&single[index]),
            per_row(&single[index], singles)
        )?;
    }
    let [none, nothing, at_rest, in_flight] = [0, 1, 2, 3].map(|index| per_row(&bulk[index], rows));
    let verdict = |value: f64, target: f64| if value <= target { "met" } else { "missed" };
    let added = in_flight - none;
    writeln!(text, "\n| bulk | measured | target | |\n|---|---|---|---|")?;
    writeln!(
        text,
        "| added over no trigger, objects in flight | {added:.2} µs a row | ≤ 3 µs a row | {} |",
        verdict(added, 3.0)
    )?;
    writeln!(text, "| nothing in flight, over the trigger that does nothing | {:.2}× | | |", at_rest / nothing)?;
    writeln!(text, "| added over no trigger, nothing in flight | {:.2} µs a row | | |", at_rest - none)?;
    Ok(text)
}
