//! Texts that name an object, as some reader has it, and that nothing found once.

use unicode_normalization::UnicodeNormalization;

use super::*;

/// Whether a row with the text keeps the object.
fn keeps(raw: &str, object: &Object, namespace: &Namespace, default: Option<i32>) -> bool {
    prints(object, namespace).all().any(|print| print == fingerprint(raw))
        && may_name(raw, object, namespace, default.map(BackendId))
}

fn all_keep(kinds: &[Kind], pairs: &[(&str, &str)]) {
    for &kind in kinds {
        for (key, raw) in pairs {
            let object = Object { backend: BackendId(1), bucket: "media".into(), key: (*key).into() };
            assert!(keeps(raw, &object, &namespace(kind), Some(1)), "{kind:?}: {raw:?} names {key:?}");
        }
    }
}

const EXACT: &[Kind] = &[Kind::Aws, Kind::Ceph];
const EVERY: &[Kind] = &[Kind::Aws, Kind::Ceph, Kind::Minio, Kind::Generic, Kind::SeaweedFs];
const OF_FILES: &[Kind] = &[Kind::Generic, Kind::Minio, Kind::SeaweedFs];

#[test]
fn a_key_with_steps_is_not_found_by_its_own_url() {
    all_keep(
        EVERY,
        &[
            ("../a", "https://cdn.example.com/../a"),
            ("../a", "https://cdn.example.com/%2E%2E/a"),
            ("a/../../b", "https://cdn.example.com/a/%2e%2e/../b"),
            ("x//../a", "https://cdn.example.com/x//../a"),
            ("x//../a", "https://s3.example.com/media/x//%2E%2E/a"),
            ("..", "https://cdn.example.com/.."),
            ("a", "https://cdn.example.com/x%2Fy/../a"),
            ("a", "https://cdn.example.com/x%2Fy/%2e%2e/a"),
            ("a", "https://cdn.example.com/x%5C/../a"),
            ("a", "https://cdn.example.com/x%3Fy/../a"),
        ],
    );
    all_keep(EXACT, &[("a?b/../c", "https://cdn.example.com/a%3Fb/../c"), ("a?b/../c", "a?b/../c")]);
}

#[test]
fn steps_and_escapes_around_the_bucket_hide_it() {
    all_keep(
        EVERY,
        &[
            ("k", "https://s3.example.com/./media/k"),
            ("k", "https://s3.example.com/x/../media/k"),
            ("k", "https://s3.example.com/../media/k"),
            ("k", "https://s3.example.com/m%65dia/k"),
            ("k", "https://s3.example.com/media%2Fk"),
            ("k", "https://s3.example.com//media/k"),
            ("k", "https://s3.example.com/me\tdia/k"),
        ],
    );
}

#[test]
fn what_only_a_browser_takes_for_a_url_keeps_nothing() {
    all_keep(
        EVERY,
        &[
            ("k", "https:\\\\cdn.example.com\\k"),
            ("k", "/\\cdn.example.com/k"),
            ("k", "ht\ttps://cdn.example.com/k"),
            ("k", "http:\n//cdn.example.com/k"),
            ("k", "/\t/cdn.example.com/k"),
            ("k", "\u{1}https://cdn.example.com/k"),
            ("k", "https:/cdn.example.com/k"),
            ("k", "https:cdn.example.com/k"),
            ("k", "https:///cdn.example.com/k"),
            ("k", "https://cdn.example.com:/k"),
            ("k", "https://cdn.example.com:0443/k"),
            ("k", "https://cdn%2Eexample.com/k"),
            ("k", "https://user@cdn.example.com./k"),
        ],
    );
}

#[test]
fn a_key_that_looks_like_something_else_does_not_keep_itself() {
    for key in ["data:2024/x.csv", "file:1.png", "foo://bar", "https://example.org/x.png", "//x/k", " ", "a://"] {
        all_keep(EVERY, &[(key, key)]);
    }
    all_keep(EVERY, &[("public/", "https://cdn.example.com/pub/")]);
}

#[test]
fn blanks_and_steps_hide_a_file() {
    all_keep(
        OF_FILES,
        &[
            (" ../a", "./ ../a"),
            ("+../a", "./+../a"),
            (".+", ".+/."),
            ("a", &format!("{}a", "./".repeat(600))),
            ("a/b", "//x/../a/b"),
            ("a/b", "//./a/b"),
            ("a/b", "/../a/b"),
        ],
    );
}

