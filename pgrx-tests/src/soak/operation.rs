//! What a client does in a transaction.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use super::client::{Client, Row, key_of};

/// Runs between BEGIN and the end of the transaction.
pub(super) type Work = fn(&mut Client) -> Result<()>;

pub(super) struct Operation {
    pub(super) name: &'static str,
    /// How often, compared with the others.
    pub(super) weight: usize,
    pub(super) work: Work,
}

const fn operation(name: &'static str, weight: usize, work: Work) -> Operation {
    Operation { name, weight, work }
}

/// What must be safe whatever else happens.
pub(super) const OPERATIONS: [Operation; 17] = [
    operation("insert images", 5, insert_images),
    operation("insert an album", 2, insert_album),
    operation("delete images", 5, delete_images),
    operation("delete albums", 2, delete_albums),
    operation("shorten an album", 1, shorten_album),
    operation("replace an image", 3, replace),
    operation("spell an image otherwise", 2, respell),
    operation("name an image on a page", 2, share_with_page),
    operation("name an image in an album", 2, share_with_album),
    operation("move an image to an album", 1, move_to_album),
    operation("move an image to a page", 1, move_to_page),
    operation("delete pages", 3, delete_pages),
    operation("queue a live object", 2, enqueue_live),
    operation("write for a long time", 1, take_long),
    operation("delete under a writer that names it again", 3, delete_under_a_writer),
    // These need the fence, and a guard that asks on one snapshot.
    operation("name a deleted image again", 3, name_again),
    operation("move a page's image back", 3, move_back),
];

fn insert_images(client: &mut Client) -> Result<()> {
    let count = client.rng.usize(1..20);
    let keys = client.store(count)?;
    let urls = client.all_spelled(&keys);
    client.db.execute("INSERT INTO image (url) SELECT unnest($1::text[])", &[&urls])?;
    Ok(())
}

fn insert_album(client: &mut Client) -> Result<()> {
    let count = client.rng.usize(1..5);
    let keys = client.store(count)?;
    let urls = client.all_spelled(&keys);
    client.db.execute("INSERT INTO album (urls) VALUES ($1)", &[&urls])?;
    Ok(())
}

/// Some before a savepoint, and some behind it that are spared.
fn delete_images(client: &mut Client) -> Result<()> {
    let most = client.rng.i64(1..20);
    let rows = client.locked("image", most, "UPDATE")?;
    delete(client, "image", &rows)?;
    if client.rng.u8(..4) == 0 {
        client.db.batch_execute("SAVEPOINT before")?;
        let spared = client.locked("image", most, "UPDATE")?;
        delete(client, "image", &spared)?;
        client.db.batch_execute("ROLLBACK TO before")?;
    }
    Ok(())
}

fn delete_albums(client: &mut Client) -> Result<()> {
    let most = client.rng.i64(1..5);
    let rows = client.locked("album", most, "UPDATE")?;
    delete(client, "album", &rows)
}

fn delete_pages(client: &mut Client) -> Result<()> {
    let most = client.rng.i64(1..5);
    let rows = client.locked("page", most, "UPDATE")?;
    let keys = rows.iter().flat_map(|row| &row.urls).map(|url| key_of(url).to_owned());
    // Nobody gives up what only a page named.
    client.soak.ledger().left_by_pages.extend(keys);
    delete(client, "page", &rows)
}

fn delete(client: &mut Client, table: &str, rows: &[Row]) -> Result<()> {
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    client.db.execute(&format!("DELETE FROM {table} WHERE id = ANY ($1)"), &[&ids])?;
    Ok(())
}

fn shorten_album(client: &mut Client) -> Result<()> {
    for Row { id, .. } in client.locked("album", 1, "UPDATE")? {
        client.db.execute("UPDATE album SET urls = urls[2:] WHERE id = $1", &[&id])?;
    }
    Ok(())
}

fn replace(client: &mut Client) -> Result<()> {
    for Row { id, .. } in client.locked("image", 1, "UPDATE")? {
        let keys = client.store(1)?;
        let url = client.spelled(&keys[0]);
        client.db.execute("UPDATE image SET url = $2 WHERE id = $1", &[&id, &url])?;
    }
    Ok(())
}

