//! BENCHMARKS.md: each bench owns a section of it, between marks.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cluster::Installation;

const TITLE: &str = "# Benchmarks\n\n\
    Written by `make bench-capture`, `make bench-latency`, `make bench-guard`, `make bench-fence` and `make bench-drain`.\n\
    Ratios within one run are sound; absolute times belong to the machine.\n";

/// Replaces a bench's section of BENCHMARKS.md, prints it, and leaves the rest of the file alone.
pub fn write_section(name: &str, text: &str) -> Result<()> {
    let path = file()?;
    let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let present = fs::read_to_string(&path).unwrap_or_else(|_| TITLE.to_owned());
    let section = format!("{open}{}\n{close}", text.trim_end());
    let changed = match (present.find(&open), present.find(&close)) {
        (Some(start), Some(end)) => format!("{}{section}{}", &present[..start], &present[end + close.len()..]),
        _ => format!("{}\n{section}", present.trim_end_matches('\n').to_owned() + "\n"),
    };
    fs::write(&path, changed).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{text}\n(written to {})", path.display());
    Ok(())
}

/// The machine and the versions, in one line.
pub fn circumstances(installation: &Installation) -> Result<String> {
    let cpus = std::thread::available_parallelism()?;
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, m)| m);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 = memory.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let date = Command::new("date").arg("+%Y-%m-%d").output()?;
    Ok(format!(
        "{}: {cpus} × {model}, {} GB, Linux {}; {}; release build, fsync off.",
        String::from_utf8_lossy(&date.stdout).trim(),
        kib.div_ceil(1 << 20),
        kernel.trim(),
        installation.version()
    ))
}

/// The middle one, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

fn file() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("the crate stands at the root")?.join("BENCHMARKS.md"))
}
