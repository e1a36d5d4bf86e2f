//! Splitting URLs by hand, where the usual parsers would change them.

use super::endpoint::Scheme;

/// Splits `http://rest` and `https://rest`; the scheme may be written in any case.
pub(super) fn split_http(text: &str) -> Option<(Scheme, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    [Scheme::Http, Scheme::Https]
        .into_iter()
        .find(|known| scheme.eq_ignore_ascii_case(known.as_str()))
        .map(|known| (known, rest))
}
