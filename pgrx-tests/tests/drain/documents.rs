//! References from documents that lie in object storage themselves: protect(…, document => …).

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::{Reaper, unique};
use storage_reaper_tests::wait;

/// A table whose rows name documents.
const PAGE: &str = "CREATE TABLE page (id int PRIMARY KEY, body_key text);
    CREATE INDEX ON page (storage_reaper.fingerprint(body_key));";
const PROTECT: &str = "SELECT storage_reaper.protect('page', 'body_key', document => 'json', backend => 'media')";

/// Pages, each with a document of that content, under `protect`.
fn pages(reaper: &mut Reaper, documents: &[&str]) -> Result<()> {
    reaper.db.run(PAGE)?;
    for (place, content) in documents.iter().enumerate() {
        page(reaper, place, content)?;
    }
    reaper.db.run(PROTECT)
}

fn page(reaper: &mut Reaper, id: usize, content: &str) -> Result<()> {
    reaper.bucket()?.write(&format!("page/{id}.json"), content)?;
    reaper.db.run(&format!("INSERT INTO page VALUES ({id}, 'page/{id}.json')"))
}

#[test]
fn a_reference_in_a_stored_document_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["0.png", "1.png", "2.png", "3.png", "4.png", "5.png"])?;
    reaper.db.run("SELECT storage_reaper.create_location('https://cdn.example.test/', backend => 'media')")?;
    pages(
        &mut reaper,
        &[
            r#"{"blocks": [{"children": [{"src": "0.png"}]}]}"#,
            r#"["https:\/\/cdn.example.test\/1.png?v=2", "<img src='//cdn.example.test/2.png'>", 17, null]"#,
        ],
    )?;
    reaper.bucket()?.write("note/1.md", "![x](https://cdn.example.test/3.png)")?;
    reaper.db.run(
        "CREATE TABLE note (id int); INSERT INTO note VALUES (1);
         SELECT storage_reaper.protect('note', template => 'note/{id}.md', document => 'text', backend => 'media', allow_scan => true)",
    )?;
    reaper.bucket()?.write("post.json", r#"{"mediaId": 5, "other": 6}"#)?;
    reaper.db.run(
        "CREATE TABLE post (key text); INSERT INTO post VALUES ('post.json'), (NULL), ('');
         SELECT storage_reaper.protect('post', 'key', document => 'json', member => 'mediaId', row_of => 'image.url',
                                       backend => 'media', allow_scan => true)",
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(
        reaper.db.rows("SELECT locator, coalesce(reason, outcome) FROM storage_reaper.history ORDER BY 1")?,
        [
            "0.png|referenced by reference page.body_key",
            "1.png|referenced by reference page.body_key",
            "2.png|referenced by reference page.body_key",
            "3.png|referenced by reference note.template",
            "4.png|referenced by reference post.key",
            "5.png|deleted",
        ]
    );
    let explained = reaper.db.rows(
        "SELECT detail FROM storage_reaper.explain('https://cdn.example.test/0.png') WHERE state = 'referenced'",
    )?;
    ensure!(explained.iter().any(|line| line.contains("page/0.json")), "{explained:?}");
    assert_eq!(
        reaper.db.row("SELECT documents_read FROM storage_reaper.protections WHERE name = 'page.body_key'")?,
        "2"
    );
    Ok(())
}

#[test]
fn a_document_that_cannot_be_read_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::with("storage_reaper.document_size_limit = '2kB'\n")?;
    reaper.images()?;
    pages(&mut reaper, &["[]"])?;
    reaper.arm()?;
    let large = format!("[\"{}\"]", "x".repeat(4000));
    for (broken, why) in [("{\"cut\": [", "not valid JSON"), (large.as_str(), "document_size_limit")] {
        reaper.add_images(&["a.png"])?;
        reaper.bucket()?.write("page/0.json", broken)?;
        reaper.db.run("DELETE FROM image")?;
        let fault = format!("SELECT fault LIKE '%page/0.json%{why}%' FROM storage_reaper.protections");
        reaper.until("the fault shows", &fault)?;
        wait::stays(Duration::from_millis(300), "the object is there", || reaper.bucket()?.exists("a.png"))?;
        let explained = "SELECT detail FROM storage_reaper.explain('a.png') WHERE state = 'in doubt'";
        ensure!(reaper.db.rows(explained)?.iter().any(|detail| detail.contains(why)), "{why}");
        reaper.bucket()?.write("page/0.json", "[]")?;
        reaper.until_drained()?;
        assert_eq!(reaper.db.number("SELECT count(*) FROM storage_reaper.protections WHERE fault IS NOT NULL")?, 0);
    }
    reaper.add_images(&["a.png"])?;
    reaper.db.run("INSERT INTO page VALUES (1, 'page/missing.json'), (2, 'https://elsewhere.example.test/x.json'); DELETE FROM image")?;
    reaper.until("the fault shows", "SELECT sources_faulty = 1 FROM storage_reaper.status")?;
    wait::stays(Duration::from_millis(300), "the object is there", || reaper.bucket()?.exists("a.png"))?;
    reaper.db.run("DELETE FROM page WHERE id = 2; SELECT storage_reaper.wake()")?;
    reaper.until(
        "the fault shows",
        "SELECT fault LIKE '%page/missing.json%not there%' FROM storage_reaper.protections",
    )?;
    reaper.db.run("DELETE FROM page; SELECT storage_reaper.wake()")?;
    reaper.until_drained()?;
    ensure!(!reaper.bucket()?.exists("a.png")?);
    Ok(())
}

