//! The ground that the scenarios stand on: PostgreSQL and both S3 servers start, answer and end.

use anyhow::{Result, ensure};
use storage_reaper_tests::cluster::Cluster;
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::store::{Program, Store};

#[test]
fn a_cluster_starts_crashes_restarts_and_leaves_nothing_behind() -> Result<()> {
    let mut cluster = Cluster::start("work_mem = '7MB'")?;
    assert_eq!(cluster.database("shop")?.row("SHOW work_mem")?, "7MB");
    cluster.database("shop")?.run("CREATE TABLE kept (id int)")?;
    cluster.crash_and_restart()?;
    assert_eq!(cluster.database("shop")?.number("SELECT count(*) FROM kept")?, 0);
    let directory = cluster.directory().to_owned();
    drop(cluster);
    ensure!(!directory.exists(), "{} is still there", directory.display());
    Ok(())
}

#[test]
fn the_embedded_store_keeps_what_it_is_given() -> Result<()> {
    keeps_what_it_is_given(Program::Embedded)
}

#[test]
fn seaweedfs_keeps_what_it_is_given() -> Result<()> {
    keeps_what_it_is_given(Program::SeaweedFs)
}

fn keeps_what_it_is_given(program: Program) -> Result<()> {
    let store = Store::start(program)?;
    let bucket = store.create_bucket("harness")?;
    let keys: Vec<String> = (0..1100).map(|n| format!("folder/{n:04}.txt")).collect();
    bucket.put_all(&keys)?;
    assert_eq!(bucket.list()?, keys.iter().cloned().collect());
    ensure!(bucket.exists("folder/0007.txt")? && !bucket.exists("folder/none.txt")?);
    store.stop();
    ensure!(bucket.exists("folder/0007.txt").is_err(), "a stopped server answered");
    store.restart()?;
    ensure!(bucket.exists("folder/0007.txt")?, "an object was lost");
    Ok(())
}

#[test]
fn the_scripted_server_plays_its_script() -> Result<()> {
    let server = FaultServer::start()?;
    // Its questions are not signed.
    server.is_no_store();
    server.answer_next(Answer::error(503, "SlowDown"));
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    assert_eq!(agent.delete(format!("{}/b/k", server.endpoint())).call()?.status().as_u16(), 503);
    let batch = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
    let mut answer = agent.post(format!("{}/b?delete", server.endpoint())).send(batch)?;
    ensure!(answer.body_mut().read_to_string()?.contains("<Deleted><Key>b</Key></Deleted>"));
    assert_eq!(server.requests().iter().map(|request| request.method.as_str()).collect::<Vec<_>>(), ["DELETE", "POST"]);
    Ok(())
}