fn respell(client: &mut Client) -> Result<()> {
    for Row { id, urls } in client.locked("image", 1, "UPDATE")? {
        let url = client.spelled(key_of(&urls[0]));
        client.db.execute("UPDATE image SET url = $2 WHERE id = $1", &[&id, &url])?;
    }
    Ok(())
}

fn share_with_page(client: &mut Client) -> Result<()> {
    for Row { urls, .. } in client.locked("image", 3, "SHARE")? {
        let url = client.spelled(key_of(&urls[0]));
        client.db.execute("INSERT INTO page (url) VALUES ($1)", &[&url])?;
    }
    Ok(())
}

fn share_with_album(client: &mut Client) -> Result<()> {
    let rows = client.locked("image", 3, "SHARE")?;
    put_into_album(client, &rows)
}

fn move_to_album(client: &mut Client) -> Result<()> {
    let rows = client.locked("image", 2, "UPDATE")?;
    delete(client, "image", &rows)?;
    put_into_album(client, &rows)
}

fn put_into_album(client: &mut Client, rows: &[Row]) -> Result<()> {
    let keys: Vec<String> = rows.iter().flat_map(|row| &row.urls).map(|url| key_of(url).to_owned()).collect();
    let urls = client.all_spelled(&keys);
    client.db.execute("INSERT INTO album (urls) VALUES ($1)", &[&urls])?;
    Ok(())
}

fn move_to_page(client: &mut Client) -> Result<()> {
    let rows = client.locked("image", 2, "UPDATE")?;
    delete(client, "image", &rows)?;
    for url in rows.iter().flat_map(|row| &row.urls) {
        client.db.execute("INSERT INTO page (url) VALUES ($1)", &[url])?;
    }
    Ok(())
}

/// An application that is wrong about an object: rows still name it.
fn enqueue_live(client: &mut Client) -> Result<()> {
    for Row { urls, .. } in client.locked("image", 3, "SHARE")? {
        client.db.execute("SELECT storage_reaper.enqueue($1::text[], backend => 'media')", &[&urls])?;
    }
    Ok(())
}

/// Holds the queue back, since it may name anything before it ends.
fn take_long(client: &mut Client) -> Result<()> {
    insert_images(client)?;
    thread::park_timeout(Duration::from_millis(client.rng.u64(..1200)));
    delete_images(client)
}

/// The writer has begun when the object is captured, and names it at its end, or not.
fn delete_under_a_writer(client: &mut Client) -> Result<()> {
    client.db.batch_execute("INSERT INTO mark DEFAULT VALUES")?;
    let keys = client.store(1)?;
    let url = client.spelled(&keys[0]);
    let mut other = client.soak.connect()?;
    let id: i64 = other.query_one("INSERT INTO image (url) VALUES ($1) RETURNING id", &[&url])?.get(0);
    other.execute("DELETE FROM image WHERE id = $1", &[&id])?;
    client.committed(&keys);
    thread::park_timeout(Duration::from_millis(client.rng.u64(..60)));
    let (table, again) = (if client.rng.bool() { "image" } else { "page" }, client.spelled(&keys[0]));
    client.db.execute(&format!("INSERT INTO {table} (url) VALUES ($1)"), &[&again])?;
    Ok(())
}

/// The deletion is committed before the object is named again; whoever finds it there then may rely on it.
fn name_again(client: &mut Client) -> Result<()> {
    let rows = client.locked("image", 1, "UPDATE")?;
    delete(client, "image", &rows)?;
    client.db.batch_execute("COMMIT; BEGIN")?;
    for url in rows.iter().flat_map(|row| &row.urls) {
        client.db.batch_execute("SAVEPOINT before")?;
        client.db.execute("INSERT INTO image (url) VALUES ($1)", &[url])?;
        if !client.soak.contents()?.exists(key_of(url))? {
            client.db.batch_execute("ROLLBACK TO before")?;
        }
    }
    Ok(())
}

/// In every snapshot one of the two rows is there.
fn move_back(client: &mut Client) -> Result<()> {
    let rows = client.locked("page", 2, "UPDATE")?;
    for url in rows.iter().flat_map(|row| &row.urls) {
        client.db.execute("INSERT INTO image (url) VALUES ($1)", &[url])?;
    }
    delete(client, "page", &rows)
}
