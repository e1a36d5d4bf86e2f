//! What no request may be, whatever a scenario is about.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};

use super::Request;

/// What is wrong with a request, if anything.
pub(super) fn violation(request: &Request, address: &str) -> Option<String> {
    let path = request.target.split('?').next().unwrap_or_default();
    let names_a_key = path.trim_start_matches('/').split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let header = |name| request.header(name).unwrap_or_default();
    let is_refused =
        |line: &String| ["x-amz-checksum", "x-amz-sdk"].iter().any(|name| line.to_ascii_lowercase().starts_with(name));
    let rules = [
        (request.method == "DELETE" && !names_a_key, "deletes a bucket"),
        (header("host") != address, "is for another host"),
        (!header("authorization").starts_with("AWS4-HMAC-SHA256 "), "is not signed in its head"),
        (request.target.to_ascii_lowercase().contains("x-amz-signature"), "is signed in its address"),
        (request.head.iter().any(is_refused), "has a checksum that some stores refuse"),
    ];
    let broken = rules.into_iter().find(|(is_broken, _)| *is_broken).map(|(_, what)| what);
    broken.or_else(|| batch(request)).map(|what| format!("a request {what}: {request:?}"))
}

fn batch(request: &Request) -> Option<&'static str> {
    if request.method != "POST" {
        return None;
    }
    let keys = request.keys();
    let digest = STANDARD.encode(Md5::digest(request.body.as_bytes()));
    let is_xml = |letter: char| matches!(letter, '\t' | '\n' | '\r' | '\u{20}'..='\u{FFFD}' | '\u{10000}'..);
    let rules = [
        (request.header("content-md5") != Some(digest.as_str()), "has another digest than its body"),
        (!request.body.contains("<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"), "has no namespace"),
        (request.body.contains("<Quiet>true"), "is quiet"),
        (!(1..=1000).contains(&keys.len()), "names no key, or more than 1000"),
        (keys.iter().any(|key| key.trim_matches('/').is_empty()), "names an empty key"),
        (!request.body.chars().all(is_xml), "holds what XML cannot"),
    ];
    rules.into_iter().find(|(is_broken, _)| *is_broken).map(|(_, what)| what)
}
