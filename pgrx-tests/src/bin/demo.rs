//! `make demo`: a photo site whose rows go, and what becomes of their objects. Every number is read from the
//! database's views or from the store's own listing. KEEP=1 leaves everything running.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use storage_reaper_tests::cluster::{Cluster, PRELOADED, SHOP};
use storage_reaper_tests::database::Database;
use storage_reaper_tests::scenario::write_credentials;
use storage_reaper_tests::store::{Contents, Program, SECRET_KEY, Store};
use storage_reaper_tests::wait;

const CDN: &str = "https://cdn.example.com/";
const PHOTOS: usize = 3000;
const MEMBERS: usize = 40;

fn main() -> Result<()> {
    let keep = env::var("KEEP").is_ok_and(|value| value == "1");
    let begun = Instant::now();
    let (cluster, store) = start(keep)?;
    let bucket = store.create_bucket("media")?;
    let mut site = Site { db: cluster.database(SHOP)?, bucket: &bucket };

    println!("storage_reaper: rows go, their objects go\n");
    println!(
        "A throw-away {} and an S3 server at {}, both in {}.",
        cluster.installation().version(),
        store.endpoint(),
        env::temp_dir().display()
    );
    site.opens(&store)?;
    site.observes()?;
    site.is_armed()?;
    site.changes_its_mind()?;
    site.replaces_an_object()?;
    site.shares_an_object()?;
    site.links_elsewhere()?;
    site.closes_the_books()?;

    if keep {
        leave_running(&cluster, &store)?;
    } else {
        println!(
            "\nDone in {:.0} s. Everything that was started is stopped and removed.",
            begun.elapsed().as_secs_f32()
        );
    }
    Ok(())
}

fn start(keep: bool) -> Result<(Cluster, Store)> {
    let (cluster, store) = if keep {
        (Cluster::start_and_keep(PRELOADED)?, Store::start_and_keep(Program::Embedded)?)
    } else {
        (Cluster::start(PRELOADED)?, Store::start(Program::Embedded)?)
    };
    write_credentials(&cluster, SECRET_KEY)?;
    Ok((cluster, store))
}

/// The photo site: its database and its bucket.
struct Site<'a> {
    db: Database,
    bucket: &'a Contents<'a>,
}

