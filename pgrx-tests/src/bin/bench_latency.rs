//! `make bench-latency`: from sending COMMIT of a single-row DELETE to the arrival of its request at a loopback server.
//! The clock starts before COMMIT is sent, so the commit itself counts. SAMPLES makes it shorter.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::benchmarks::{circumstances, write_section};
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

fn main() -> Result<()> {
    let samples = env::var("SAMPLES").ok().and_then(|value| value.parse().ok()).unwrap_or(1000_usize).max(10);
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    let keys: Vec<String> = (0..samples + WARM_UP).map(|n| format!("k{n}")).collect();
    reaper.add_images(&keys)?;
    reaper.db.run("ANALYZE image")?;
    reaper.arm()?;

    let mut times = Vec::with_capacity(samples);
    for (sample, key) in keys.iter().enumerate() {
        let took = one(&mut reaper, &server, sample, key)?;
        if sample >= WARM_UP {
            times.push(took);
        }
        // An application does not wait for the worker: sometimes it is at rest, sometimes still settling the last one.
        thread::park_timeout(Duration::from_millis(sample as u64 * 7 % 20));
    }
    reaper.until_drained()?;
    times.sort_unstable();
    write_section("latency", &report(&circumstances(reaper.cluster.installation())?, &times))
}

const WARM_UP: usize = 20;

fn one(reaper: &mut Reaper, server: &FaultServer, seen: usize, key: &str) -> Result<Duration> {
    reaper.db.run(&format!("BEGIN; DELETE FROM image WHERE url = '{key}'"))?;
    let begun = Instant::now();
    reaper.db.run("COMMIT")?;
    let request = server.request_after(seen, wait::PATIENCE).with_context(|| format!("no request for {key} came"))?;
    ensure!(request.target.ends_with(key), "expected a request for {key}, got {}", request.target);
    Ok(request.at.duration_since(begun))
}

fn report(circumstances: &str, times: &[Duration]) -> String {
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize].as_secs_f64() * 1e3;
    let verdict = |value: f64, target: f64| if value <= target { "met" } else { "missed" };
    let (p50, p99) = (at(0.5), at(0.99));
    format!(
        "## Latency\n\n{circumstances}\nFrom COMMIT of a single-row DELETE with zero grace to the arrival of its request, {} samples.\n\n\
         | | measured | target | |\n|---|---|---|---|\n\
         | p50 | {p50:.1} ms | ≤ 5 ms | {} |\n| p99 | {p99:.1} ms | ≤ 30 ms | {} |\n| longest | {:.1} ms | | |\n",
        times.len(),
        verdict(p50, 5.0),
        verdict(p99, 30.0),
        at(1.0)
    )
}
