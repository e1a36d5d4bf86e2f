use proptest::prelude::*;

mod spellings;

use super::*;
use crate::domain::backend::Kind;
use crate::domain::credentials::CredentialName;
use crate::domain::endpoint::Endpoint;
use crate::domain::fold::fingerprint;

fn backend(id: i32, kind: Kind, endpoint: &str, bucket: &str) -> Backend {
    Backend {
        id: BackendId(id),
        name: format!("b{id}"),
        kind,
        endpoint: Endpoint::parse(endpoint).unwrap(),
        region: "us-east-1".into(),
        bucket: bucket.into(),
        addressing: Addressing::Path,
        credentials: CredentialName::Environment,
        verify: crate::domain::verify::Verify::None,
        versions: crate::domain::versions::Versions::Current,
        batch_size: None,
        rate_limit: None,
        takes_batches: None,
        keeps_versions: None,
    }
}

fn location(base: &str, id: i32, bucket: &str, key_prefix: &str) -> Location {
    Location {
        base: UrlBase::parse(base).unwrap(),
        backend: BackendId(id),
        bucket: bucket.into(),
        key_prefix: key_prefix.into(),
    }
}

fn namespace(kind: Kind) -> Namespace {
    Namespace::new(
        vec![
            backend(1, kind, "https://s3.example.com", "media"),
            backend(2, Kind::Aws, "https://h.example.test:9000/storage/v1", "docs"),
        ],
        vec![
            location("https://cdn.example.com/", 1, "media", ""),
            location("https://cdn.example.com/pub/", 1, "media", "public/"),
            location("http://files.example.test/s3/media", 1, "media", ""),
        ],
    )
}

fn key_of(raw: &str) -> Result<String, Reason> {
    resolve(raw, &namespace(Kind::Generic), Some(BackendId(1))).map(|object| object.key)
}

#[test]
fn each_form_names_its_key() {
    for (raw, key) in [
        ("a/b.png", "a/b.png"),
        ("/foo", "/foo"),
        ("r/100%25.png", "r/100%25.png"),
        ("scan?1.dcm", "scan?1.dcm"),
        ("a:b", "a:b"),
        ("s3://media/r/100%25.png", "r/100%25.png"),
        ("https://cdn.example.com/r/100%25.png", "r/100%.png"),
        ("https://cdn.example.com/r/%D0%94.pdf", "r/Д.pdf"),
        ("https://cdn.example.com/a%252Fb", "a%2Fb"),
        ("HTTP://CDN.example.com:80/A.png", "A.png"),
        ("https://cdn.example.com/pub/x", "public/x"),
        ("https://files.example.test/s3/media/u/1.png", "u/1.png"),
        ("https://s3.example.com/media//foo", "/foo"),
        ("https://media.s3.example.com/k", "k"),
        ("https://cdn.example.com/k?X-Amz-Signature=aaa&X-Amz-Expires=60&v=3", "k"),
        ("https://cdn.example.com/a/...", "a/..."),
    ] {
        assert_eq!(key_of(raw).as_deref(), Ok(key), "{raw}");
    }
}

#[test]
fn an_empty_key_never_becomes_a_request() {
    for raw in [
        "",
        "   ",
        "s3://media",
        "s3://media/",
        "s3://media//",
        "/",
        "https://cdn.example.com//",
        "https://cdn.example.com/%2F",
        "https://cdn.example.com",
        "https://cdn.example.com/",
        "https://s3.example.com/media",
        "https://s3.example.com/media/",
        "https://media.s3.example.com/?v=1",
    ] {
        assert_eq!(key_of(raw), Err(Reason::EmptyKey), "{raw}");
    }
}

#[test]
fn what_could_mean_another_object_is_not_guessed() {
    for raw in [
        "https://cdn.example.com/a\tb.png",
        "https://cdn.example.com/x\\y.png",
        "https://cdn.example.com/d/../keep.png",
        "https://cdn.example.com/d/%2E%2E/keep.png",
        "https://cdn.example.com/./k",
        "https://cdn.example.com/what?.png",
        "https://cdn.example.com/k?versionId=3",
        "https://cdn.example.com/scan#1.dcm",
        " https://cdn.example.com/a.png",
        "https://cdn.example.com/a.png ",
        "//cdn.example.com/a.png",
        "https://cdn.example.com/p%75b/x",
        "https://cdn.example.com/pub%2Fx",
    ] {
        assert_eq!(key_of(raw), Err(Reason::AmbiguousUrl), "{raw:?}");
    }
    for raw in ["https://cdn.example.com/100%.png", "https://cdn.example.com/%ff%fe"] {
        assert_eq!(key_of(raw), Err(Reason::BadEscape), "{raw}");
    }
}

