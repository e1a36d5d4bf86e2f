//! The section of BENCHMARKS.md.

use std::fmt::Write;

use anyhow::Result;
use storage_reaper_tests::benchmarks::median;

use crate::backlog::Backlog;
use crate::usage::Usage;

/// What was measured, a value a round.
#[derive(Default)]
pub struct Results {
    /// storage_reaper, s5cmd, rclone, the script.
    pub of_contender: [Vec<Usage>; 4],
    /// At once, after 20 ms, single deletions after 20 ms.
    pub of_stub: [Vec<Usage>; 3],
    pub backlog: Option<Backlog>,
}

/// Mebibytes that the worker may have of its own, whatever waits.
const MEMORY: f64 = 64.0;

const CONTENDERS: [&str; 4] = ["storage_reaper", "s5cmd", "rclone", "script"];
/// Each with the objects a second that it is to reach.
const STUBS: [(&str, f64); 3] = [
    ("answers at once", 100_000.0),
    ("answers after 20 ms", 30_000.0),
    ("takes single deletions only, answers after 20 ms", 3_000.0),
];
/// How many times as fast as another one storage_reaper is to be.
const OVER: [(usize, f64); 2] = [(1, 1.0), (3, 2.0)];

/// Medians of all values.
fn of(usages: &[Usage]) -> Usage {
    let one = |part: fn(&Usage) -> f64| median(&usages.iter().map(part).collect::<Vec<_>>());
    Usage {
        seconds: one(|usage| usage.seconds),
        cpu: one(|usage| usage.cpu),
        main: one(|usage| usage.main),
        peak: one(|usage| usage.peak),
    }
}

/// The section's text; `of_stubs` are the objects that each stub was asked for.
pub fn report(
    circumstances: &str,
    rounds: usize,
    objects: usize,
    of_stubs: [usize; 3],
    results: &Results,
) -> Result<String> {
    let verdict = |value: f64, target: f64| if value >= target { "met" } else { "missed" };
    let mut text = format!(
        "## Drain\n\n{circumstances}\nMedians of {rounds} interleaved rounds. Everything runs on the one machine, and the \
         stores take their part of it. The breaker would hold a\ndeletion of this size: it is off \
         (`storage_reaper.breaker_objects = -1`). All other settings are the defaults.\n\n\
         {objects} objects of a byte in SeaweedFS, a fresh bucket each time. storage_reaper: from COMMIT of one DELETE in an \
         attached table, in which\nas many rows stay, to the empty queue, with guard and history. The others get the keys in \
         a list, and their time is from start\nto exit. s5cmd: `run` with 1000 keys to an `rm`. rclone: `delete \
         --files-from-raw`, 64 transfers and checkers, `--s3-no-head-object`.\nThe script is \
         [cron.py](pgrx-tests/src/bin/bench_drain/cron.py): boto3, one connection, 1000 keys a request, and before each a \
         query for those still in use.\n\n\
         | | seconds | objects a second | CPU seconds | peak memory |\n|---|---|---|---|---|\n"
    );
    let usages = results.of_contender.each_ref().map(|usages| of(usages));
    let count = objects as f64;
    for (name, Usage { seconds, cpu, peak, .. }) in CONTENDERS.iter().zip(&usages) {
        writeln!(text, "| {name} | {seconds:.2} | {:.0} | {cpu:.2} | {peak:.0} MiB |", count / seconds)?;
    }
    text.push_str(
        "\nCPU and memory are those of the process that deletes: of storage_reaper the worker with both of its threads, whose \
         memory includes\nthe shared buffers that it has touched; of the script without the server process that answers its \
         queries.\n\n| | measured | target | |\n|---|---|---|---|\n",
    );
    for (other, target) in OVER {
        let over = usages[other].seconds / usages[0].seconds;
        let name = CONTENDERS[other];
        writeln!(text, "| speed over {name} | {over:.2}× | ≥ {target:.1}× | {} |", verdict(over, target))?;
    }
    writeln!(text, "| speed over {} | {:.2}× | | |", CONTENDERS[2], usages[2].seconds / usages[0].seconds)?;
    text.push_str(
        "\nThe worker against a stub that deletes nothing, and says that it has. Without a store that takes its time, \
         the worker's\nmain thread is what there is to wait for; another thread sends the requests.\n\n\
         | the stub | objects | objects a second | target | | CPU of the worker | of its main thread | peak memory |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for (((what, target), objects), usages) in STUBS.iter().zip(of_stubs).zip(&results.of_stub) {
        let (Usage { seconds, cpu, main, peak }, count) = (of(usages), objects as f64);
        let speed = count / seconds;
        let each = |seconds: f64| seconds / count * 1e6;
        writeln!(
            text,
            "| {what} | {objects} | {speed:.0} | ≥ {target:.0} | {} | {:.1} µs an object | {:.1} µs | {peak:.0} MiB |",
            verdict(speed, *target),
            each(cpu),
            each(main)
        )?;
    }
    if let Some(Backlog { objects, deleted, private, peak }) = &results.backlog {
        let verdict = if *private <= MEMORY { "met" } else { "missed" };
        writeln!(
            text,
            "\nThe worker's memory while the first {deleted} of a backlog of {objects} objects went to the second stub: \
             {private:.0} MiB of its own at most (target ≤ {MEMORY:.0} MiB, {verdict}), {peak:.0} MiB with programs and shared \
             buffers."
        )?;
    }
    Ok(text)
}
