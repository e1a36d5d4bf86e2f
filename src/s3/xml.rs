//! XML documents of stores, read by local names: stores differ in namespaces and prefixes.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// A complete, well-formed document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Xml {
    /// The answer to DeleteObjects.
    DeleteResult { deleted: Vec<Deleted>, errors: Vec<KeyError> },
    /// A request that failed as a whole.
    Error(StoreError),
    /// A page of objects, versions or uploads.
    Listing(Listing),
    /// Whether a bucket keeps versions: a status, which says that it does or did, or none.
    Versioning { status: Option<String> },
    /// Well-formed, but something else.
    Other,
}

/// What a store says of a request that failed as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreError {
    pub code: String,
    pub message: String,
    /// Where the bucket is, if the store says so.
    pub region: Option<String>,
    pub endpoint: Option<String>,
}

/// A key that DeleteObjects deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    pub key: String,
    /// A marker hides it now, and its bytes are still there.
    pub is_marked: bool,
}

/// A page of a listing, as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub lines: Vec<Line>,
    pub is_truncated: bool,
    /// Where the next page begins: a key, or what stands for it.
    pub next_key: Option<String>,
    /// A version or an upload.
    pub next_id: Option<String>,
    /// Keys are written as in URLs: XML cannot carry all of them.
    pub is_encoded: bool,
}

/// An object, a version, a marker or an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub key: String,
    pub id: String,
    pub written: String,
    pub is_latest: bool,
}

/// A key that DeleteObjects did not delete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyError {
    pub key: String,
    pub code: String,
    pub message: String,
}

/// The document was cut, damaged, or holds what no store sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotWellFormed;

/// One element with its text and the leaves beneath it.
#[derive(Default)]
struct Element {
    name: String,
    text: String,
    leaves: Vec<(String, String)>,
}

/// Parses a body. Only a document whose root is closed and that has nothing behind it counts.
pub fn parse(body: &[u8]) -> Result<Xml, NotWellFormed> {
    let text = std::str::from_utf8(body).map_err(|_| NotWellFormed)?.trim_start();
    let mut reader = Reader::from_str(text);
    let mut stack: Vec<Element> = Vec::new();
    let mut document = None;
    let (mut deleted, mut errors, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match reader.read_event().map_err(|_| NotWellFormed)? {
            Event::Start(start) => {
                if document.is_some() || stack.len() > 8 {
                    return Err(NotWellFormed);
                }
                stack.push(Element { name: start.local_name().as_ref().to_owned(), ..Element::default() });
            }
            Event::Empty(empty) => {
                let name = empty.local_name().as_ref().to_owned();
                match stack.last_mut() {
                    Some(parent) => parent.leaves.push((name, String::new())),
                    None if document.is_none() => document = Some(root(&Element { name, ..Element::default() })),
                    None => return Err(NotWellFormed),
                }
            }
            Event::End(_) => {
                let element = stack.pop().ok_or(NotWellFormed)?;
                match stack.len() {
                    0 => document = Some(root(&element)),
                    1 if stack[0].name == "DeleteResult" && element.name == "Deleted" => {
                        let is_marked = leaf(&element, "DeleteMarker").is_some_and(|marked| marked.trim() == "true");
                        deleted.extend(leaf(&element, "Key").map(|key| Deleted { key, is_marked }));
                    }
                    1 if stack[0].name == "DeleteResult" && element.name == "Error" => errors.push(key_error(&element)),
                    1 if ["Contents", "Version", "DeleteMarker", "Upload"].contains(&element.name.as_str()) => {
                        lines.push(line(&element).ok_or(NotWellFormed)?);
                    }
                    _ => {
                        if let Some(parent) = stack.last_mut() {
                            parent.leaves.push((element.name, element.text));
                        }
                    }
                }
            }
            Event::Text(content) => push(&mut stack, &content)?,
            Event::CData(content) => push(&mut stack, &content)?,
            Event::GeneralRef(reference) => {
                let letter = match reference.resolve_char_ref().map_err(|_| NotWellFormed)? {
                    Some(letter) => letter.to_string(),
                    None => resolve_predefined_entity(&reference).ok_or(NotWellFormed)?.to_owned(),
                };
                push(&mut stack, &letter)?;
            }
            // A document type could define entities; no store sends one.
            Event::DocType(_) => return Err(NotWellFormed),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof => break,
        }
    }
    match document {
        Some(Xml::DeleteResult { .. }) => Ok(Xml::DeleteResult { deleted, errors }),
        Some(Xml::Listing(listing)) => Ok(Xml::Listing(Listing { lines, ..listing })),
        Some(other) => Ok(other),
        None => Err(NotWellFormed),
    }
}

/// Text outside the root may only be blank.
fn push(stack: &mut [Element], text: &str) -> Result<(), NotWellFormed> {
    match stack.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(NotWellFormed),
    }
    Ok(())
}

