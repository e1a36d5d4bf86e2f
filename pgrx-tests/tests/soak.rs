//! Random changes for a while, and no object lost or wrongly deleted. SOAK says how many seconds, SOAK_SEED repeats a
//! run, as far as threads repeat anything.

use std::env;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::soak::{Plan, run};

fn number(name: &str) -> Result<Option<u64>> {
    let Ok(text) = env::var(name) else { return Ok(None) };
    Ok(Some(text.parse().with_context(|| format!("{name} is {text:?}, which is no number"))?))
}

#[test]
fn the_soak_finds_a_lost_or_wrongly_deleted_object() -> Result<()> {
    let seed = number("SOAK_SEED")?.unwrap_or_else(|| fastrand::u64(..));
    println!("soak: seed {seed}");
    let length = Duration::from_secs(number("SOAK")?.unwrap_or(20));
    let verdict = run(Plan { length, seed, clients: 4 })?;
    println!("{verdict}");
    ensure!(verdict.violations().is_empty(), "SOAK_SEED={seed}: {:#?}", verdict.violations());
    Ok(())
}
