//! Independent readings: of a text, as its kind of reader would take it; of a finished request, as a server would.

use reqwest::Url;

use super::super::request::Unsigned;
use super::ground::{Ground, Store};
use crate::domain::backend::BackendId;
use crate::domain::object::Object;

const OPEN: &str =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
const CLOSE: &str = "<Quiet>false</Quiet></Delete>";

/// Query names that say nothing about the object.
const HARMLESS: [&str; 8] =
    ["awsaccesskeyid", "signature", "expires", "googleaccessid", "token", "v", "x-amz-", "x-goog-"];

/// The objects that the text may be taken for; several only where stores share a bucket.
pub fn of_text(text: &str, ground: &Ground, default: Option<BackendId>) -> Result<Vec<Object>, String> {
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    match scheme.to_ascii_lowercase().as_str() {
        "s3" | "gs" => {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            Ok(named(ground.stores.iter().filter(|store| store.reach(bucket).is_some()), bucket, key))
        }
        "http" | "https" => of_url(text, ground),
        _ => {
            let store = ground.store(default.ok_or("a plain key without a backend")?);
            Ok(named([store].into_iter(), &store.backend.bucket, text))
        }
    }
}

/// As a browser reads it.
fn of_url(text: &str, ground: &Ground) -> Result<Vec<Object>, String> {
    let url = Url::parse(text).map_err(|error| format!("{text:?} is no URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(format!("{text:?} has a user or a fragment"));
    }
    let is_harmless = |name: &str| {
        HARMLESS.iter().any(|known| name == *known || known.ends_with('-') && name.starts_with(known))
            || name.starts_with("response-")
    };
    for name in url.query().into_iter().flat_map(|query| query.split('&')) {
        let name = name.split('=').next().unwrap_or_default().to_ascii_lowercase();
        if !is_harmless(&name) {
            return Err(format!("{text:?} has the query {name:?}"));
        }
    }
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = decoded(url.path())?;
    let place = format!("{host}{port}{path}");
    let longest = ground.bases.iter().filter(|base| place.starts_with(base.url)).map(|base| base.url.len()).max();
    if let Some(length) = longest {
        let bases = ground.bases.iter().filter(|base| base.url.len() == length && place.starts_with(base.url));
        return Ok(bases
            .flat_map(|base| {
                let key = format!("{}{}", base.key_prefix, &place[length..]);
                named([ground.store(base.backend)].into_iter(), base.bucket, &key)
            })
            .collect());
    }
    let places = ground.stores.iter().flat_map(|store| store.reaches.iter().map(move |reach| (store, reach.bucket)));
    Ok(places.filter_map(|(store, bucket)| at_vendor(store, bucket, host, &path)).collect())
}

/// On another host of the vendor, the bucket is the host's beginning or the path's.
fn at_vendor(store: &Store, bucket: &str, host: &str, path: &str) -> Option<Object> {
    let is_vendors = store.hosts.iter().any(|end| format!(".{host}").ends_with(end));
    if !is_vendors || host.contains("s3-website") || host.contains("s3-accesspoint") {
        return None;
    }
    let in_host = host.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.'));
    let key = match in_host {
        true => path.strip_prefix('/')?,
        false => path.strip_prefix("/file").unwrap_or(path).strip_prefix(&format!("/{bucket}/"))?,
    };
    named([store].into_iter(), bucket, key).pop()
}

/// Only a declared part of a bucket counts.
fn named<'a>(stores: impl Iterator<Item = &'a Store>, bucket: &str, key: &str) -> Vec<Object> {
    let object = |store: &Store| {
        let key = store.canonical(key);
        let is_declared = key.starts_with(store.reach(bucket)?.key_prefix);
        is_declared.then(|| Object { backend: store.backend.id, bucket: bucket.to_owned(), key })
    };
    stores.filter_map(object).collect()
}

/// The keys that a server reads in a request, which must lie under `reach`.
pub fn of_request(request: &Unsigned, reach: &str) -> Result<Vec<String>, String> {
    let url = request.url.as_str();
    let rest = url.strip_prefix(reach).ok_or_else(|| format!("it does not begin with {reach}"))?;
    if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("its address holds what no request line can".to_owned());
    }
    if request.method == "POST" && rest == "?delete=" {
        return keys_of(&request.body);
    }
    if request.method != "DELETE" || !request.body.is_empty() || rest.contains(['?', '#']) {
        return Err("it is neither DELETE of a key nor DeleteObjects".to_owned());
    }
    let key = decoded(rest)?;
    if key.is_empty() || has_dot_segment(&key) || has_dot_segment(&rest.to_ascii_lowercase().replace("%2e", ".")) {
        return Err("somebody on the way may take it for another place".to_owned());
    }
    Ok(vec![key])
}

/// Reads exactly the one shape of document that is sent.
fn keys_of(body: &str) -> Result<Vec<String>, String> {
    let mut rest = body.strip_prefix(OPEN).ok_or("the document begins otherwise")?;
    let mut keys = Vec::new();
    while let Some(after) = rest.strip_prefix("<Object><Key>") {
        let (text, after) = after.split_once("</Key></Object>").ok_or("a key is not closed")?;
        keys.push(content(text)?);
        rest = after;
    }
    if rest != CLOSE || keys.is_empty() || keys.len() > 1000 || keys.iter().any(String::is_empty) {
        return Err("the document ends otherwise, or names no key".to_owned());
    }
    Ok(keys)
}

/// Character data as XML 1.0 defines it.
fn content(text: &str) -> Result<String, String> {
    if text.contains('<') || text.contains("]]>") || !text.chars().all(is_xml) {
        return Err("not well-formed".to_owned());
    }
    let mut pieces = text.split('&');
    // A parser turns each kind of line end into a line feed.
    let plain = |piece: &str| piece.replace("\r\n", "\n").replace('\r', "\n");
    let mut read = plain(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, after) = piece.split_once(';').ok_or("an entity is not closed")?;
        read.push(match name {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            _ => name.strip_prefix('#').and_then(reference).ok_or("an unknown entity")?,
        });
        read.push_str(&plain(after));
    }
    Ok(read)
}

fn reference(digits: &str) -> Option<char> {
    let number = match digits.strip_prefix('x') {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    char::from_u32(number).filter(|letter| is_xml(*letter))
}

fn is_xml(letter: char) -> bool {
    !matches!(letter, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether neither a path nor, where there are batches, a document can carry the key.
pub fn is_unaddressable(key: &str, has_batches: bool) -> bool {
    let in_document = has_batches && key.chars().all(|letter| is_xml(letter) && letter != '\r');
    has_dot_segment(key) && !in_document
}

fn has_dot_segment(path: &str) -> bool {
    path.split('/').any(|segment| segment == "." || segment == "..")
}

/// Each escape once; a broken one is an error.
fn decoded(text: &str) -> Result<String, String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or("a broken escape")?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| "a broken escape")?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).map_err(|_| format!("{text:?} is not UTF-8"))
}
