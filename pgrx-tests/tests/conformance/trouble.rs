//! Wrong secrets and missing buckets: the backend is held, its objects stay and lose nothing.

use anyhow::{Result, ensure};
use storage_reaper_tests::account::Account;
use storage_reaper_tests::scenario::Reaper;
use storage_reaper_tests::store::Store;

const KEYS: [&str; 4] = ["a.png", "b.png", "c.png", "d.png"];
const HELD: &str = "SELECT bool_or(held_since IS NOT NULL) FROM storage_reaper.backends";

/// Nothing was deleted, nothing is charged to an object.
fn nothing_has_happened(reaper: &mut Reaper, queued: i64) -> Result<()> {
    let blameless = "SELECT count(*) FROM storage_reaper.queue WHERE state = 'held' AND attempts = 0";
    reaper.until("the objects are held", &format!("SELECT ({blameless}) = {queued}"))?;
    assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.queue")?, queued);
    assert_eq!(reaper.outcomes()?, Vec::<String>::new());
    Ok(())
}

fn everything_goes(reaper: &mut Reaper) -> Result<()> {
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, KEYS.map(|key| format!("{key}|deleted")));
    Ok(())
}

#[test]
fn a_wrong_secret_deletes_or_costs_attempts() -> Result<()> {
    // How moto treats signatures holds for all of its clients.
    let mut reaper = Reaper::with_own_store("")?;
    reaper.images()?;
    reaper.add_images(&KEYS)?;
    let (access_key, secret) = reaper.store()?.insist_on_signatures()?;
    let path = reaper.cluster.directory().join("credentials");
    let write = |secret: &str| {
        let text = format!("[media]\naws_access_key_id = {access_key}\naws_secret_access_key = {secret}\n");
        Account::of_servers()?.write_private(&path, &text)
    };
    write("not-the-secret")?;
    reaper.cluster.reconfigure("")?;
    reaper.arm()?;
    // Alone, and then the others in a batch.
    for (deletion, queued) in [("DELETE FROM image WHERE id = 1", 1), ("DELETE FROM image", 4)] {
        reaper.db.run("SELECT storage_reaper.alter_backend('media', verify => 'none')")?;
        reaper.db.run(deletion)?;
        reaper.until("the backend is held", HELD)?;
        nothing_has_happened(&mut reaper, queued)?;
        let reason = reaper.db.row("SELECT held_reason FROM storage_reaper.backends")?;
        ensure!(reason.contains("SignatureDoesNotMatch"), "{reason}");
    }
    // Nothing is sent while everybody is believed.
    reaper.db.run("SELECT storage_reaper.pause()")?;
    let left = reaper.store()?.without_signatures(|| reaper.objects())?;
    assert_eq!(left, KEYS);
    reaper.db.run("SELECT storage_reaper.resume()")?;

    write(&secret)?;
    reaper.cluster.reconfigure("")?;
    everything_goes(&mut reaper)?;
    assert_eq!(reaper.store()?.without_signatures(|| reaper.objects())?, Vec::<String>::new());
    Ok(())
}

/// Whether a batch for a bucket that is not there is refused; a server that confirms it leaves nobody a chance.
fn refuses_a_batch_without_bucket(store: &Store) -> Result<bool> {
    Ok(!store.bucket("no-such-bucket")?.erase(&["a.png", "b.png"])?)
}

#[test]
fn a_missing_bucket_passes_for_an_empty_one() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&KEYS)?;
    let bucket = reaper.bucket_name().to_owned();
    reaper.db.run("SELECT storage_reaper.alter_backend('media', bucket => 'no-such-bucket')")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE id = 1")?;
    reaper.until("the backend is held", HELD)?;
    nothing_has_happened(&mut reaper, 1)?;
    let reason = reaper.db.row("SELECT held_reason FROM storage_reaper.backends")?;
    ensure!(reason.contains("NoSuchBucket"), "{reason}");
    if refuses_a_batch_without_bucket(reaper.store()?)? {
        reaper.db.run("DELETE FROM image; SELECT storage_reaper.alter_backend('media', bucket => 'no-such-bucket')")?;
        reaper.until("the backend is held", HELD)?;
        nothing_has_happened(&mut reaper, 4)?;
    }
    assert_eq!(reaper.objects()?, KEYS);
    reaper.db.run(&format!("SELECT storage_reaper.alter_backend('media', bucket => '{bucket}'); DELETE FROM image"))?;
    everything_goes(&mut reaper)?;
    assert_eq!(reaper.objects()?, Vec::<String>::new());
    Ok(())
}
