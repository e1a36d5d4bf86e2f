//! Statements that touch many rows, or rows with much in them.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn an_update_of_many_locators_crashes_the_server() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a/1"])?;
    bed.db.run("INSERT INTO image SELECT n, 'a/' || n FROM generate_series(2, 20000) n")?;
    // Once with both transition tables in memory, once with them on disk.
    for (memory, from, to) in [("64MB", 'a', 'b'), ("64kB", 'b', 'c')] {
        bed.db.run(&format!("SET work_mem = '{memory}'; UPDATE image SET url = '{to}/' || id"))?;
        let captured =
            format!("SELECT count(DISTINCT locator) FROM storage_reaper.queue WHERE locator LIKE '{from}/%'");
        assert_eq!(bed.db.number(&captured)?, 20_000);
    }
    Ok(())
}

#[test]
fn an_update_of_a_document_compares_everything_with_everything() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE TABLE doc (id int PRIMARY KEY, views int, meta jsonb);
           INSERT INTO doc SELECT n, 0, jsonb_build_object('r', jsonb_build_array(n || 'a', n || 'b', n || 'c'))
           FROM generate_series(1, 60000) n"#,
    )?;
    bed.attach("'doc', 'meta', path => '$.r[*]'")?;
    // Comparing each with each would take hours.
    bed.db.run("SET statement_timeout = '60s'; UPDATE doc SET views = views + 1")?;
    assert_eq!(bed.captured()?, Vec::<String>::new());
    bed.db.run(r#"UPDATE doc SET meta = '{"r": ["1a", "x"]}' WHERE id = 1"#)?;
    assert_eq!(bed.captured()?, ["1b", "1c"]);
    Ok(())
}

#[test]
fn large_values_fill_a_segment_that_nobody_can_read() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE TABLE doc (id int PRIMARY KEY, meta jsonb);
           INSERT INTO doc SELECT n, jsonb_build_object('k', n || '.png', 'inline', 'data:' || repeat('A', 200000))
           FROM generate_series(1, 300) n"#,
    )?;
    bed.attach("'doc', 'meta', path => '$.*'")?;
    bed.db.run("DELETE FROM doc")?;
    assert_eq!(bed.db.number("SELECT count(*) FROM storage_reaper.queue")?, 300);
    Ok(())
}

#[test]
fn a_row_that_json_cannot_hold_can_be_neither_deleted_nor_updated() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE TABLE ev (id int PRIMARY KEY, url text, storage_reaper_old text, payload json);
           INSERT INTO ev VALUES (0, 'a', NULL, '{"x": "\u0000", "y": 1e1000000}'), (2, 'b', 'c', NULL)"#,
    )?;
    bed.attach("'ev', expression => 'ev.url || (2 / ev.id)'")?;
    bed.db.run("DELETE FROM ev")?;
    let rows = bed.db.rows("SELECT locator LIKE '{%\"url\":\"_\"%', last_error FROM storage_reaper.queue")?;
    assert_eq!(rows, ["t|division by zero", "t|division by zero"]);
    Ok(())
}

#[test]
fn a_document_that_is_legal_breaks_its_index() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run(
        r#"CREATE TABLE doc (id int, meta jsonb);
           CREATE INDEX ON doc USING gin (storage_reaper.fingerprints(storage_reaper.strings(meta)));
           CREATE INDEX ON doc USING gin (storage_reaper.fingerprints(storage_reaper.strings(meta, 'k')));
           INSERT INTO doc VALUES (1, '{"n": 1e400}'),
                                  (2, (repeat('[', 2000) || '"deep"' || repeat(']', 2000))::jsonb), (3, '"alone"'), (4, 'null')"#,
    )?;
    let strings = "SELECT id, cardinality(storage_reaper.strings(meta)), right(storage_reaper.strings(meta)::text, 7) FROM doc ORDER BY id";
    assert_eq!(bed.db.rows(strings)?, ["1|2|000000}", "2|1|{deep}", "3|1|{alone}", "4|0|{}"]);
    let under = r#"SELECT storage_reaper.strings('{"k": "a", "x": {"k": ["b", {"y": 7}], "z": "no"}, "l": ["no"], "m": {"k": true}}', 'k')"#;
    assert_eq!(bed.db.row(under)?, "{a,true,b,y,7}");
    Ok(())
}
