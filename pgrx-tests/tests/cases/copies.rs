//! Copies of a database: standbys and restored archives.

use std::time::Duration;

use anyhow::Result;
use storage_reaper_tests::cluster::{PRELOADED, SHOP};
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::process;
use storage_reaper_tests::scenario::{Bed, Reaper, write_credentials};
use storage_reaper_tests::store::SECRET_KEY;
use storage_reaper_tests::wait;

#[test]
fn a_standby_deletes_or_a_promoted_one_does_not() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.arm()?;
    reaper.db.run("SELECT storage_reaper.pause()")?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.db.run("DELETE FROM image WHERE url = 'a.png'")?;
    let standby = reaper.cluster.standby(PRELOADED)?;
    write_credentials(&standby, SECRET_KEY)?;
    let mut db = standby.database(SHOP)?;
    reaper.db.run(
        "SELECT storage_reaper.resume(), storage_reaper.disarm(); SELECT storage_reaper.arm(), storage_reaper.pause()",
    )?;
    wait::until_equal("the standby has it all", 1, || db.number("SELECT count(*) FROM storage_reaper.entry"))?;
    assert_eq!(db.row("SELECT state, worker_pid, queue_objects FROM storage_reaper.status")?, "armed|∅|1");
    drop(reaper);
    wait::stays(Duration::from_secs(1), "nothing is sent", || Ok(server.requests().is_empty()))?;
    assert_eq!(standby.log()?.matches("storage_reaper").count(), 0, "{}", standby.log()?);
    db.run("SELECT pg_promote()")?;
    wait::until(wait::PATIENCE, "it can be written to", || Ok(db.run("SELECT storage_reaper.resume()").ok()))?;
    wait::until_equal("the queue is empty", 0, || db.number("SELECT count(*) FROM storage_reaper.entry"))?;
    let sent: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(sent, ["/bucket/a.png"]);
    Ok(())
}

#[test]
fn a_restored_archive_captures_its_own_loading_or_nothing() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png", "d.png"])?;
    bed.db.run(
        "CREATE TABLE part (id int, url text) PARTITION BY LIST (id); CREATE TABLE part_1 PARTITION OF part DEFAULT;
         INSERT INTO part VALUES (1, 'p.png')",
    )?;
    bed.attach("'part', expression => 'part.url'")?;
    bed.db.run("SELECT storage_reaper.arm(); DELETE FROM image WHERE id < 4")?;
    let archive = bed.cluster.directory().join(format!("{}.dump", bed.name));
    process::run(bed.cluster.client_program("pg_dump").args(["-Fc", "-f"]).arg(&archive).arg(&bed.name))?;
    for jobs in ["1", "4"] {
        let copy = format!("{}_restored_by_{jobs}", bed.name);
        bed.db.run(&format!("CREATE DATABASE {copy}"))?;
        let restore = ["--exit-on-error", "-j", jobs, "-d", &copy];
        process::run(bed.cluster.client_program("pg_restore").args(restore).arg(&archive))?;
        let mut db = bed.cluster.database(&copy)?;
        assert_eq!(db.row("SELECT state, queue_objects FROM storage_reaper.status")?, "disarmed|3");
        db.run("DELETE FROM image; DELETE FROM part_1")?;
        let captured = "SELECT locator FROM storage_reaper.queue ORDER BY 1";
        assert_eq!(db.rows(captured)?, ["a.png", "b.png", "c.png", "d.png", "p.png"]);
    }
    assert_eq!(bed.captured()?, ["a.png", "b.png", "c.png"]);
    Ok(())
}
