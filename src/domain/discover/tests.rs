use super::*;
use crate::domain::backend::{Addressing, Backend, Kind};
use crate::domain::credentials::CredentialName;
use crate::domain::endpoint::Endpoint;
use crate::domain::location::{Location, UrlBase};
use crate::domain::resolve::Namespace;

const MEDIA: BackendId = BackendId(1);
const DOCS: BackendId = BackendId(2);

fn namespace() -> Namespace {
    let backend = |id, bucket: &str| Backend {
        id,
        name: bucket.into(),
        kind: Kind::Generic,
        endpoint: Endpoint::parse("https://s3.example.test").unwrap(),
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
    };
    let cdn = Location {
        base: UrlBase::parse("https://cdn.example.test/").unwrap(),
        backend: MEDIA,
        bucket: "media".into(),
        key_prefix: String::new(),
    };
    Namespace::new(vec![backend(MEDIA, "media"), backend(DOCS, "docs")], vec![cdn])
}

/// What a column of these values is judged to be; the attached rows hold keys in `image/`.
fn judge(is_telling: bool, values: &[&[&str]]) -> Option<Finding> {
    let namespace = namespace();
    let mut known = Known::new(&namespace, None);
    known.learn("image/1.jpg", Some(MEDIA));
    known.learn("https://cdn.example.test/image/2.jpg", None);
    let mut tally = Tally::new(&known);
    values.iter().for_each(|texts| tally.add(texts.iter().copied()));
    tally.finding(is_telling)
}

#[test]
fn urls_are_found_however_they_are_written() {
    for url in [
        "https://cdn.example.test/a.png",
        "https://cdn.example.test/a.png?width=200",
        "https://cdn.example.test/a.png?X-Amz-Signature=abc",
        "//cdn.example.test/a.png",
        " https://CDN.example.test/a.png ",
        "http://s3.example.test/media/a.png",
        "s3://docs/a.png",
    ] {
        let found = judge(false, &[&["no"], &[url]]).unwrap_or_else(|| panic!("{url}"));
        assert_eq!((found.way, found.hits, found.sampled), (Way::Whole, 1, 2), "{url}");
        assert_eq!(found.key_backend, None);
        assert!(!found.example.contains('?'), "{}", found.example);
    }
    for other in
        ["https://elsewhere.example.test/a.png", "https://cdn.example.test/", "cdn.example.test", "a//b.png", ""]
    {
        assert_eq!(judge(true, &[&[other]]), None, "{other}");
    }
}

#[test]
fn urls_inside_of_texts_are_found() {
    let text = "Media: see <img src=\"https://cdn.example.test/5.png?w=2\"> é";
    let found = judge(false, &[&[text]]).unwrap();
    assert_eq!((found.way, found.example.as_str()), (Way::Embedded, "https://cdn.example.test/5.png"));
    for text in [
        r#"{"a": "https:\/\/cdn.example.test\/5.png"}"#,
        "&quot;https:&#47;&#47;cdn.example.test&#47;5.png&quot;",
        "(//CDN.example.test:443/5.png)",
        "see s3://docs/5.png.",
        "https://elsewhere.test/?next=https://s3.example.test/media/5.png",
    ] {
        assert_eq!(judge(false, &[&[text]]).map(|found| found.hits), Some(1), "{text}");
    }
    let long = format!("{}{text}{}", "é media ".repeat(30), "é".repeat(5000));
    assert_eq!(judge(false, &[&[&long]]).unwrap().way, Way::Embedded);
    assert_eq!(judge(false, &[&[text], &["s3://media/a.png"]]).unwrap().way, Way::Both);
    assert_eq!(judge(false, &[&["https://elsewhere.example.test/media.png is the media"]]), None);
}

#[test]
fn keys_need_an_attached_row_or_a_name() {
    let exact = judge(false, &[&["image/1.jpg", "x"], &["image/9.jpg"]]).unwrap();
    assert_eq!((exact.hits, exact.sampled, exact.key_backend), (1, 2, Some(MEDIA)));
    assert_eq!(judge(false, &[&["image/2.jpg"]]).unwrap().backends, [MEDIA], "known by its URL");
    assert_eq!(judge(false, &[&["image/8.jpg"], &["image/9.jpg"]]), None);
    assert_eq!(judge(true, &[&["image/8.jpg"], &["image/9.jpg"]]).unwrap().hits, 2);
    assert_eq!(judge(true, &[&["image/8.jpg"], &["a"], &["b"]]), None, "most values are something else");
    assert_eq!(judge(true, &[&["image/8.png"], &["film/8.jpg"], &["word"]]), None, "another shape");
    assert_eq!(judge(true, &[]), None);
}

#[test]
fn a_table_is_asked_about_unknown_keys_only() {
    let namespace = namespace();
    let mut known = Known::new(&namespace, None);
    known.learn("image/1.jpg", Some(MEDIA));
    let mut tally = Tally::new(&known);
    tally.add(["image/1.jpg", "image/7.jpg", "image/7.jpg", "word"].into_iter());
    let asked = tally.asked();
    assert!(asked.values().all(|places| places == &[1] || places == &[1, 1]), "{asked:?}");
    let places = asked[&fingerprint("https://cdn.example.test/image/7.jpg")].clone();
    tally.answer(&places, DOCS);
    assert!(tally.asked().is_empty());
    let found = tally.finding(false).unwrap();
    assert_eq!((found.hits, found.key_backend), (1, Some(MEDIA)));
}

#[test]
fn only_the_wanted_backend_counts() {
    let namespace = namespace();
    let known = Known::new(&namespace, Some(DOCS));
    let mut tally = Tally::new(&known);
    tally.add(["https://cdn.example.test/a.png"].into_iter());
    tally.add(["s3://docs/a.png"].into_iter());
    let found = tally.finding(false).unwrap();
    assert_eq!((found.hits, found.backends), (1, vec![DOCS]));
}
