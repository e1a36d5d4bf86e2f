//! What a reader of the source relies on, kept by a test: the dependency rule, where `unsafe` may stand, how long files
//! grow, and that every statement file is used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Which rooms of `src` each room may use. `error` and `guc` are leaves that the shell shares.
const MAY_USE: [(&str, &[&str]); 8] = [
    ("domain", &[]),
    ("s3", &["domain"]),
    ("pg", &["error"]),
    ("store", &["domain", "error", "pg"]),
    ("capture", &["domain", "error", "guc", "pg", "store"]),
    ("api", &["capture", "domain", "error", "guc", "pg", "store", "worker"]),
    ("worker", &["domain", "error", "guc", "pg", "s3", "store"]),
    ("guc", &["domain", "pg", "s3"]),
];

/// Crates that only one room may know.
const ONLY_IN: [(&str, &[&str]); 5] =
    [("reqwest", &["s3"]), ("tokio", &["s3"]), ("rusty_s3", &["s3"]), ("reqsign_core", &["s3"]), ("libc", &["pg"])];

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file below, with its text, by its path from the top.
fn files(below: &str, extension: &str) -> Result<BTreeMap<String, String>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![top().join(below)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                let name = path.strip_prefix(top())?.to_str().context("a name that is not UTF-8")?.to_owned();
                found.insert(name, fs::read_to_string(&path)?);
            }
        }
    }
    ensure!(!found.is_empty(), "no files below {below}");
    Ok(found)
}

fn room(path: &str) -> &str {
    path.trim_start_matches("src/").split(['/', '.']).next().unwrap_or_default()
}

#[test]
fn a_room_uses_one_that_it_may_not_know() -> Result<()> {
    for (path, text) in files("src", "rs")? {
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == room(&path)) else { continue };
        for used in text.split("crate::").skip(1) {
            let used = used.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default();
            let is_known = used == room(&path) || allowed.contains(&used) || used.is_empty();
            ensure!(is_known, "{path} uses crate::{used}");
        }
    }
    Ok(())
}

#[test]
fn the_pure_rooms_know_postgres_http_or_the_clock() -> Result<()> {
    for (path, text) in files("src", "rs")? {
        let code: String =
            text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        if room(&path) == "domain" || room(&path) == "s3" {
            ensure!(!code.contains("pgrx"), "{path} knows pgrx");
        }
        if room(&path) == "domain" {
            ensure!(
                !code.contains("Instant::now") && !code.contains("SystemTime") && !code.contains("fastrand"),
                "{path}"
            );
        }
        for (name, rooms) in ONLY_IN {
            ensure!(rooms.contains(&room(&path)) || !code.contains(&format!("{name}::")), "{path} uses {name}");
        }
    }
    Ok(())
}

#[test]
fn unsafe_code_stands_outside_its_room() -> Result<()> {
    for (path, text) in files("src", "rs")? {
        let is_allowed = room(&path) == "pg" || path == "src/capture/entry_point.rs";
        let code = text.replace("#[unsafe(no_mangle)]", "");
        ensure!(is_allowed || !code.contains("unsafe {") && !code.contains("unsafe fn"), "{path} has unsafe code");
    }
    Ok(())
}

#[test]
fn a_file_grows_beyond_reading() -> Result<()> {
    let mut sources = files("src", "rs")?;
    sources.extend(files("sql", "sql")?);
    sources.extend(files("pgrx-tests", "rs")?);
    for (path, text) in sources {
        ensure!(text.lines().count() <= 400, "{path} has {} lines", text.lines().count());
    }
    Ok(())
}

#[test]
fn a_statement_file_is_left_behind() -> Result<()> {
    let code: String = files("src", "rs")?.into_values().collect();
    for path in files("sql", "sql")?.into_keys() {
        let name = Path::new(&path).file_name().and_then(|name| name.to_str()).context("a name that is not UTF-8")?;
        ensure!(code.contains(&format!("/{name}\"")), "nothing uses {path}");
    }
    Ok(())
}