#[test]
fn a_document_that_was_written_anew_counts_as_it_was() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png", "c.png"])?;
    pages(&mut reaper, &[r#"["a.png"]"#])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE url = 'a.png'")?;
    reaper.until_drained()?;
    reaper.bucket()?.write("page/0.json", r#"["b.png"]"#)?;
    // A row that came since, too.
    page(&mut reaper, 1, r#"["c.png"]"#)?;
    reaper.db.run("DELETE FROM image; SELECT storage_reaper.enqueue(ARRAY['a.png'], backend => 'media')")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|deleted", "a.png|kept", "b.png|kept", "c.png|kept"]);
    Ok(())
}

#[test]
fn a_document_that_no_row_names_any_more_protects_for_ever() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png"])?;
    pages(&mut reaper, &[r#"["a.png"]"#, r#"["b.png"]"#])?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    reaper
        .db
        .run("DELETE FROM page WHERE id = 0; SELECT storage_reaper.enqueue(ARRAY['a.png'], backend => 'media')")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|deleted", "a.png|kept"]);
    assert_eq!(reaper.db.row("SELECT documents_read FROM storage_reaper.protections")?, "1");
    // The document itself is named by its row, and then by nobody.
    reaper.db.run("SELECT storage_reaper.enqueue(ARRAY['page/0.json', 'page/1.json'], backend => 'media')")?;
    reaper.until_drained()?;
    assert_eq!(reaper.objects()?, ["page/1.json"]);
    Ok(())
}

#[test]
fn what_documents_named_is_remembered_for_another_declaration() -> Result<()> {
    let mut reaper = Reaper::new()?;
    let json = r#"{"src": "a.png", "title": "b.png"}"#;
    for round in ["first", "extension created anew"] {
        reaper.images()?;
        reaper.add_images(&["a.png", "b.png"])?;
        pages(&mut reaper, &[json])?;
        reaper.arm()?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
        assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|kept"], "{round}");
        let by_member = "SELECT storage_reaper.protect('page', 'body_key', document => 'json', member => 'src', backend => 'media')";
        for (declared, outcome) in [(PROTECT, "kept"), (by_member, "deleted"), (PROTECT, "kept")] {
            reaper.bucket()?.put("b.png")?;
            reaper.db.run(&format!("DELETE FROM storage_reaper.settlement; {declared}"))?;
            reaper.db.run("SELECT storage_reaper.enqueue(ARRAY['a.png', 'b.png'], backend => 'media')")?;
            reaper.until_drained()?;
            assert_eq!(reaper.outcomes()?, ["a.png|kept".to_owned(), format!("b.png|{outcome}")], "{round}");
        }
        reaper.db.run("SELECT storage_reaper.detach('image.url'); DROP EXTENSION storage_reaper CASCADE; DROP TABLE image, page; CREATE EXTENSION storage_reaper")?;
        let (kind, endpoint) = (reaper.store()?.program().kind(), reaper.store()?.endpoint());
        reaper.create_backend("media", kind, &endpoint)?;
    }
    Ok(())
}

#[test]
fn a_document_that_never_changes_is_read_again() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    pages(&mut reaper, &[r#"["a.png"]"#])?;
    reaper.db.run(&PROTECT.replace("document", "immutable => true, document"))?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE url = 'a.png'")?;
    reaper.until_drained()?;
    // Against its word, so that it shows.
    reaper.bucket()?.write("page/0.json", "not even JSON")?;
    reaper.cluster.crash_and_restart()?;
    reaper.db = reaper.cluster.database("shop")?;
    reaper.db.run("DELETE FROM image; SELECT storage_reaper.enqueue(ARRAY['a.png'], backend => 'media')")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "a.png|kept", "b.png|deleted"]);
    Ok(())
}

#[test]
fn an_id_of_a_row_in_a_json_column_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png", "c.png"])?;
    reaper.db.run(
        r#"CREATE TABLE doc (id int, blocks jsonb);
           CREATE INDEX ON doc USING gin (storage_reaper.fingerprints(storage_reaper.strings(blocks, 'mediaId')));
           INSERT INTO doc VALUES (1, '{"blocks": [{"mediaId": 1}, {"id": 2}, {"deep": [{"mediaId": "3"}]}]}');
           SELECT storage_reaper.protect('doc', 'blocks', member => 'mediaId', row_of => 'image.url')"#,
    )?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted", "c.png|kept"]);
    Ok(())
}

#[test]
fn a_signature_in_a_locator_of_a_document_is_stored_or_hides_it() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    reaper.bucket()?.write("page/0.json", r#"["a.png"]"#)?;
    reaper.db.run(PAGE)?;
    let url = format!("{}/{}/page/0.json", reaper.store()?.endpoint(), reaper.bucket_name());
    reaper.db.run(&format!("INSERT INTO page VALUES (1, '{url}?X-Amz-Signature=secret&X-Amz-Expires=60')"))?;
    reaper.db.run(PROTECT)?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "b.png|deleted"]);
    ensure!(!reaper.db.row("SELECT d::text FROM storage_reaper.document d")?.contains("Signature"));
    reaper.bucket()?.write("page/0.json", "not JSON")?;
    reaper.add_images(&["c.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until("the fault shows", "SELECT fault LIKE '%page/0.json%' FROM storage_reaper.protections")?;
    ensure!(reaper.db.holds("SELECT fault NOT LIKE '%Signature%' FROM storage_reaper.protections")?);
    Ok(())
}

#[test]
fn a_document_in_another_place_counts_as_the_old_one() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    pages(&mut reaper, &[r#"["a.png"]"#])?;
    reaper.db.run(&PROTECT.replace("document", "immutable => true, document"))?;
    reaper.arm()?;
    let enqueue = "SELECT storage_reaper.enqueue(ARRAY['a.png', 'b.png'], backend => 'media')";
    reaper.db.run(enqueue)?;
    reaper.until_drained()?;
    let elsewhere = unique("elsewhere");
    reaper.store()?.create_bucket(&elsewhere)?.write("page/0.json", r#"["b.png"]"#)?;
    reaper.db.run(&format!(
        "DELETE FROM storage_reaper.settlement; SELECT storage_reaper.alter_backend('media', bucket => '{elsewhere}')"
    ))?;
    reaper.db.run(enqueue)?;
    reaper.until_drained()?;
    let kept = "SELECT locator FROM storage_reaper.history WHERE outcome = 'kept'";
    assert_eq!(reaper.db.rows(kept)?, ["b.png"]);
    Ok(())
}

#[test]
fn documents_and_a_fence_wait_for_each_other() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.db.run("SELECT storage_reaper.attach('image', 'url', backend => 'media', fence => true)")?;
    reaper.add_images(&["a.png", "b.png"])?;
    pages(&mut reaper, &[r#"["a.png"]"#])?;
    reaper.arm()?;
    let mut writer = reaper.cluster.database("shop")?;
    writer.run("BEGIN; INSERT INTO image (url) VALUES ('c.png')")?;
    reaper.db.run("DELETE FROM image")?;
    // The objects are marked, or about to be, and wait for the writer; more come.
    reaper.db.run("INSERT INTO image (url) VALUES ('d.png'); DELETE FROM image")?;
    writer.run("COMMIT")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?.len(), 3);
    assert_eq!(reaper.outcomes()?[..2], ["a.png|kept", "b.png|deleted"]);
    Ok(())
}

#[test]
fn a_table_of_documents_that_cannot_be_listed_stops_deletions_in_silence() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.images()?;
    reaper.add_images(&["a.png", "b.png"])?;
    pages(&mut reaper, &["[]"])?;
    reaper.db.run("CREATE ROLE author; ALTER TABLE page OWNER TO author")?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image WHERE url = 'a.png'")?;
    reaper.until_drained()?;
    reaper.db.run("ALTER TABLE page ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; DELETE FROM image")?;
    reaper.until("the fault shows", "SELECT sources_faulty = 1 FROM storage_reaper.status")?;
    wait::stays(Duration::from_millis(300), "the object is there", || reaper.bucket()?.exists("b.png"))?;
    reaper.db.run("ALTER ROLE author BYPASSRLS; SELECT storage_reaper.wake()")?;
    reaper.until_drained()?;
    reaper.until("the fault is gone", "SELECT sources_faulty = 0 FROM storage_reaper.status")
}

#[test]
fn one_document_is_asked_for_as_often_as_rows_name_it() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.db.run(PAGE)?;
    reaper.db.run("INSERT INTO page SELECT n, CASE n % 2 WHEN 0 THEN 'same.json' ELSE 's3://bucket/same.json' END FROM generate_series(1, 500) n")?;
    reaper.db.run(PROTECT)?;
    reaper.arm()?;
    server.answer_next(Answer::of(200, "[]"));
    reaper.add_images(&["a.png"])?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    let requests: Vec<String> = server.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(requests, ["GET", "DELETE"]);
    Ok(())
}

#[test]
fn an_id_that_a_document_spells_otherwise_protects_nothing() -> Result<()> {
    let mut reaper = Reaper::new()?;
    reaper.db.run(
        r#"CREATE TABLE photo (id uuid PRIMARY KEY, key text); CREATE INDEX ON photo (storage_reaper.fingerprint(key));
           SELECT storage_reaper.attach('photo', 'key', backend => 'media');
           INSERT INTO photo VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '1.png'), ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12', '2.png'),
                                    ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13', '3.png');
           CREATE TABLE doc (meta jsonb); INSERT INTO doc VALUES ('{"photo": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"}');
           SELECT storage_reaper.protect('doc', 'meta', row_of => 'photo.key', allow_scan => true)"#,
    )?;
    reaper.bucket()?.put_all(&["1.png", "2.png", "3.png"])?;
    reaper.bucket()?.write("page/0.json", r#"["A0EEBC999C0B4EF8BB6D6BB9BD380A12"]"#)?;
    reaper.db.run(PAGE)?;
    reaper.db.run("INSERT INTO page VALUES (0, 'page/0.json')")?;
    reaper.db.run(&PROTECT.replace("document", "row_of => 'photo.key', document"))?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM photo")?;
    reaper.until_drained()?;
    assert_eq!(reaper.outcomes()?, ["1.png|kept", "2.png|kept", "3.png|deleted"]);
    Ok(())
}

#[test]
fn a_document_that_has_not_changed_is_sent_again_or_doubted() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.db.run(PAGE)?;
    reaper.db.run("INSERT INTO page VALUES (1, 'page.json')")?;
    reaper.db.run(PROTECT)?;
    reaper.arm()?;
    let first = Answer { headers: vec!["ETag: \"one\"".to_owned()], ..Answer::of(200, r#"["a.png"]"#) };
    for document in [first, Answer::of(304, "")] {
        server.answer_next(document);
        reaper.add_images(&["a.png", "b.png"])?;
        reaper.db.run("DELETE FROM image")?;
        reaper.until_drained()?;
    }
    assert_eq!(reaper.outcomes()?, ["a.png|kept", "a.png|kept", "b.png|deleted", "b.png|deleted"]);
    let asked: Vec<_> = server.requests().into_iter().filter(|request| request.method == "GET").collect();
    assert_eq!(
        asked.iter().map(|request| request.header("if-none-match")).collect::<Vec<_>>(),
        [None, Some("\"one\"")]
    );
    Ok(())
}