#[test]
fn another_owner_of_a_part_of_the_bucket_takes_its_texts() {
    for kind in EVERY {
        for (whole, part) in [(1, 2), (2, 1)] {
            let shared = Namespace::new(
                vec![
                    backend(whole, *kind, "https://s3.example.com", "media"),
                    backend(part, *kind, "https://s3.example.com", "thumbs"),
                ],
                vec![location("https://small.example.com/", part, "media", "small/")],
            );
            let object = Object { backend: BackendId(whole), bucket: "media".into(), key: "big/x".into() };
            for default in [Some(1), Some(2), None] {
                for raw in
                    ["s3://media/big/x", "https://s3.example.com/media/big/x", "https://media.s3.example.com/big/x"]
                {
                    assert!(keeps(raw, &object, &shared, default), "{kind:?} {whole} {default:?}: {raw}");
                }
            }
        }
    }
}

#[test]
fn a_file_beside_the_declared_part_is_named_by_a_url() {
    let shared = vec![location("https://thumbs.example.com/", 1, "thumbs", "small/")];
    let namespace = Namespace::new(vec![backend(1, Kind::Generic, "https://s3.example.com", "media")], shared);
    let object = Object { backend: BackendId(1), bucket: "thumbs".into(), key: "small/a".into() };
    assert!(keeps("https://s3.example.com/thumbs//small/a", &object, &namespace, None));
}

#[test]
fn a_website_of_the_bucket_keeps_nothing_or_is_deleted_from() {
    let namespace = Namespace::new(vec![backend(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "media")], vec![]);
    let object = Object { backend: BackendId(1), bucket: "media".into(), key: "k".into() };
    let raw = "http://media.s3-website-eu-west-1.amazonaws.com/k";
    assert_eq!(resolve(raw, &namespace, None), Err(Reason::NotOwned));
    assert!(keeps(raw, &object, &namespace, None));
}

#[test]
fn steps_lead_a_request_into_another_bucket() {
    for kind in OF_FILES {
        for raw in ["../docs/x", "s3://media/a/../../docs/x", "a\\..\\..\\docs\\x"] {
            let read = resolve(raw, &namespace(*kind), Some(BackendId(1)));
            assert_eq!(read, Err(Reason::UnaddressableKey), "{raw}");
        }
    }
    assert!(resolve("../docs/x", &namespace(Kind::Ceph), Some(BackendId(1))).is_ok(), "an exact store keeps it");
}

#[test]
fn a_plus_sign_in_an_amazon_url_is_guessed() {
    let namespace = Namespace::new(vec![backend(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "media")], vec![]);
    let raw = "https://media.s3.amazonaws.com/my+cat.png";
    assert_eq!(resolve(raw, &namespace, None), Err(Reason::AmbiguousUrl));
    for key in ["my cat.png", "my+cat.png"] {
        let object = Object { backend: BackendId(1), bucket: "media".into(), key: key.into() };
        assert!(prints(&object, &namespace).all().any(|print| print == fingerprint(raw)), "{key}");
        assert!(may_name(raw, &object, &namespace, None), "{key}");
    }
    assert_eq!(key_of("https://cdn.example.com/my+cat.png").as_deref(), Ok("my+cat.png"));
}

#[test]
fn a_hostile_text_is_folded_for_minutes() {
    for text in ["./ ", "a/../", "/ ", ".. /", "%2e/", "../"] {
        let hostile = text.repeat(100_000);
        fingerprint(&hostile);
        fingerprint(&format!("https://cdn.example.com/{hostile}"));
        fingerprint(&format!("//{hostile}"));
    }
}

#[test]
fn a_mark_that_joins_an_escape_hides_the_key() {
    let namespace = namespace(Kind::R2);
    let texts = [
        "http:%7e\u{301}",
        "http:%7\u{e9}",
        "https:\\%4a\u{30c}/%3e\u{338}",
        "http:\u{212a}/k",
        "//\u{212a}/%6\u{1d8}",
        "https:/x@\u{212a}:80/%4c\u{327}",
    ];
    for raw in texts {
        let Ok(object) = resolve(raw, &namespace, Some(BackendId(1))) else { continue };
        for raw in [raw.to_owned(), raw.nfc().collect(), raw.nfd().collect()] {
            assert!(keeps(&raw, &object, &namespace, Some(1)), "{raw:?} names {object}");
        }
    }
    // As a URL it could be read both ways.
    assert_eq!(resolve("https://cdn.example.com/%7e\u{301}", &namespace, None), Err(Reason::AmbiguousUrl));
    all_keep(EVERY, &[("50%d\u{e9}gressif.pdf", "https://cdn.example.com/50%d\u{e9}gressif.pdf")]);
}

#[test]
fn a_blank_that_hides_steps_hides_the_key() {
    let hosts = ["s3.eu-west-1.amazonaws.com/b/", "s3.amazonaws.com/b/", "b.s3-us-west-2.amazonaws.com/"];
    for blank in ['\u{2028}', '\u{85}', '\u{3000}', '\u{a0}'] {
        for steps in ["..", ".", "k/..", "k/.", "a/b/..", "k%2F/.."] {
            for host in hosts {
                let raw = format!("https://{host}{steps}{blank}");
                assert_eq!(resolve(&raw, &vendors(), None), Err(Reason::AmbiguousUrl), "{raw:?}");
                let object = Object { backend: BackendId(1), bucket: "b".into(), key: format!("{steps}{blank}") };
                assert!(steps.contains('%') || keeps(&raw, &object, &vendors(), None), "{raw:?} names {object}");
            }
        }
    }
}

