//! Bytes of the database as UTF-8, which is the encoding of every database that has the extension.

/// Hands `bytes` to `take` as UTF-8. What is not names no object and is left out; it never raises, since the
/// application's statement must go on.
pub fn with_utf8(bytes: &[u8], take: &mut dyn FnMut(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        take(text);
    }
}
