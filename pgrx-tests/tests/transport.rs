//! The way to a store: proxies, authorities and certificates.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::account::Account;
use storage_reaper_tests::fault::FaultServer;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::store::{Program, Store};
use storage_reaper_tests::tls::TlsFront;

const ONE_ATTEMPT: &str = "storage_reaper.max_attempts = 1\n";

/// A backend and bucket `far` at an endpoint, with an object and a row that names it.
fn declare_far(reaper: &mut Reaper, server: &FaultServer, endpoint: &str) -> Result<()> {
    server.put("far", &["a"]);
    reaper.images()?;
    reaper.db.run(&format!(
        "SELECT storage_reaper.create_backend('far', kind => 'generic', endpoint => '{endpoint}', bucket => 'far',
                                              credentials => 'profile:media');
         SELECT storage_reaper.arm();
         INSERT INTO image (url) VALUES ('s3://far/a')"
    ))
}

/// The files of the front's authority and of the client's certificate.
fn certificates(reaper: &Reaper, front: &TlsFront) -> Result<[PathBuf; 2]> {
    let account = Account::of_servers()?;
    let paths = ["authority.pem", "client.pem"].map(|name| reaper.cluster.directory().join(name));
    for (path, text) in paths.iter().zip([&front.authority, &front.client]) {
        account.write_private(path, text)?;
    }
    Ok(paths)
}

#[test]
fn requests_go_past_the_proxy() -> Result<()> {
    let server = FaultServer::start()?;
    let conf = format!("{ONE_ATTEMPT}storage_reaper.proxy = '{}'\n", server.endpoint());
    let mut reaper = Reaper::facing(&server, &conf)?;
    // Nobody but the proxy knows it.
    server.stands_for("store.example.test:9000");
    declare_far(&mut reaper, &server, "http://store.example.test:9000")?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["s3://far/a|deleted"]);
    let through = server.requests().into_iter().map(|request| request.through).next().flatten();
    assert_eq!(through.as_deref(), Some("store.example.test:9000"));
    Ok(())
}

#[test]
fn a_proxy_with_a_password_is_used() -> Result<()> {
    let server = FaultServer::start()?;
    let proxy = server.endpoint().replace("://", "://user:wJalrSECRET@");
    let mut reaper = Reaper::facing(&server, &format!("{ONE_ATTEMPT}storage_reaper.proxy = '{proxy}'\n"))?;
    reaper.images()?;
    reaper.add_images(&["a"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("it is held", "SELECT held_reason LIKE '%storage_reaper.proxy%' FROM storage_reaper.backends")?;
    ensure!(server.requests().is_empty() && !reaper.cluster.log()?.contains("wJalrSECRET"), "{}", reaper.picture());
    Ok(())
}

#[test]
fn a_store_that_asks_for_a_certificate_gets_none() -> Result<()> {
    let server = FaultServer::start()?;
    let front = TlsFront::start(server.address(), &[])?;
    let mut reaper = Reaper::facing(&server, ONE_ATTEMPT)?;
    server.stands_for(&front.host());
    declare_far(&mut reaper, &server, &format!("https://{}", front.host()))?;
    let [authority, client] = certificates(&reaper, &front)?;

    reaper.db.run("DELETE FROM image")?;
    let held = |why| {
        format!("SELECT count(*) = 1 FROM storage_reaper.backends WHERE name = 'far' AND held_reason LIKE '%{why}%'")
    };
    reaper.until("an unknown authority is not trusted", &held("could not connect"))?;
    reaper.cluster.reconfigure(&format!("storage_reaper.ca_file = '{}'", authority.display()))?;
    reaper.until("the store wants a certificate", &held("broke"))?;
    ensure!(server.requests().is_empty(), "{:?}", server.requests());
    reaper.cluster.reconfigure(&format!("storage_reaper.client_certificate_file = '{}'", client.display()))?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["s3://far/a|deleted"]);
    ensure!(server.survivors("far").is_empty(), "{}", reaper.picture());
    Ok(())
}

#[test]
fn a_store_that_speaks_http_2_only_is_not_understood() -> Result<()> {
    let store = Arc::new(Store::start(Program::Embedded)?);
    let front = TlsFront::start(
        store.endpoint().strip_prefix("http://").context("the store speaks TLS itself")?.parse()?,
        &["h2"],
    )?;
    let conf = format!("{ONE_ATTEMPT}storage_reaper.batch_size = 1\n");
    let mut reaper = Reaper::through(store, &format!("https://{}", front.host()), &conf)?;
    let [authority, client] = certificates(&reaper, &front)?;
    reaper.cluster.reconfigure(&format!(
        "storage_reaper.ca_file = '{}'\nstorage_reaper.client_certificate_file = '{}'",
        authority.display(),
        client.display()
    ))?;
    reaper.images()?;
    reaper.arm()?;
    let mut drain = |folder: &str| {
        let keys: Vec<String> = (0..200).map(|n| format!("{folder}/{n} é+?.png")).collect();
        reaper.add_images(&keys)?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
        assert_eq!(reaper.objects()?, [""; 0]);
        anyhow::Ok(front.connections())
    };
    // The first requests find no connection; all later ones share one, which carries many at once.
    let connections = drain("a")?;
    assert_eq!(drain("b")?, connections);
    assert_eq!(reaper.tally()?, ["deleted|400"]);
    Ok(())
}
