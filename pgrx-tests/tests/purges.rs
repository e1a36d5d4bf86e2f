//! Caches are told of URLs whose objects are gone, by a service that may not listen.

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::account::Account;
use storage_reaper_tests::fault::{Answer, FaultServer, Flaw, Request};
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::wait;

const TOKEN: &str = "token-that-nobody-may-see";
const ZONE: &str = "0123456789abcdef0123456789abcdef";
const RETRY: &str =
    "storage_reaper.retry_base = '1s'\nstorage_reaper.retry_max = '1s'\nstorage_reaper.max_attempts = 2\n";

/// A store, a cache's service, and rows that name objects.
struct Scene {
    reaper: Reaper,
    store: FaultServer,
    service: FaultServer,
}

impl Scene {
    fn new() -> Result<Scene> {
        let (store, mut reaper) = Reaper::armed_facing(RETRY)?;
        let service = FaultServer::start()?;
        service.is_no_store();
        service.answer_always(Some(Answer::of(200, r#"{"success": true, "status": "ok"}"#)));
        reaper.db.run(
            "SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media', key_prefix => 'pub/')",
        )?;
        let scene = Scene { reaper, store, service };
        scene.write_token(TOKEN)?;
        Ok(scene)
    }

    fn write_token(&self, token: &str) -> Result<()> {
        self.reaper.write_secret("secret")?;
        let path = self.reaper.cluster.directory().join("credentials");
        let text = std::fs::read_to_string(&path)?;
        Account::of_servers()?.write_private(&path, &format!("{text}[cdn]\napi_token = {token}\n"))
    }

    fn create(&mut self, kind: &str, more: &str) -> Result<()> {
        let address = self.service.endpoint();
        self.reaper.db.run(&format!(
            "SELECT storage_reaper.create_purge('https://cdn.example.test', '{kind}', address => '{address}'{more})"
        ))
    }

    fn lose(&mut self, keys: &[&str]) -> Result<()> {
        self.store.put("bucket", keys);
        self.reaper.add_images(keys)?;
        self.reaper.db.run("DELETE FROM image")
    }

    fn until(&mut self, what: &str) -> Result<()> {
        self.reaper.until(what, &format!("SELECT {what} FROM storage_reaper.purges"))
    }

    fn asked(&self) -> Vec<Request> {
        self.service.requests()
    }
}

#[test]
fn a_cache_goes_on_to_serve_what_is_gone() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("http", ", secret => 'profile:cdn'")?;
    scene.lose(&["pub/a b.png", "private/c.png", "pub/../d.png"])?;
    scene.until("done = 1 AND waiting = 0")?;
    let asked = scene.asked();
    ensure!(asked.len() == 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("POST", "/"));
    assert_eq!(asked[0].body, r#"{"urls": ["https://cdn.example.test/a%20b.png"]}"#);
    assert_eq!(asked[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    // What is kept is still served.
    scene.reaper.add_images(&["pub/e.png"])?;
    scene.reaper.db.run(
        "INSERT INTO image (url) SELECT url FROM image; DELETE FROM image WHERE id = (SELECT min(id) FROM image)",
    )?;
    scene.reaper.until_drained()?;
    scene.lose(&["pub/f.png"])?;
    scene.until("done = 3 AND waiting = 0")?;
    Ok(())
}

#[test]
fn a_preset_asks_in_its_own_way() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("cloudflare", &format!(", secret => 'profile:cdn', zone => '{ZONE}', batch_size => 2"))?;
    scene.lose(&["pub/1", "pub/2", "pub/3"])?;
    scene.until("done = 3 AND waiting = 0")?;
    let mut asked = scene.asked();
    asked.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].target, format!("/client/v4/zones/{ZONE}/purge_cache"));
    assert_eq!(asked[0].body, r#"{"files":["https://cdn.example.test/1","https://cdn.example.test/2"]}"#);
    scene.reaper.db.run("SELECT storage_reaper.drop_purge('https://cdn.example.test/')")?;
    scene.create("fastly", ", secret => 'profile:cdn'")?;
    scene.lose(&["pub/4?", "pub/5"])?;
    scene.until("done = 2 AND waiting = 0")?;
    let asked = scene.asked();
    let of_fastly: Vec<_> =
        asked[2..].iter().map(|request| (request.target.as_str(), request.header("fastly-key"))).collect();
    assert_eq!(of_fastly, [("/purge/cdn.example.test/4%3F", Some(TOKEN)), ("/purge/cdn.example.test/5", Some(TOKEN))]);
    Ok(())
}

#[test]
fn a_service_that_does_not_listen_stops_deletions() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("http", "")?;
    for answer in [Answer::of(503, "no").with("Retry-After: 0"), Answer::broken(Flaw::HangUp), Answer::of(401, TOKEN)] {
        scene.service.answer_always(Some(answer));
        let before = scene.asked().len();
        scene.lose(&["pub/a", "pub/b"])?;
        scene.reaper.until_drained()?;
        let asked = scene.service.request_after(before, wait::PATIENCE);
        asked.context("the service was not asked")?;
        scene.until("waiting > 0 AND failed_since IS NOT NULL AND last_error IS NOT NULL")?;
    }
    assert_eq!(scene.store.survivors("bucket"), Vec::<String>::new());
    scene.service.answer_always(Some(Answer::of(200, "")));
    scene.reaper.db.run("SELECT pg_reload_conf()")?;
    scene.until("done = 6 AND waiting = 0 AND given_up = 0 AND failed_since IS NULL AND last_error IS NULL")
}

#[test]
fn urls_that_a_service_refuses_are_told_for_ever_or_stop_the_others() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("http", "")?;
    scene.service.answer_naming("/bad", Answer::of(422, "no"));
    scene.lose(&["pub/1", "pub/2", "pub/3", "pub/bad", "pub/4", "pub/5", "pub/6"])?;
    scene.until("done = 6 AND given_up = 1 AND waiting = 0 AND failed_since IS NULL")?;
    ensure!(scene.asked().len() < 12, "{:?}", scene.asked());
    Ok(())
}

#[test]
fn every_row_makes_a_request_of_its_own() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("http", "")?;
    scene.service.answer_always(Some(Answer::of(503, "").with("Retry-After: 0")));
    for number in 0..40 {
        scene.reaper.add_images(&[format!("pub/{number}")])?;
        scene.reaper.db.run("DELETE FROM image")?;
    }
    scene.reaper.until_drained()?;
    scene.until("waiting = 40 AND failed_since IS NOT NULL")?;
    // A service that asks for no rest gets one.
    let failures = scene.asked().len();
    ensure!(failures < 40, "it was asked {failures} times");
    scene.service.answer_always(Some(Answer::of(200, "")));
    scene.until("done = 40 AND waiting = 0")?;
    let asked = scene.asked().len() - failures;
    ensure!(asked < 10, "{asked} requests for 40 URLs");
    Ok(())
}

