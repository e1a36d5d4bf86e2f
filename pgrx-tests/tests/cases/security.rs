//! Who may send the worker where, and what it tells.

use std::time::Duration;

use anyhow::{Result, ensure};
use storage_reaper_tests::fault::{Answer, FaultServer};
use storage_reaper_tests::scenario::{Bed, Reaper};
use storage_reaper_tests::wait;

#[test]
fn a_row_chooses_the_host() -> Result<()> {
    let (server, attacker) = (FaultServer::start()?, FaultServer::start()?);
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.images()?;
    reaper.db.run(
        "SELECT storage_reaper.create_location('https://cdn.example.test/', 'media');
         SELECT storage_reaper.create_backend('amazon', 'aws', 'https://s3.amazonaws.com', 'bucket', credentials => 'profile:media')",
    )?;
    let port = attacker.endpoint();
    let own = server.endpoint();
    let user = own.replace("http://", "http://user:pw@");
    let urls = [
        format!("{port}/bucket/k"),
        format!("{port}/bucket/k?X-Amz-Signature=1"),
        format!("{}@{}/bucket/k", own, port.trim_start_matches("http://")),
        format!("{user}/bucket/k"),
        "https://attacker.example.test/b/k".to_owned(),
        "https://attacker.example.test/bucket/k".to_owned(),
        "http://169.254.169.254/latest".to_owned(),
        "http://169.254.169.254/bucket/k".to_owned(),
        "https://s3.amazonaws.com.attacker.test/bucket/k".to_owned(),
        "https://bucket.s3.amazonaws.com.attacker.test/k".to_owned(),
        "https://user:pw@cdn.example.test/k".to_owned(),
        "https://cdn.example.test:8443/k".to_owned(),
        "https://cdn.example.test.attacker.test/k".to_owned(),
        "https://cdn.example.test@attacker.test/k".to_owned(),
    ];
    reaper.add_images(&urls)?;
    reaper.arm()?;
    reaper.db.run("DELETE FROM image")?;
    reaper.until_drained()?;
    assert_eq!(
        reaper.db.rows("SELECT outcome, reason, count(*) FROM storage_reaper.history GROUP BY 1, 2")?,
        [format!("kept|not_owned|{}", urls.len())],
        "{:?}",
        reaper.outcomes()?
    );
    ensure!(attacker.requests().is_empty() && server.requests().is_empty());
    Ok(())
}

#[test]
fn a_tenant_names_the_contract_of_another() -> Result<()> {
    let server = FaultServer::start()?;
    let mut reaper = Reaper::facing(&server, "")?;
    reaper.db.run(
        "CREATE TABLE profile (user_id int PRIMARY KEY, avatar text); INSERT INTO profile VALUES (1, 'avatars/1/a.png');
         SELECT storage_reaper.create_location('https://cdn.example.test/', 'media');
         SELECT storage_reaper.attach('profile', 'avatar', backend => 'media', owns => 'avatars/{user_id}/', allow_scan => true);
         CREATE TABLE contract (url text); INSERT INTO contract VALUES ('https://cdn.example.test/tenantB/kept.pdf')",
    )?;
    reaper.arm()?;
    for victim in [
        "https://cdn.example.test/tenantB/contract.pdf",
        "tenantB/contract.pdf",
        "avatars/1/../2/a.png",
        "s3://bucket/avatars/12/a.png",
    ] {
        reaper.db.client().execute("UPDATE profile SET avatar = $1", &[&victim])?;
        reaper.db.run("UPDATE profile SET avatar = NULL")?;
    }
    reaper.until_drained()?;
    let sent: Vec<_> = server.requests().into_iter().map(|request| request.target).collect();
    assert_eq!(sent, ["/bucket/avatars/1/a.png"]);
    // Without a rule, the victim's own table keeps it, if it is declared.
    reaper.db.run(
        "SELECT storage_reaper.attach('profile', 'avatar', backend => 'media', allow_scan => true);
         SELECT storage_reaper.protect('contract', 'url', allow_scan => true);
         UPDATE profile SET avatar = 'tenantB/kept.pdf'; UPDATE profile SET avatar = NULL",
    )?;
    reaper.until_drained()?;
    assert_eq!(server.requests().len(), 1);
    Ok(())
}

