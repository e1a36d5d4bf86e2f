//! Who deletes needs no right but DELETE, and gets none.

use anyhow::Result;
use storage_reaper_tests::scenario::Bed;

#[test]
fn a_role_with_only_delete_cannot_delete_any_more() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    let role = bed.role("GRANT DELETE, SELECT (id) ON image TO {role}")?;
    bed.connect_as(&role)?.run("DELETE FROM image WHERE id = 1")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn a_role_with_only_delete_cannot_use_computed_locators() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE vault (id int PRIMARY KEY, user_id int, gone boolean); INSERT INTO vault VALUES (1, 7, true), (2, 8, false)")?;
    bed.attach("'vault', template => 'vault/{user_id}/{id}.zip', filter => 'gone'")?;
    let role = bed.role("GRANT DELETE, SELECT (id) ON vault TO {role}; GRANT TRUNCATE ON vault TO {role}")?;
    let mut app = bed.connect_as(&role)?;
    app.run("DELETE FROM vault WHERE id = 1")?;
    app.run("TRUNCATE vault")?;
    assert_eq!(bed.captured()?, ["vault/7/1.zip"]);
    Ok(())
}

#[test]
fn the_deleters_search_path_redirects_capture() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE vault (id int PRIMARY KEY, name text); INSERT INTO vault VALUES (1, 'x'), (2, 'y')")?;
    bed.attach("'vault', expression => 'lower(name)'")?;
    bed.db.run(
        "CREATE SCHEMA evil;
         CREATE FUNCTION evil.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'someone-elses-object' $$;
         SET search_path = evil, pg_catalog, public; DELETE FROM vault WHERE id = 1;
         SET search_path = ''; DELETE FROM public.vault WHERE id = 2; RESET search_path",
    )?;
    assert_eq!(bed.captured()?, ["x", "y"]);
    Ok(())
}

/// Operators in front of pg_catalog's, each of which notes whose rights it got.
const HOSTILE: &str = r#"
    CREATE SCHEMA IF NOT EXISTS evil AUTHORIZATION {role}; SET ROLE {role};
    CREATE TABLE evil.loot (who text);
    DO $do$
    DECLARE kind text; operator text;
    BEGIN
        FOREACH kind IN ARRAY ARRAY['oid', 'integer', 'text', 'name', 'boolean', 'bigint', 'smallint', 'timestamptz'] LOOP
            FOREACH operator IN ARRAY ARRAY['=', '<=', '>', '<', '>=', '<>'] LOOP
                EXECUTE format($f$
                    CREATE FUNCTION evil.%3$I(a %1$s, b %1$s) RETURNS boolean LANGUAGE plpgsql AS $b$
                        BEGIN INSERT INTO evil.loot VALUES (current_user); RETURN a OPERATOR(pg_catalog.%2$s) b; END $b$;
                    CREATE OPERATOR evil.%2$s (leftarg = %1$s, rightarg = %1$s, function = evil.%3$I) $f$,
                    kind, operator, 'f' || md5(kind || operator));
            END LOOP;
        END LOOP;
    END $do$;
    RESET ROLE"#;

#[test]
fn a_strangers_operator_runs_as_superuser() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png", "c.png"])?;
    bed.db.run("CREATE TABLE made (id int PRIMARY KEY, url text); INSERT INTO made VALUES (1, 'd.png')")?;
    bed.attach("'made', expression => 'lower(url)'")?;
    let role = bed.role("GRANT DELETE, TRUNCATE, SELECT ON image, made TO {role}")?;
    bed.db.run(&HOSTILE.replace("{role}", &role))?;
    let mut stranger = bed.connect_as(&role)?;
    stranger.run(
        "SET search_path = evil, pg_catalog, public;
         DELETE FROM public.image WHERE id OPERATOR(pg_catalog.=) 1; DELETE FROM public.made; TRUNCATE public.image;
         CREATE TABLE evil.t (); DROP TABLE evil.t;
         CREATE TABLE evil.p (id int) PARTITION BY LIST (id); CREATE TABLE evil.p1 PARTITION OF evil.p DEFAULT;
         ALTER TABLE evil.p RENAME COLUMN id TO number; DROP TABLE evil.p",
    )?;
    assert_eq!(bed.captured()?, ["a.png", "b.png", "c.png", "d.png"]);
    let others = format!("SELECT DISTINCT who FROM evil.loot WHERE who <> '{role}'");
    assert_eq!(bed.db.rows(&others)?, Vec::<String>::new());
    Ok(())
}

#[test]
fn an_owners_expression_attaches_somebody_elses_table() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE victim (id int PRIMARY KEY, url text); INSERT INTO victim VALUES (1, 'v.png')")?;
    let role = bed.role(
        "GRANT CREATE ON SCHEMA public TO {role}; GRANT EXECUTE ON FUNCTION storage_reaper.attach, storage_reaper.detach TO {role}",
    )?;
    let mut owner = bed.connect_as(&role)?;
    owner.run(
        "CREATE FUNCTION public.reach(text) RETURNS text LANGUAGE sql AS $$ SELECT $1 $$;
         CREATE TABLE own (id int PRIMARY KEY, url text); INSERT INTO own VALUES (1, 'o.png');
         SELECT storage_reaper.attach('own', expression => 'public.reach(url)', allow_scan => true, name => 'own');
         CREATE OR REPLACE FUNCTION public.reach(text) RETURNS text LANGUAGE plpgsql AS $$
             BEGIN PERFORM storage_reaper.attach('public.victim', 'url', allow_scan => true); RETURN $1; END $$",
    )?;
    // A superuser's session runs the owner's code in a truncation.
    let refusal = bed.db.refusal("TRUNCATE own")?;
    assert_eq!(refusal.code, "42501", "{refusal}");
    assert_eq!(bed.db.rows("SELECT name FROM storage_reaper.sources")?, ["own"]);
    Ok(())
}

#[test]
fn row_security_hides_deleted_rows_from_capture() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    let role = bed.role(
        "GRANT DELETE, SELECT ON image TO {role}; ALTER TABLE image ENABLE ROW LEVEL SECURITY;
         CREATE POLICY mine ON image TO {role} USING (id = 1)",
    )?;
    bed.connect_as(&role)?.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["a.png"]);
    Ok(())
}

#[test]
fn replicated_deletes_are_captured_a_second_time() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.images(&["a.png", "b.png"])?;
    bed.db.run(
        "SET session_replication_role = replica; DELETE FROM image WHERE id = 1; RESET session_replication_role",
    )?;
    assert!(bed.captured()?.is_empty());
    bed.db.run("DELETE FROM image")?;
    assert_eq!(bed.captured()?, ["b.png"]);
    Ok(())
}

#[test]
fn the_truncaters_search_path_runs_his_code_as_the_owner() -> Result<()> {
    let mut bed = Bed::new()?;
    bed.db.run("CREATE TABLE vault (id int PRIMARY KEY, name text); INSERT INTO vault VALUES (1, 'X')")?;
    bed.attach("'vault', expression => 'lower(name)'")?;
    let role = bed.role("GRANT TRUNCATE ON vault TO {role}; CREATE SCHEMA {role} AUTHORIZATION {role}")?;
    let mut app = bed.connect_as(&role)?;
    app.run(&format!(
        "CREATE FUNCTION {role}.lower(text) RETURNS text LANGUAGE sql AS $$ SELECT 'ran as ' || current_user $$;
         SET search_path = {role}, pg_catalog, public; TRUNCATE vault"
    ))?;
    assert_eq!(bed.captured()?, ["x"]);
    Ok(())
}