#[test]
fn somebody_who_drops_a_purge_stops_deletions() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("http", "")?;
    let mut other = scene.reaper.cluster.database("shop")?;
    scene.lose(&["pub/a"])?;
    scene.until("done = 1")?;
    // What is captured while somebody writes waits for him, so it is captured before.
    scene.reaper.db.run("SELECT storage_reaper.pause()")?;
    scene.lose(&["pub/b", "pub/c"])?;
    other.run("BEGIN; SELECT storage_reaper.drop_purge('https://cdn.example.test')")?;
    scene.reaper.db.run("SELECT storage_reaper.resume()")?;
    scene.reaper.until_drained()?;
    other.run("COMMIT")?;
    let refused = scene.reaper.db.refusal("SELECT storage_reaper.drop_purge('https://cdn.example.test')")?;
    assert_eq!(refused.code, "42704");
    scene.create("http", "")?;
    let refused = scene.reaper.db.refusal("SELECT storage_reaper.drop_location('https://cdn.example.test/')")?;
    assert_eq!(refused.code, "2BP01");
    scene.lose(&["pub/d"])?;
    scene.until("done = 1 AND waiting = 0")
}

#[test]
fn a_refusal_with_a_good_status_is_taken_for_done() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("cloudflare", &format!(", secret => 'profile:cdn', zone => '{ZONE}'"))?;
    scene.service.answer_always(Some(Answer::of(200, r#"{"success": false}"#)));
    scene.lose(&["pub/a"])?;
    scene.until("done = 0 AND given_up = 1")
}

#[test]
fn a_token_stands_in_the_database_or_is_looked_for_once() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.write_token("\u{1}")?;
    scene.create("http", ", secret => 'profile:cdn'")?;
    scene.lose(&["pub/a"])?;
    scene.until("last_error = 'the profile holds no usable api_token'")?;
    scene.write_token(TOKEN)?;
    scene.until("done = 1")?;
    let shown = "SELECT s::text FROM storage_reaper.purges s UNION ALL SELECT p::text FROM storage_reaper.purge p";
    for text in scene.reaper.db.rows(shown)?.into_iter().chain([scene.reaper.cluster.log()?]) {
        ensure!(!text.contains(TOKEN), "{text}");
    }
    for (arguments, code) in [
        (format!("'https://cdn.example.test/', 'http', address => 'https://h.test', secret => '{TOKEN}'"), "22023"),
        (format!("'https://cdn.example.test/', 'http', address => 'https://u:{TOKEN}@h.test'"), "22023"),
        (format!("'https://cdn.example.test/', 'http', address => 'https://h.test/?t={TOKEN}'"), "22023"),
        ("'https://cdn.example.test/', 'http', address => 'http://169.254.169.254/'".to_owned(), "22023"),
        ("'https://cdn.example.test/', 'http'".to_owned(), "22023"),
        (
            "'https://cdn.example.test/', 'http', address => 'http://h.test', secret => 'profile:cdn'".to_owned(),
            "22023",
        ),
        ("'https://cdn.example.test/', 'other'".to_owned(), "22023"),
        ("'https://cdn.example.test/', 'fastly'".to_owned(), "22023"),
        ("'https://cdn.example.test/', 'cloudflare', secret => 'profile:cdn', zone => '../x'".to_owned(), "22023"),
        (
            "'https://cdn.example.test/', 'http', address => 'https://h.test', secret => 'environment'".to_owned(),
            "22023",
        ),
        ("'https://cdn.example.test/', 'http', address => 'https://h.test', body => 'x'".to_owned(), "22023"),
        ("'https://other.example.test/', 'http', address => 'https://h.test'".to_owned(), "42704"),
        ("'https://cdn.example.test/', 'http', address => 'https://h.test'".to_owned(), "42710"),
    ] {
        let refused = scene.reaper.db.refusal(&format!("SELECT storage_reaper.create_purge({arguments})"))?;
        assert_eq!(refused.code, code, "{arguments}: {refused}");
    }
    ensure!(!scene.reaper.cluster.log()?.contains(TOKEN), "the log shows a token");
    Ok(())
}

#[test]
fn a_copy_of_the_database_purges_the_cache_of_the_original() -> Result<()> {
    let mut scene = Scene::new()?;
    scene.create("http", "")?;
    scene.service.answer_always(Some(Answer::of(503, "")));
    scene.lose(&["pub/a"])?;
    scene.until("failed_since IS NOT NULL")?;
    scene.reaper.db.run("SELECT storage_reaper.disarm()")?;
    scene.service.answer_always(Some(Answer::of(200, "")));
    scene.reaper.db.run("SELECT pg_reload_conf()")?;
    scene.reaper.db.run("INSERT INTO image (url) VALUES ('pub/b'); DELETE FROM image")?;
    let before = scene.asked().len();
    ensure!(scene.service.request_after(before, std::time::Duration::from_secs(3)).is_none(), "it was told");
    scene.reaper.arm()?;
    scene.until("done = 2 AND waiting = 0")
}