#[test]
fn an_ordinary_role_changes_where_secrets_are_read() -> Result<()> {
    let mut bed = Bed::new()?;
    let role = bed.role("GRANT pg_monitor TO {role}")?;
    let names =
        bed.db.rows("SELECT name FROM pg_settings WHERE name LIKE 'storage\\_reaper.%' AND context <> 'user'")?;
    ensure!(names.len() > 15, "{names:?}");
    assert_eq!(
        bed.db.rows("SELECT name FROM pg_settings WHERE name LIKE 'storage\\_reaper.%' AND context = 'user'")?,
        ["storage_reaper.fence_timeout"]
    );
    let mut app = bed.connect_as(&role)?;
    for name in names.iter().map(String::as_str).chain(["storage_reaper.endpoint"]) {
        for change in [
            format!("SET {name} = '/etc/passwd'"),
            format!("SET LOCAL {name} = '1'"),
            format!("ALTER ROLE CURRENT_USER SET {name} = '1'"),
            format!("ALTER SYSTEM SET {name} = '1'"),
        ] {
            let code = app.refusal(&change)?.code;
            ensure!(["42501", "55P02", "42704", "42602", "22023"].contains(&code.as_str()), "{change}: {code}");
        }
    }
    assert_eq!(
        app.refusal("SELECT storage_reaper.create_backend('b', 'generic', 'https://x.example.test', 'bucket')")?.code,
        "42501"
    );
    Ok(())
}

#[test]
fn an_error_tells_a_signed_address() -> Result<()> {
    let (silent, rude) = (FaultServer::start()?, FaultServer::start()?);
    let mut reaper = Reaper::facing(
        &rude,
        "log_min_messages = debug1\nstorage_reaper.request_timeout = '500ms'\nstorage_reaper.connect_timeout = '500ms'\n",
    )?;
    silent.hold();
    rude.answer_always(Some(Answer::of(
        403,
        format!(
            "<Error><Code>SignatureDoesNotMatch</Code><Message>first line\nsecond line {}</Message><StringToSign>AWS4-HMAC-SHA256 X-Amz-Signature</StringToSign></Error>",
            "long ".repeat(100_000)
        ),
    )));
    let tls = silent.endpoint().replace("http://", "https://");
    for (name, endpoint) in [
        ("silent", silent.endpoint().as_str()),
        ("refused", "http://127.0.0.1:1"),
        ("nowhere", "https://nowhere.invalid"),
        ("tls", tls.as_str()),
    ] {
        reaper.db.run(&format!(
            "SELECT storage_reaper.create_backend('{name}', 'generic', '{endpoint}', 'bucket', credentials => 'profile:media')"
        ))?;
    }
    reaper.arm()?;
    reaper.db.run("SELECT storage_reaper.enqueue(ARRAY['a.png'], name) FROM storage_reaper.backends")?;
    reaper
        .until("all backends are held", "SELECT count(*) = 5 FROM storage_reaper.backends WHERE held_reason <> ''")?;
    let mut seen = reaper.cluster.log()?;
    for view in ["backends", "queue", "history", "parked", "status"] {
        seen += &reaper.db.rows(&format!("SELECT x::text FROM storage_reaper.{view} x"))?.join("\n");
    }
    for mark in [
        "X-Amz-",
        "Signature=",
        "AWS4-HMAC",
        "Credential=",
        "SECRETthatMustNotLeak",
        "second line long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long long",
    ] {
        let line = seen.lines().find(|line| line.contains(mark));
        ensure!(line.is_none(), "found {mark} in {line:?}");
    }
    let longest =
        "SELECT max(length(held_reason)) < 500 AND NOT bool_or(held_reason LIKE E'%\\n%') FROM storage_reaper.backends";
    ensure!(
        reaper.db.holds(longest)?,
        "{:?}",
        reaper.db.rows("SELECT left(held_reason, 600) FROM storage_reaper.backends")?
    );
    wait::stays(Duration::from_millis(200), "nothing is settled", || {
        reaper.db.holds("SELECT count(*) = 0 FROM storage_reaper.history")
    })
}