impl Site<'_> {
    fn opens(&mut self, store: &Store) -> Result<()> {
        self.db.run(
            "CREATE TABLE member (id bigint PRIMARY KEY);
             CREATE TABLE photo (id bigint PRIMARY KEY, member_id bigint REFERENCES member ON DELETE CASCADE, url text);
             CREATE INDEX ON photo (member_id); 
             CREATE TABLE poster (id bigint PRIMARY KEY, url text)",
        )?;
        self.db.run(&format!(
            "INSERT INTO member SELECT generate_series(1, {MEMBERS});
             INSERT INTO photo SELECT n, 1 + n % {MEMBERS}, '{CDN}photo/' || n || '.jpg' FROM generate_series(1, {PHOTOS}) n"
        ))?;
        let keys: Vec<String> = (1..=PHOTOS).map(|n| format!("photo/{n}.jpg")).collect();
        self.bucket.put_all(&keys)?;
        let rows = self.db.row("SELECT (SELECT count(*) FROM member), (SELECT count(*) FROM photo)")?;
        let (members, photos) = rows.split_once('|').context("two counts")?;
        println!("A photo site: {members} members, {photos} photos. Each row of photo holds the URL of its object;");
        println!("the bucket holds {} objects.\n", self.count()?);

        let backend = format!(
            "SELECT storage_reaper.create_backend('media', kind => 'generic', endpoint => '{}',\n         bucket => '{}', credentials => 'profile:media')",
            store.endpoint(),
            self.bucket.name()
        );
        self.say("CREATE EXTENSION storage_reaper")?;
        self.say(&backend)?;
        self.say(&format!("SELECT storage_reaper.create_location('{CDN}', backend => 'media')"))?;
        self.say("CREATE INDEX ON photo (storage_reaper.fingerprint(url))")?;
        self.say("CREATE INDEX ON poster (storage_reaper.fingerprint(url))")?;
        self.say("SELECT storage_reaper.attach('photo', 'url', backend => 'media')")?;
        self.say("SELECT storage_reaper.attach('poster', 'url', backend => 'media')")
    }

    fn observes(&mut self) -> Result<()> {
        println!("\nTwo members leave, and a foreign key takes their photos along:");
        self.say("DELETE FROM member WHERE id <= 2")?;
        let seen = self.db.row("SELECT count(*), min(state) FROM storage_reaper.queue")?;
        let (queued, state) = seen.split_once('|').context("a count and a state")?;
        println!(
            "  The queue has {queued} objects, {state}: nothing is deleted before arm(). The bucket still holds {}.",
            self.count()?
        );
        Ok(())
    }

    fn is_armed(&mut self) -> Result<()> {
        let begun = Instant::now();
        self.say("SELECT storage_reaper.arm()")?;
        self.until_drained()?;
        println!(
            "  {} objects gone after {} ms. The bucket holds {}.",
            self.outcomes("deleted")?,
            begun.elapsed().as_millis(),
            self.count()?
        );
        Ok(())
    }

    fn changes_its_mind(&mut self) -> Result<()> {
        println!("\nSomebody deletes everything, and thinks better of it:");
        let before = self.count()?;
        self.say("BEGIN; DELETE FROM photo; ROLLBACK")?;
        let queued = self.db.number("SELECT count(*) FROM storage_reaper.queue")?;
        println!("  The queue has {queued} objects, the bucket {}: nothing was ever asked for.", self.count()?);
        ensure!(self.count()? == before, "a rollback took objects");
        Ok(())
    }

    fn replaces_an_object(&mut self) -> Result<()> {
        println!("\nA photo gets a better version, and two swap places:");
        self.bucket.put("photo/better.jpg")?;
        self.say(&format!("UPDATE photo SET url = '{CDN}photo/better.jpg' WHERE id = 500"))?;
        self.say("UPDATE photo a SET url = b.url FROM photo b WHERE (a.id, b.id) IN ((501, 502), (502, 501))")?;
        self.until_drained()?;
        println!(
            "  photo/500.jpg is {}; photo/501.jpg and 502 are {}.",
            self.whereabouts("photo/500.jpg")?,
            self.whereabouts("photo/501.jpg")?
        );
        Ok(())
    }

    fn shares_an_object(&mut self) -> Result<()> {
        println!("\nA photo goes that a poster still shows:");
        self.db.run("INSERT INTO poster SELECT 1, url FROM photo WHERE id = 700")?;
        self.say("DELETE FROM photo WHERE id = 700")?;
        self.until_drained()?;
        let why = "SELECT outcome, reason FROM storage_reaper.history WHERE locator LIKE '%/700.jpg'";
        let told = self.db.row(why)?.replace('|', ", reason: ");
        println!("  photo/700.jpg is {} ({told}).", self.whereabouts("photo/700.jpg")?);
        Ok(())
    }

    fn links_elsewhere(&mut self) -> Result<()> {
        println!("\nA row that names somebody else's object goes:");
        self.db.run("INSERT INTO photo VALUES (100001, 30, 'https://elsewhere.example.org/photo/1.jpg')")?;
        self.say("DELETE FROM photo WHERE id = 100001")?;
        self.until_drained()?;
        let said = self.db.rows(
            "SELECT 'parked', reason FROM storage_reaper.parked WHERE locator LIKE '%elsewhere%'
             UNION ALL SELECT outcome, reason FROM storage_reaper.history WHERE locator LIKE '%elsewhere%' AND outcome <> 'parked'",
        )?;
        println!("  No request is sent for it: {}.", said.join(", ").replace('|', ", "));
        Ok(())
    }

    fn closes_the_books(&mut self) -> Result<()> {
        let outcomes =
            self.db.rows("SELECT outcome, count(*) FROM storage_reaper.history GROUP BY 1 ORDER BY 2 DESC")?;
        println!("\nHistory: {}.", outcomes.join(", ").replace('|', " "));
        let named = format!(
            "SELECT DISTINCT substr(url, {}) FROM (TABLE poster UNION ALL SELECT id, url FROM photo) x",
            CDN.len() + 1
        );
        let named: BTreeSet<String> = self.db.rows(&named)?.into_iter().collect();
        let listed = self.bucket.list()?;
        ensure!(
            named == listed,
            "rows and store differ: {:?}",
            named.symmetric_difference(&listed).take(5).collect::<Vec<_>>()
        );
        println!("Rows name {} objects, the store lists {}: the same ones.", named.len(), listed.len());
        Ok(())
    }

    /// Shows a statement and runs it.
    fn say(&mut self, sql: &str) -> Result<()> {
        println!("  =# {sql};");
        self.db.run(sql)
    }

    fn until_drained(&mut self) -> Result<()> {
        wait::until(Duration::from_secs(30), "the queue is empty", || {
            Ok(self.db.holds("SELECT count(*) = 0 FROM storage_reaper.queue")?.then_some(()))
        })
    }

    fn outcomes(&mut self, outcome: &str) -> Result<i64> {
        self.db.number(&format!("SELECT count(*) FROM storage_reaper.history WHERE outcome = '{outcome}'"))
    }

    fn count(&self) -> Result<usize> {
        Ok(self.bucket.list()?.len())
    }

    fn whereabouts(&self, key: &str) -> Result<&'static str> {
        Ok(if self.bucket.exists(key)? { "still there" } else { "gone" })
    }
}

fn leave_running(cluster: &Cluster, store: &Store) -> Result<()> {
    let (server, s3) = (cluster.pid().context("no server")?, store.pid().context("no store")?);
    let stop = cluster.directory().join("stop");
    let (data, objects) = (cluster.directory().display(), store.directory().display());
    fs::write(&stop, format!("#!/bin/sh\nkill -QUIT {server}\nkill {s3}\nsleep 1\nrm -rf '{data}' '{objects}'\n"))?;
    fs::set_permissions(&stop, fs::Permissions::from_mode(0o755))?;
    let psql = cluster.installation().program("psql");
    println!("\nLeft running. Try it by hand:\n  {} -h {data} -U postgres -d {SHOP}", psql.display());
    println!(
        "The store: {}, objects in {objects}/objects/media. Stop and remove it all: {}",
        store.endpoint(),
        stop.display()
    );
    Ok(())
}