#[test]
fn what_a_reader_cuts_off_or_adds_hides_the_key() {
    all_keep(
        EVERY,
        &[
            ("k", "s3://media/k?versionId=abc"),
            ("k", "gs://media/k#1700000000000000"),
            ("k", "gcs://media/k"),
            ("k", "arn:aws:s3:::media/k"),
            ("k", "arn:aws-cn:s3:::media/k"),
            ("k", "k?v=2"),
            ("k", "k\n"),
            ("/u/1.png", "/u/1.png?v=2"),
            ("/u/1.png", " /u/1.png\n"),
            ("/u/1.png", "\\u\\1.png"),
            ("Invoice #1.pdf", "/Invoice #1.pdf"),
            ("Invoice #1.pdf", "\u{feff}Invoice #1.pdf"),
            ("Invoice #1.pdf", "Invoice #1.pdf?v=3"),
            ("a b#1.pdf", "a b#1.pdf\n"),
            ("a?b.pdf", "/a?b.pdf"),
            ("u/1.png", "/x/../u//1.png"),
            ("u/1.png", "u\\\\1.png"),
            ("u/1.png", "./u//1.png?v=2"),
            ("u/1.png", "/ / u/1.png"),
            ("a b.png", "/a+b.png"),
            ("a b.png", "a+b.png?v=2"),
            ("k", "k/?v=2"),
            ("k", "k/\n"),
            ("caf\u{e9}.png", "cafe\u{301}.png?v=2"),
            ("cafe\u{301}.png", "/caf\u{e9}.png"),
            ("0b0e6f9c-1d3a-4c55-9d37-6a8f1f0c2b1e", " 0B0E6F9C1D3A4C559D376A8F1F0C2B1E"),
            ("k", " k"),
            ("k", "/k"),
            ("k", "\u{feff}k"),
            ("k", "\u{feff}https://cdn.example.com/k"),
            ("k", "https://cdn.example.com//k"),
            ("my cat", "https://cdn.example.com/my+cat"),
            ("a/b", "https://cdn.example.com/a//b"),
        ],
    );
    let backends = vec![
        backend(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "media"),
        backend(2, Kind::R2, "https://acct.r2.cloudflarestorage.com", "media"),
        backend(3, Kind::Minio, "http://127.0.0.1:9000", "media"),
    ];
    let three = Namespace::new(backends, Vec::new());
    for (backend, key, raw, default) in [
        (1, "e\u{301}.png", "s3://media/e\u{301}.png", 2),
        (2, "\u{e9}.png", "s3://media/e\u{301}.png", 1),
        (3, "a/b", "s3://media/a//b", 1),
    ] {
        let object = Object { backend: BackendId(backend), bucket: "media".into(), key: key.into() };
        assert!(keeps(raw, &object, &three, Some(default)), "{raw} {key}");
    }
    for (raw, key) in [
        ("b\n", "b "),
        ("/foo", "//foo"),
        ("Invoice #1.pdf", "Invoice #2.pdf"),
        ("s3://media/scan?1.dcm", "scan?2.dcm"),
        ("#a", "#b"),
    ] {
        let object = Object { backend: BackendId(1), bucket: "media".into(), key: key.into() };
        assert!(!keeps(raw, &object, &namespace(Kind::Aws), Some(1)), "{raw}");
    }
    // What is written clearly stands for itself.
    let object = Object { backend: BackendId(1), bucket: "media".into(), key: "a/b".into() };
    for raw in ["a//b", "s3://media/a//b"] {
        assert!(EXACT.iter().all(|kind| !keeps(raw, &object, &namespace(*kind), Some(1))), "{raw}");
    }
}

#[test]
fn a_store_that_cleans_keys_is_taken_for_an_exact_one() {
    let pairs = [
        ("/u/1.png", "u/1.png"),
        ("u/1.png", "/u/1.png"),
        ("/u/1.png", "https://cdn.example.com/u/1.png"),
        ("u/1.png", "https://cdn.example.com//u/1.png"),
        ("/x/../u/1.png", "u/1.png"),
        (".#", "/./.#"),
        (".#", "s3://media//./.#"),
        ("+.", "/+."),
        (". ", "s3://media/. /"),
        ("\u{feff}a.png", "/\u{feff}a.png"),
        ("\u{1}/o/x", "/\u{1}/o/x"),
    ];
    all_keep(OF_FILES, &pairs);
}