#[test]
fn an_undeclared_place_is_not_ours() {
    for raw in [
        "https://evil.example.org/media/live.png",
        "https://cdn.example.com.evil.org/k",
        "https://user@cdn.example.com/k",
        "https://h.example.test:9000:443/storage/v1/docs/k",
        "https://s3.example.com/other/k",
        "https://s3.example.com/mediax/k",
        "s3://other/k",
        "data:image/png;base64,AAAA",
        "blob:https://x",
        "file:///etc/passwd",
        "ftp://cdn.example.com/k",
    ] {
        assert_eq!(key_of(raw), Err(Reason::NotOwned), "{raw}");
    }
}

#[test]
fn a_key_without_a_backend_waits_for_a_person() {
    assert_eq!(resolve("k", &namespace(Kind::Generic), None), Err(Reason::NoBackend));
}

#[test]
fn key_length_counts_bytes() {
    assert!(key_of(&"😀".repeat(256)).is_ok());
    assert_eq!(key_of(&"😀".repeat(257)), Err(Reason::KeyTooLong));
}

#[test]
fn two_spellings_are_one_object_only_where_the_store_composes() {
    let (composed, decomposed) = ("caf\u{e9}.png", "cafe\u{301}.png");
    let on = |kind, raw| resolve(raw, &namespace(kind), Some(BackendId(1))).unwrap();
    assert_eq!(on(Kind::R2, composed), on(Kind::R2, decomposed));
    assert_ne!(on(Kind::Aws, composed), on(Kind::Aws, decomposed));
    assert!(may_name(decomposed, &on(Kind::R2, composed), &namespace(Kind::R2), Some(BackendId(1))));
    assert!(!may_name(decomposed, &on(Kind::Aws, composed), &namespace(Kind::Aws), Some(BackendId(1))));
}

/// A backend of each vendor, each with a bucket of its own.
fn vendors() -> Namespace {
    Namespace::new(
        vec![
            backend(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "b"),
            backend(2, Kind::R2, "https://acct.r2.cloudflarestorage.com", "r"),
            backend(3, Kind::B2, "https://s3.us-west-004.backblazeb2.com", "bb"),
            backend(4, Kind::Gcs, "https://storage.googleapis.com", "g"),
            backend(5, Kind::Spaces, "https://nyc3.digitaloceanspaces.com", "sp"),
        ],
        vec![location("https://p.supabase.co/storage/v1/object/public/avatars", 1, "b", "")],
    )
}

#[test]
fn every_host_of_a_store_names_the_same_object() {
    for (raw, backend) in [
        ("https://b.s3-us-west-2.amazonaws.com/k", 1),
        ("https://s3.amazonaws.com/b/k", 1),
        ("https://b.s3.dualstack.eu-west-1.amazonaws.com/k?v=2", 1),
        ("https://p.supabase.co/storage/v1/object/public/avatars/k", 1),
        ("https://f001.backblazeb2.com/file/bb/k", 3),
        ("https://bb.s3.us-west-004.backblazeb2.com/k", 3),
        ("https://g.storage.googleapis.com/k", 4),
        ("https://storage.cloud.google.com/g/k", 4),
        ("gs://g/k", 4),
        ("https://www.googleapis.com/storage/v1/b/g/o/k", 4),
        ("https://firebasestorage.googleapis.com/v0/b/g/o/k?alt=media&token=0a1b", 4),
        ("https://sp.nyc3.cdn.digitaloceanspaces.com/k", 5),
    ] {
        let object = resolve(raw, &vendors(), None).unwrap_or_else(|reason| panic!("{raw}: {reason}"));
        assert_eq!((object.backend, object.key.as_str()), (BackendId(backend), "k"), "{raw}");
        assert!(prints(&object, &vendors()).all().any(|print| print == fingerprint(raw)), "{raw}");
    }
    for raw in [
        "https://b.s3-website-us-east-1.amazonaws.com/k",
        "https://ap-1.s3-accesspoint.us-east-1.amazonaws.com/k",
        "https://b.s3.cn-north-1.amazonaws.com.cn/k",
        "https://other.r2.cloudflarestorage.com/r/k",
        "https://sp.ams3.digitaloceanspaces.com/k",
        "https://s3.amazonaws.com.attacker.test/b/k",
    ] {
        assert_eq!(resolve(raw, &vendors(), None), Err(Reason::NotOwned), "{raw}");
    }
    // Where the bucket of that jurisdiction is declared, it is no other one; else a person has to look.
    let raw = "https://acct.eu.r2.cloudflarestorage.com/r/k";
    assert_eq!(resolve(raw, &vendors(), None), Err(Reason::AmbiguousUrl));
    let european = |id| backend(id, Kind::R2, "https://acct.eu.r2.cloudflarestorage.com", "r");
    let both =
        Namespace::new(vec![backend(2, Kind::R2, "https://acct.r2.cloudflarestorage.com", "r"), european(6)], vec![]);
    assert_eq!(resolve(raw, &both, Some(BackendId(2))).map(|object| object.backend), Ok(BackendId(6)));
}

