//! A document that was asked for: what the answer says that it names.

use reqwest::header::HeaderMap;

use crate::domain::document::{Reading, prints};

use super::fault::{Fault, fault};
use super::xml::{self, StoreError, Xml};

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// The version that was read before.
    Unchanged,
    Read {
        etag: Option<String>,
        prints: Vec<i64>,
    },
    /// Nobody knows what it names; why.
    Unreadable(String),
}

/// Reads the answer. `was_read` if the question was for another version than one that was read.
pub fn read(
    status: u16,
    headers: &HeaderMap,
    body: &[u8],
    etag: Option<String>,
    was_read: bool,
    reading: &Reading,
) -> Result<Document, Fault> {
    match (status, xml::parse(body)) {
        (200, _) => Ok(match prints(body, reading) {
            Ok(prints) => Document::Read { etag, prints },
            Err(error) => Document::Unreadable(error.to_string()),
        }),
        (304, _) if was_read => Ok(Document::Unchanged),
        (404, Ok(Xml::Error(error))) if error.code == "NoSuchKey" => {
            Ok(Document::Unreadable("it is not there".to_owned()))
        }
        (status, Ok(Xml::Error(error))) => Err(fault(status, &error, headers, false)),
        (status, _) => Err(fault(status, &StoreError::default(), headers, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::document::Format;

    #[test]
    fn an_answer_that_is_no_document_names_nothing() {
        let reading = Reading { format: Format::Json, member: None, immutable: false };
        let read = |status, body: &[u8]| read(status, &HeaderMap::new(), body, None, false, &reading);
        assert!(matches!(read(200, b"[\"a\"]"), Ok(Document::Read { prints, .. }) if prints.len() == 1));
        for (status, body) in [(200, "<html>"), (200, ""), (404, "<Error><Code>NoSuchKey</Code></Error>")] {
            assert!(matches!(read(status, body.as_bytes()), Ok(Document::Unreadable(_))), "{status} {body}");
        }
        for (status, body) in [
            (304, ""),
            (204, ""),
            (206, "[]"),
            (403, ""),
            (404, ""),
            (404, "<Error><Code>NoSuchBucket</Code></Error>"),
            (503, "[]"),
        ] {
            assert!(read(status, body.as_bytes()).is_err(), "{status} {body}");
        }
    }
}