fn root(element: &Element) -> Xml {
    match element.name.as_str() {
        "DeleteResult" => Xml::DeleteResult { deleted: Vec::new(), errors: Vec::new() },
        "Error" => Xml::Error(StoreError {
            code: leaf(element, "Code").unwrap_or_default(),
            message: leaf(element, "Message").unwrap_or_default(),
            region: leaf(element, "Region"),
            endpoint: leaf(element, "Endpoint"),
        }),
        "ListBucketResult" | "ListVersionsResult" | "ListMultipartUploadsResult" => Xml::Listing(Listing {
            lines: Vec::new(),
            is_truncated: leaf(element, "IsTruncated").is_some_and(|text| text.trim() == "true"),
            next_key: leaf(element, "NextKeyMarker").or_else(|| leaf(element, "NextContinuationToken")),
            next_id: leaf(element, "NextVersionIdMarker").or_else(|| leaf(element, "NextUploadIdMarker")),
            is_encoded: leaf(element, "EncodingType").is_some_and(|text| text.trim() == "url"),
        }),
        // Clients read no name here, and so servers differ.
        "VersioningConfiguration" | "GetBucketVersioningResponse" => {
            Xml::Versioning { status: leaf(element, "Status") }
        }
        _ => Xml::Other,
    }
}

fn key_error(element: &Element) -> KeyError {
    KeyError {
        key: leaf(element, "Key").unwrap_or_default(),
        code: leaf(element, "Code").unwrap_or_default(),
        message: leaf(element, "Message").unwrap_or_default(),
    }
}

/// One without a key or, unless it is an object, without an id is nothing that could be deleted by itself.
fn line(element: &Element) -> Option<Line> {
    let id = leaf(element, "VersionId").or_else(|| leaf(element, "UploadId"));
    Some(Line {
        key: leaf(element, "Key")?,
        id: if element.name == "Contents" { id.unwrap_or_default() } else { id? },
        written: leaf(element, "LastModified").or_else(|| leaf(element, "Initiated")).unwrap_or_default(),
        is_latest: leaf(element, "IsLatest").is_some_and(|latest| latest.trim() == "true"),
    })
}

fn leaf(element: &Element, name: &str) -> Option<String> {
    element.leaves.iter().find(|(leaf, _)| leaf == name).map(|(_, text)| text.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_count_and_namespaces_do_not() {
        for open in [
            "<DeleteResult>",
            "<DeleteResult xmlns=\"http://doc.s3.amazonaws.com/2006-03-01\">",
            "\n <?xml version=\"1.0\"?><DeleteResult>",
        ] {
            let body =
                format!("{open}<Deleted><Key>a&amp;b&#x41;</Key><VersionId>1</VersionId></Deleted></DeleteResult>");
            let expected =
                Xml::DeleteResult { deleted: vec![Deleted { key: "a&bA".into(), is_marked: false }], errors: vec![] };
            assert_eq!(parse(body.as_bytes()), Ok(expected), "{open}");
        }
        let prefixed = b"<x:DeleteResult xmlns:x=\"u\"><x:Error><x:Key>k</x:Key><x:Code>AccessDenied</x:Code></x:Error></x:DeleteResult>";
        let error = KeyError { key: "k".into(), code: "AccessDenied".into(), message: String::new() };
        assert_eq!(parse(prefixed), Ok(Xml::DeleteResult { deleted: vec![], errors: vec![error] }));
    }

    #[test]
    fn a_listing_of_another_dialect_is_empty() {
        for (open, close) in [
            ("<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'>", "</ListBucketResult>"),
            ("<s:ListBucketResult xmlns:s='u'>", "</s:ListBucketResult>"),
        ] {
            let prefix = if open.starts_with("<s:") { "s:" } else { "" };
            let line = format!("<{prefix}Contents><{prefix}Key>k</{prefix}Key></{prefix}Contents>");
            let Ok(Xml::Listing(listing)) = parse(format!("{open}{line}{close}").as_bytes()) else { panic!("{open}") };
            assert_eq!(listing.lines.iter().map(|line| line.key.as_str()).collect::<Vec<_>>(), ["k"], "{open}");
        }
    }

    #[test]
    fn a_cut_document_settles_nothing() {
        let whole = b"<?xml version=\"1.0\"?><DeleteResult><Deleted><Key>a</Key></Deleted></DeleteResult>";
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Err(NotWellFormed), "{length}");
        }
    }

    #[test]
    fn what_no_store_sends_is_refused() {
        for body in [
            "<!DOCTYPE a [<!ENTITY x \"y\">]><DeleteResult>&x;</DeleteResult>",
            "<DeleteResult/><DeleteResult/>",
            "text",
            "<a></b>",
            "<DeleteResult>&nope;</DeleteResult>",
        ] {
            assert_eq!(parse(body.as_bytes()), Err(NotWellFormed), "{body}");
        }
        assert_eq!(parse(b"<html><body>hi</body></html>"), Ok(Xml::Other));
    }
}
