//! doctor(): what is wrong is found, with what mends it; and what is right is left alone.

use anyhow::{Result, ensure};
use storage_reaper_tests::database::Database;
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::{Bed, Reaper};

/// Findings about a subject, as `severity: finding → remedy`.
fn about(db: &mut Database, subject: &str) -> Result<Vec<String>> {
    let sql = "SELECT severity || ': ' || finding || ' → ' || remedy FROM storage_reaper.doctor() WHERE subject LIKE";
    db.rows(&format!("{sql} '{subject}' ORDER BY 1"))
}

/// There is a finding that says so, and it goes once `mend` is done.
fn found_until(db: &mut Database, subject: &str, says: &str, mend: &str) -> Result<()> {
    let found = about(db, subject)?;
    ensure!(found.iter().any(|finding| finding.contains(says)), "{subject}: {says}: {found:?}");
    db.run(mend)?;
    let left = about(db, subject)?;
    ensure!(!left.iter().any(|finding| finding.contains(says)), "{mend}: {left:?}");
    Ok(())
}

#[test]
fn a_healthy_database_is_called_ill() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.arm()?;
    reaper.worker()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until_drained()?;
    assert_eq!(reaper.db.rows("SELECT * FROM storage_reaper.doctor()")?, [""; 0]);
    Ok(())
}

#[test]
fn a_table_that_is_not_captured_is_called_healthy() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png"])?;
    let db = &mut bed.db;
    let id = db.number("SELECT id FROM storage_reaper.source")?;
    let trigger = format!("storage_reaper_{id}_delete");
    db.run(&format!("ALTER TABLE image DISABLE TRIGGER {trigger}"))?;
    found_until(db, "table public.image", "is disabled", &format!("ALTER TABLE image ENABLE TRIGGER {trigger}"))?;
    db.run(&format!("ALTER TABLE image ENABLE REPLICA TRIGGER {trigger}"))?;
    found_until(
        db,
        "table public.image",
        "replica sessions only",
        &format!("ALTER TABLE image ENABLE ALWAYS TRIGGER {trigger}"),
    )?;
    db.run(&format!("DROP TRIGGER {trigger} ON image"))?;
    found_until(
        db,
        "table public.image",
        "is missing",
        "SELECT storage_reaper.attach('image', 'url', backend => 'media')",
    )?;
    let database = bed.name.clone();
    let db = &mut bed.db;
    db.run(&format!("ALTER DATABASE {database} SET session_replication_role = replica"))?;
    let reset = format!("ALTER DATABASE {database} RESET session_replication_role");
    found_until(db, &format!("database {database}"), "no ordinary trigger", &reset)?;
    db.run("ALTER EVENT TRIGGER storage_reaper_on_drop DISABLE")?;
    found_until(db, "event trigger %", "disabled", "ALTER EVENT TRIGGER storage_reaper_on_drop ENABLE")?;
    db.run("ALTER TABLE image SET UNLOGGED")?;
    found_until(db, "table public.image", "unlogged", "ALTER TABLE image SET LOGGED")?;
    db.run("CREATE TABLE owner (id bigint PRIMARY KEY); ALTER TABLE image ADD owner_id bigint REFERENCES owner ON DELETE CASCADE")?;
    found_until(db, "table public.image", "no index finds its rows", "CREATE INDEX ON image (owner_id, id)")
}

#[test]
fn a_reference_that_keeps_nothing_is_called_healthy() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["image/1.png", "image/2.png"])?;
    let db = &mut bed.db;
    db.run("CREATE TABLE profile (avatar text); INSERT INTO profile VALUES ('image/1.png'), ('image/2.png')")?;
    let protect = "SELECT storage_reaper.protect('profile', 'avatar', backend => 'media', allow_scan => true)";
    found_until(db, "column %profile.avatar", "keep none", protect)?;
    let create = "CREATE INDEX ON profile (storage_reaper.fingerprint(avatar));";
    let protect = "SELECT storage_reaper.protect('profile', 'avatar', backend => 'media')";
    found_until(db, "reference profile.avatar", "allow_scan", &format!("{create} {protect}"))?;
    let role = bed.role("GRANT CREATE ON SCHEMA public TO {role}; ALTER TABLE profile OWNER TO {role}")?;
    let db = &mut bed.db;
    db.run("ALTER TABLE profile ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")?;
    found_until(db, "table public.profile", "row security is forced", &format!("ALTER ROLE {role} BYPASSRLS"))?;
    db.run("ALTER TABLE profile DROP COLUMN avatar")?;
    found_until(
        db,
        "reference profile.avatar",
        "does not exist any more",
        "SELECT storage_reaper.unprotect('profile.avatar')",
    )?;
    db.run("DROP TABLE profile")
}

#[test]
fn what_stops_deletions_is_called_healthy() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "storage_reaper.max_attempts = 1\n")?;
    reaper.images()?;
    let db = &mut reaper.db;
    found_until(db, "arming", "nothing is deleted", "SELECT storage_reaper.arm()")?;
    for (pause, subject, resume) in [
        ("pause()", "pause", "resume()"),
        ("pause(source => 'image.url')", "source image.url", "resume(source => 'image.url')"),
        ("pause(backend => 'media')", "backend media", "resume(backend => 'media')"),
    ] {
        db.run(&format!("SELECT storage_reaper.{pause}"))?;
        found_until(db, subject, "paused", &format!("SELECT storage_reaper.{resume}"))?;
    }
    let marked = Answer::of(204, "").with("x-amz-delete-marker: true");
    server.answer_next(marked);
    reaper.add_images(&["marked.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["marked.png|delete_marker"]);
    let db = &mut reaper.db;
    db.run("SELECT storage_reaper.attach('image', 'url', backend => 'media')")?;
    let all = "SELECT storage_reaper.alter_backend('media', versions => 'all')";
    found_until(db, "backend media", "keeps versions", all)?;
    db.run("SELECT storage_reaper.alter_backend('media', versions => 'current')")?;
    let warned = reaper.cluster.log()?;
    ensure!(warned.contains("WARNING:  the bucket of backend \"media\" keeps versions"), "{warned}");
    server.answer_always(Some(Answer::error(403, "InvalidAccessKeyId")));
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("the backend is held", "SELECT backends_held = 1 FROM storage_reaper.status")?;
    ensure!(about(&mut reaper.db, "backend media")?[0].starts_with("error: held since"));
    Ok(())
}
