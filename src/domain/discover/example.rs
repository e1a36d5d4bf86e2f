//! A value as it may be shown to people.

/// Letters that are shown.
const SHOWN: usize = 80;

/// The locator without what may be a secret, and not too long: a query holds signatures, and what stands in front of a
/// host a password.
pub fn shown(locator: &str) -> String {
    let text = locator.trim();
    let query = text.find(['?', '#']).into_iter().chain(text.to_ascii_lowercase().find("%3f")).min();
    let text = &text[..query.unwrap_or(text.len())];
    let (scheme, rest) = text.find("//").map_or(("", text), |slashes| text.split_at(slashes + "//".len()));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = if scheme.is_empty() { authority } else { authority.rsplit('@').next().unwrap_or(authority) };
    let letters = [scheme, host, path].into_iter().flat_map(str::chars);
    let shown: Vec<char> = letters.map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if shown.len() <= SHOWN {
        return shown.into_iter().collect();
    }
    shown[..SHOWN - 1].iter().chain(['…'].iter()).collect()
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn no_secret_is_shown() {
        for (locator, expected) in [
            ("https://cdn.example.test/a.png?X-Amz-Signature=abc", "https://cdn.example.test/a.png"),
            ("https://cdn.example.test/a.png#abc", "https://cdn.example.test/a.png"),
            ("https://proxy.test/https://s3.test/a%3FX-Amz-Signature=abc", "https://proxy.test/https://s3.test/a"),
            ("https://user:word@cdn.example.test/a@2x.png", "https://cdn.example.test/a@2x.png"),
            ("//user:word@cdn.example.test/a.png", "//cdn.example.test/a.png"),
            ("a@2x.png", "a@2x.png"),
            ("a\nb", "a b"),
        ] {
            assert_eq!(shown(locator), expected);
        }
        let long = shown(&"é".repeat(200));
        assert_eq!(long.chars().count(), 80);
        assert!(long.ends_with('…'));
    }
}
