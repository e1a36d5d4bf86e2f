//! What a row can own, and what it shares with other rows.

use anyhow::{Result, ensure};
use storage_reaper_tests::scenario::Reaper;

/// A table of pictures whose owners choose what their rows name.
fn profiles(reaper: &mut Reaper, owns: &str) -> Result<()> {
    reaper.db.run(&format!(
        "CREATE TABLE profile (id int PRIMARY KEY, user_id text, avatar text);
         CREATE INDEX ON profile (storage_reaper.fingerprint(avatar));
         SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media');
         SELECT storage_reaper.attach('profile', 'avatar', backend => 'media', owns => '{owns}')"
    ))
}

#[test]
fn a_user_has_the_object_of_another_deleted() -> Result<()> {
    let mut reaper = Reaper::new()?;
    profiles(&mut reaper, "users/{user_id}/")?;
    reaper.bucket()?.put_all(&[
        "users/2/deep/f.png",
        "users/1/a.png",
        "users/1/b.png",
        "users/10/c.png",
        "users/2/d.png",
        "contract.pdf",
    ])?;
    reaper.arm()?;
    reaper.db.run(
        "INSERT INTO profile VALUES (1, '1', 'https://cdn.example.test/users/1/a.png'), (2, '1', 'users/1/b.png'),
             (3, '1', 'https://cdn.example.test/users/10/c.png'), (4, '1', 'users/2/d.png'), (5, '1', 'contract.pdf'),
             (6, NULL, 'users/2/d.png'), (7, '', 'users//e'), (8, '1', 'users/1/../2/d.png'), (9, '2/deep', 'users/2/deep/f.png');
         UPDATE profile SET avatar = NULL WHERE id IN (2, 4); DELETE FROM profile",
    )?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["contract.pdf", "users/10/c.png", "users/2/d.png", "users/2/deep/f.png"]);
    let reasons = "SELECT DISTINCT outcome, reason FROM storage_reaper.history ORDER BY 1";
    assert_eq!(reaper.db.rows(reasons)?, ["deleted|∅", "kept|not_owned"]);
    Ok(())
}

#[test]
fn a_filter_or_a_truncation_forgets_what_rows_own() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        "CREATE TABLE doc (id int PRIMARY KEY, tenant int, keys text[]);
         SELECT storage_reaper.attach('doc', 'keys', backend => 'media', filter => 'doc.id > 0', owns => 't/{tenant}/', allow_scan => true);
         INSERT INTO doc VALUES (1, 7, '{t/7/a,t/8/b}'), (2, 8, '{t/8/c,t/7/d}'), (3, 7, '{t/7/e,x}')",
    )?;
    reaper.bucket()?.put_all(&["t/7/a", "t/8/b", "t/8/c", "t/7/d", "t/7/e", "x"])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM doc WHERE id = 1; UPDATE doc SET keys = NULL WHERE id = 2; TRUNCATE doc")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["t/7/d", "t/8/b", "x"]);
    Ok(())
}

#[test]
fn a_retry_of_a_parked_object_forgets_what_its_row_owns() -> Result<()> {
    let mut reaper = Reaper::new()?;
    profiles(&mut reaper, "users/{user_id}/")?;
    reaper.bucket()?.put_all(&["users/1/a.png", "users/2/b.png"])?;
    reaper.arm()?;
    reaper.db.run(
        "INSERT INTO profile VALUES (1, '1', 'https://cdn.example.test/users/2/b.png?x=1'), (2, '1', 'https://cdn.example.test/users/1/a.png?x=1');
         DELETE FROM profile",
    )?;
    reaper.until("both are parked", "SELECT parked = 2 FROM storage_reaper.status")?;
    // What was ambiguous is not any more.
    reaper.db.run(
        "UPDATE storage_reaper.parked_object SET locator = replace(locator, '?x=1', ''); SELECT storage_reaper.retry()",
    )?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["users/2/b.png"]);
    Ok(())
}

#[test]
fn nobody_is_told_that_rows_may_name_anything() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run("CREATE TABLE open (url text); INSERT INTO open VALUES ('https://cdn.example.test/a.png'); CREATE TABLE keys (key text); INSERT INTO keys VALUES ('a.png')")?;
    let attach = |table: &str, more: &str| {
        format!(
            "SELECT storage_reaper.attach('{table}', '{}', backend => 'media', allow_scan => true{more})",
            if table == "open" { "url" } else { "key" }
        )
    };
    let warned =
        |reaper: &mut Reaper| Ok::<usize, anyhow::Error>(reaper.cluster.log()?.matches("name objects by URL").count());
    reaper.db.run(&attach("keys", ""))?;
    reaper.db.run(&attach("open", ", owns => '*'"))?;
    reaper.db.run(&attach("open", ", owns => 'users/'"))?;
    assert_eq!(warned(&mut reaper)?, 0);
    reaper.db.run(&attach("open", ""))?;
    assert_eq!(warned(&mut reaper)?, 1);
    for owns in ["users", "{url}", "", "users/{missing}/", "a/{url"] {
        let refusal = reaper.db.refusal(&attach("open", &format!(", owns => '{owns}'")))?;
        ensure!(["22023", "42703"].contains(&refusal.code.as_str()), "{owns}: {refusal}");
    }
    Ok(())
}

#[test]
fn the_first_of_several_rows_takes_their_common_content_along() -> Result<()> {
    for kind in ["text", "bytea", "char(6)", "uuid"] {
        let mut reaper = Reaper::new()?;
        let hash = |letter: &str| match kind {
            "bytea" => format!("'\\x{}'", letter.repeat(4)),
            "uuid" => format!("'{}'", letter.repeat(32)),
            _ => format!("'{letter}'"),
        };
        reaper.db.run(&format!(
            "SET standard_conforming_strings = on; SET bytea_output = 'escape';
             CREATE TABLE file (id int PRIMARY KEY, key text, content_hash {kind}); CREATE INDEX ON file (content_hash);
             CREATE INDEX ON file (storage_reaper.fingerprint(key));
             INSERT INTO file VALUES (1, 'a', {a}), (2, 'copy-of-a', {a}), (3, 'b', {b}), (4, 'c', NULL), (5, 'd', NULL);
             SELECT storage_reaper.attach('file', 'key', backend => 'media', shared_by => 'content_hash')",
            a = hash("a").replace("\\\\", "\\"),
            b = hash("b").replace("\\\\", "\\"),
        ))?;
        reaper.bucket()?.put_all(&["a", "b", "c", "d"])?;
        reaper.arm()?;
        reaper.db.run("DELETE FROM file WHERE id IN (1, 3, 4)")?;
        reaper.until_drained()?;
        assert_eq!(reaper.outcomes()?, ["a|kept", "b|deleted", "c|deleted"], "{kind}");
        reaper.db.run("DELETE FROM file; SELECT storage_reaper.enqueue(ARRAY['a'], 'media')")?;
        reaper.until_drained()?;
        assert_eq!(reaper.objects()?, Vec::<String>::new(), "{kind}");
    }
    Ok(())
}