#[test]
fn a_file_whose_name_looks_like_a_url_goes_unseen() {
    for raw in [
        "http:/x/y.png",
        "/https:/x/y.png",
        "./http:/x/y.png",
        "http:/h/../x/y",
        "arn:aws:s3:::b/k",
        "/arn:aws:s3:::b/k",
    ] {
        for kind in OF_FILES {
            let named = resolve(raw, &namespace(*kind), Some(BackendId(1)));
            assert_eq!(named, Err(Reason::AmbiguousUrl), "{raw}");
        }
    }
}

#[test]
fn an_international_host_is_another_one() {
    let backends = vec![backend(1, Kind::Generic, "https://s3.example.com", "media")];
    let namespace = Namespace::new(backends, vec![location("https://xn--bcher-kva.example.com/", 1, "media", "")]);
    let object = Object { backend: BackendId(1), bucket: "media".into(), key: "k".into() };
    for host in
        ["bücher.example.com", "BÜCHER.example.com", "b%C3%BCcher.example.com", "bu\u{308}cher。example。com:443"]
    {
        assert!(keeps(&format!("https://{host}/k"), &object, &namespace, None), "{host}");
    }
}

#[test]
fn a_bucket_that_is_a_host_keeps_nothing() {
    let backends = vec![backend(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "images.example.com")];
    let namespace = Namespace::new(backends, Vec::new());
    let object = Object { backend: BackendId(1), bucket: "images.example.com".into(), key: "a b".into() };
    assert!(keeps("http://images.example.com/a%20b", &object, &namespace, None));
    assert_eq!(resolve("http://images.example.com/a%20b", &namespace, None), Err(Reason::NotOwned));
}

#[test]
fn a_url_of_googles_api_keeps_nothing() {
    let object = |key: &str| Object { backend: BackendId(4), bucket: "g".into(), key: key.into() };
    for (key, raw) in [
        ("a/o/é b", "https://firebasestorage.googleapis.com/v0/b/g/o/a%2Fo%2F%C3%A9%20b?alt=media&token=0a1b"),
        ("a/b", "https://storage.googleapis.com/download/storage/v1/b/g/o/a%2Fb?alt=media"),
        ("a/b", "https://www.googleapis.com/storage/v1/b/g/o/a%2Fb"),
        ("a/b", "https://storage.mtls.googleapis.com/g/a/b"),
    ] {
        assert_eq!(resolve(raw, &vendors(), None), Ok(object(key)), "{raw}");
        assert!(keeps(raw, &object(key), &vendors(), None), "{raw}");
    }
    // Another content of it, or something about it.
    for query in ["generation=1&alt=media", "alt=json", "fields=name"] {
        let raw = format!("https://storage.googleapis.com/storage/v1/b/g/o/k?{query}");
        assert_eq!(resolve(&raw, &vendors(), None), Err(Reason::AmbiguousUrl), "{raw}");
        assert!(keeps(&raw, &object("k"), &vendors(), None), "{raw}");
    }
    let elsewhere = "https://storage.googleapis.com/g/k?alt=media";
    assert_eq!(resolve(elsewhere, &vendors(), None), Err(Reason::AmbiguousUrl));
}

#[test]
fn a_bucket_of_google_is_looked_for_at_amazon() {
    let google = || backend(3, Kind::Gcs, "https://storage.googleapis.com", "media");
    let amazon = || backend(4, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "media");
    let key = |backend| Object { backend: BackendId(backend), bucket: "media".into(), key: "k".into() };
    let both = Namespace::new(vec![google(), amazon()], Vec::new());
    assert_eq!(resolve("gs://media/k", &both, Some(BackendId(4))), Ok(key(3)));
    assert_eq!(
        resolve("gs://media/k", &Namespace::new(vec![amazon()], Vec::new()), Some(BackendId(4))),
        Err(Reason::NotOwned)
    );
    // Whoever is asked, each keeps what it may mean.
    for default in [3, 4] {
        assert!(keeps("gs://media/k", &key(3), &both, Some(default)));
        for object in [3, 4] {
            assert!(keeps("s3://media/k", &key(object), &both, Some(default)), "{object} {default}");
        }
    }
}

proptest! {
    #[test]
    fn a_composed_text_is_folded_otherwise(
        pieces in prop::collection::vec("[a-h0-9éĵķǘ\u{212a}\u{37e}]|%|[?#/.;:@\\ +]|\u{301}|\u{338}|http:|https://", 0..12),
    ) {
        let raw: String = pieces.concat();
        let (composed, apart): (String, String) = (raw.nfc().collect(), raw.nfd().collect());
        prop_assert_eq!(fold::fold(&raw), fold::fold(&composed));
        prop_assert_eq!(fold::fold(&raw), fold::fold(&apart));
    }
}