#[test]
fn two_backends_on_one_bucket_are_one_store() {
    let both = Namespace::new(
        vec![
            backend(1, Kind::Generic, "https://s3.example.com", "media"),
            backend(2, Kind::Generic, "https://s3.example.com", "media"),
        ],
        vec![location("https://cdn.example.com/", 1, "media", "")],
    );
    let through_two = resolve("k", &both, Some(BackendId(2))).unwrap();
    assert!(may_name("https://cdn.example.com/k", &through_two, &both, None));
    assert!(prints(&through_two, &both).placed.contains(&fingerprint("https://cdn.example.com/k")));
    assert!(keys_may_mean(&through_two, &both, Some(BackendId(1))));
}

/// Texts that are likely to name objects, in strange spellings.
fn locators() -> impl Strategy<Value = String> {
    let base = prop_oneof![
        Just(""),
        Just("s3://media/"),
        Just("https://cdn.example.com/"),
        Just("HTTPS://CDN.example.com:443/pub/"),
        Just("http://files.example.test/s3/media/"),
        Just("https://s3.example.com/media/"),
        Just("https://media.s3.example.com/"),
    ];
    let rest = prop_oneof![
        "\\PC{1,30}",
        any::<String>(),
        "[a-c./%?# \\\\]{1,12}",
        "(%[0-9a-fA-F]{2}|[a-z/]|cafe\u{301}|\u{e9}){1,8}(\\?v=[0-9])?",
    ];
    (base, rest).prop_map(|(base, rest)| format!("{base}{rest}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_row_that_names_the_object_is_not_found(raw in locators()) {
        for kind in [Kind::Generic, Kind::R2] {
            let namespace = namespace(kind);
            if let Ok(object) = resolve(&raw, &namespace, Some(BackendId(1))) {
                let prints = prints(&object, &namespace);
                prop_assert!(prints.all().any(|print| print == fingerprint(&raw)), "{raw:?} names {object}");
                prop_assert!(may_name(&raw, &object, &namespace, Some(BackendId(1))));
            }
        }
    }

    #[test]
    fn a_row_that_may_name_the_object_lets_it_go(key in "[a-zé ]{1,6}(/[a-z.]{1,6}){0,2}", mutation in 0_usize..9) {
        let namespace = namespace(Kind::Generic);
        let Ok(object) = resolve(&format!("s3://media/{key}"), &namespace, None) else { return Ok(()) };
        let encoded = key.replace(' ', "%20");
        let raw = match mutation {
            0 => format!("https://cdn.example.com/{encoded}?width=80"),
            1 => format!("https://cdn.example.com/{encoded}#top"),
            2 => format!("//cdn.example.com/{encoded}"),
            3 => format!("https://user@cdn.example.com/{encoded}"),
            4 => format!("https://cdn.example.com./{encoded}"),
            5 => format!(" https://cdn.example.com/{encoded}\n"),
            6 => format!("https://cdn.example.com/./x/../{encoded}"),
            7 => format!("https:\\\\cdn.example.com\\{encoded}").replacen(":\\\\", "://", 1),
            _ => format!("https://cdn.exa\tmple.com/{encoded}").replace('\t', ""),
        };
        let prints = prints(&object, &namespace);
        prop_assert!(prints.all().any(|print| print == fingerprint(&raw)), "{raw:?} may name {object}");
        prop_assert!(may_name(&raw, &object, &namespace, Some(BackendId(1))), "{raw:?} may name {object}");
    }

    #[test]
    fn a_row_that_names_the_same_file_is_not_found(
        segments in prop::collection::vec("[a-bé?#% ]{1,3}", 1..4),
        dead in prop::collection::vec(0_usize..7, 4),
        living in prop::collection::vec(0_usize..7, 4),
        base in prop::sample::select(vec!["", "s3://media/", "https://cdn.example.com/", "https://s3.example.com/media/"]),
    ) {
        let spelled = |how: &[usize]| -> String {
            let gap = |how: usize| ["/", "//", "/./", "/b/../", "/b?/../", "\\", "/b//../"][how];
            let mut key = ["", "/", "./", "//b/../", "//", "\\", "//./"][how[3]].to_owned();
            for (segment, how) in segments.iter().zip(how) {
                key.push_str(segment);
                key.push_str(gap(*how));
            }
            if how[3].is_multiple_of(2) { key.trim_end_matches(['/', '\\', '.']).to_owned() } else { key }
        };
        let (dead, living) = (spelled(&dead), spelled(&living));
        if fold::path(&dead) != fold::path(&living) || fold::path(&dead).is_empty() {
            return Ok(());
        }
        let namespace = namespace(Kind::Generic);
        let object = Object { backend: BackendId(1), bucket: "media".into(), key: dead };
        let raw = match base {
            "" | "s3://media/" => format!("{base}{living}"),
            base => format!("{base}{}", percent_encoding::utf8_percent_encode(&living, percent_encoding::NON_ALPHANUMERIC)),
        };
        // A URL is read as the standard has it, which knows empty segments.
        if base.starts_with("https") && fold::plain(&living).contains("//..") {
            return Ok(());
        }
        // What stands under another base is another object, and a blank text is none.
        let read = resolve(&raw, &namespace, Some(BackendId(1)));
        if matches!(read, Err(Reason::NotOwned | Reason::EmptyKey)) {
            return Ok(());
        }
        prop_assert!(prints(&object, &namespace).all().any(|print| print == fingerprint(&raw)), "{raw:?} may name {object}");
        prop_assert!(may_name(&raw, &object, &namespace, Some(BackendId(1))), "{raw:?} may name {object}");
    }

    #[test]
    fn an_object_comes_back_as_another(key in any::<String>()) {
        let namespace = namespace(Kind::Generic);
        let raw = format!("s3://media/{key}");
        if let Ok(object) = resolve(&raw, &namespace, None) {
            prop_assert_eq!(&object.key, &key);
            let encoded = percent_encoding::utf8_percent_encode(&key, percent_encoding::NON_ALPHANUMERIC);
            if let Ok(again) = resolve(&format!("https://cdn.example.com/{encoded}"), &namespace, None) {
                // The longest base wins: below pub/ the same path stands for another key.
                prop_assert!(again == object || key.starts_with("pub/"), "{again}");
            }
        }
    }

    #[test]
    fn no_input_leaves_the_declared_buckets(raw in locators()) {
        if let Ok(object) = resolve(&raw, &namespace(Kind::Generic), Some(BackendId(1))) {
            prop_assert!(!object.key.is_empty() && object.key.len() <= LONGEST_KEY);
            prop_assert!(object.bucket == "media" || object.bucket == "docs");
        }
    }
}

#[test]
fn a_bucket_of_a_location_has_one_name_only() {
    let namespace = Namespace::new(
        vec![backend(1, Kind::Aws, "https://s3.eu-west-1.amazonaws.com", "media")],
        vec![location("https://thumbs.example.com/", 1, "thumbs", "pub/")],
    );
    let read = |raw: &str| resolve(raw, &namespace, None);
    let named = read("https://thumbs.example.com/a.png").unwrap();
    for raw in [
        "s3://thumbs/pub/a.png",
        "https://thumbs.s3.amazonaws.com/pub/a.png",
        "https://s3.eu-west-1.amazonaws.com/thumbs/pub/a.png",
    ] {
        assert_eq!(read(raw).as_ref(), Ok(&named), "{raw}");
        assert!(may_name(raw, &named, &namespace, None), "{raw}");
        assert!(prints(&named, &namespace).all().any(|print| print == fingerprint(raw)), "{raw}");
    }
    assert_eq!(read("s3://thumbs/private/a.png"), Err(Reason::NotOwned), "only a part of it is declared");
}

#[test]
fn a_key_beside_the_declared_part_goes_or_its_row_keeps_nothing() {
    let shared = vec![location("https://thumbs.example.com/", 1, "thumbs", "small/")];
    let namespace = Namespace::new(vec![backend(1, Kind::Generic, "https://s3.example.com", "media")], shared);
    let object = Object { backend: BackendId(1), bucket: "thumbs".into(), key: "small/a".into() };
    for raw in ["s3://thumbs//small/a", "s3://thumbs/./small/a", "S3://thumbs/x/../small/a"] {
        assert_eq!(resolve(raw, &namespace, None), Err(Reason::NotOwned), "{raw}");
        assert!(may_name(raw, &object, &namespace, None), "{raw}");
    }
    assert_eq!(resolve("s3://thumbs/small/../b", &namespace, None), Err(Reason::NotOwned), "it leads out");
}

#[test]
fn a_signature_is_kept_in_the_queue() {
    for (raw, kept) in [
        ("https://cdn.example.com/k?X-Amz-Signature=aaa&X-Amz-Expires=60", "https://cdn.example.com/k"),
        ("HTTPS://cdn.example.com/k?x-goog-signature=a&page=2#top", "HTTPS://cdn.example.com/k?page=2#top"),
        ("https://cdn.example.com/k?page=2", "https://cdn.example.com/k?page=2"),
        ("scan?X-Amz-Signature=1", "scan?X-Amz-Signature=1"),
        ("https://cdn.example.com/k", "https://cdn.example.com/k"),
    ] {
        assert_eq!(without_signature(raw), kept, "{raw}");
        assert_eq!(key_of(raw).ok(), key_of(kept).ok(), "{raw}");
    }
}
