//! Templates over columns, such as `vault/{user_id}/{id}.zip`.

use super::object::has_steps;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Column(String),
}

/// A parsed template; it names at least one column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

/// Why a template is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("It names no column, so every row would own the same object.")]
    NoColumn,
    #[error("It has a brace without its partner; write {{{{ or }}}} for a brace itself.")]
    Unbalanced,
    #[error("It has an empty pair of braces.")]
    EmptyName,
    #[error("It does not end with a slash, so that \"user/1\" would own what is below \"user/10\" too.")]
    NoSlash,
}

/// Within which prefix a row can own objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owns {
    /// Anywhere.
    Anything,
    /// Below what the template yields; it may name no column.
    Within(Template),
}

impl Owns {
    /// `*`, or a template that ends with a slash.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        if text == "*" {
            return Ok(Self::Anything);
        }
        let template = Template::parts_of(text)?;
        match template.parts.last() {
            Some(Part::Text(end)) if end.ends_with('/') && text != "/" => Ok(Self::Within(template)),
            _ => Err(TemplateError::NoSlash),
        }
    }

    /// The columns that it reads.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::Anything => Vec::new(),
            Self::Within(template) => template.columns(),
        }
    }
}

/// Whether a key is within what its row owns: a prefix with an empty part between slashes owns nothing.
pub fn is_within(key: &str, prefix: &str) -> bool {
    prefix.len() > 1 && prefix.ends_with('/') && !prefix.starts_with('/') && !prefix.contains("//") && key.starts_with(prefix)
        && key.len() > prefix.len()
        // Some stores take them for steps.
        && !has_steps(key)
}

impl Template {
    /// Parses; `{{` and `}}` stand for the braces themselves.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let template = Self::parts_of(text)?;
        if template.columns().is_empty() { Err(TemplateError::NoColumn) } else { Ok(template) }
    }

    fn parts_of(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            match letter {
                '{' if rest.next_if_eq(&'{').is_some() => plain.push('{'),
                '}' if rest.next_if_eq(&'}').is_some() => plain.push('}'),
                '}' => return Err(TemplateError::Unbalanced),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match rest.next() {
                            Some('}') => break,
                            Some('{') | None => return Err(TemplateError::Unbalanced),
                            Some(letter) => name.push(letter),
                        }
                    }
                    if name.is_empty() {
                        return Err(TemplateError::EmptyName);
                    }
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Column(name));
                }
                letter => plain.push(letter),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// The pieces in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The columns in order of appearance, repeated when they are.
    pub fn columns(&self) -> Vec<&str> {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Column(name) => Some(name.as_str()),
                Part::Text(_) => None,
            })
            .collect()
    }

    /// Fills in the columns' values, in the order of `columns`; a NULL makes no locator.
    pub fn render(&self, values: &[Option<&str>]) -> Option<String> {
        let mut values = values.iter();
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Column(_) => text.push_str(values.next().copied().flatten()?),
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_filled_in() {
        let template = Template::parse("vault/{user_id}/{{x}}/{id}.zip").unwrap();
        assert_eq!(template.columns(), ["user_id", "id"]);
        assert_eq!(template.render(&[Some("7"), Some("9")]).as_deref(), Some("vault/7/{x}/9.zip"));
        assert_eq!(template.render(&[Some("7"), None]), None);
    }

    #[test]
    fn a_row_owns_what_is_not_below_its_prefix() {
        for (text, is_fine) in [
            ("*", true),
            ("users/{id}/", true),
            ("users/", true),
            ("users", false),
            ("{id}", false),
            ("", false),
            ("/", false),
        ] {
            assert_eq!(Owns::parse(text).is_ok(), is_fine, "{text}");
        }
        assert!(is_within("users/1/a.png", "users/1/"));
        for (key, prefix) in [
            ("users/10/a.png", "users/1/"),
            ("users/1/", "users/1/"),
            ("users//a", "users//"),
            ("a", ""),
            ("/a", "/"),
            ("b/users/1/a", "users/1/"),
            ("users/1/../2/a", "users/1/"),
        ] {
            assert!(!is_within(key, prefix), "{key} {prefix}");
        }
    }

    #[test]
    fn a_template_without_a_column_is_refused() {
        assert_eq!(Template::parse("all.zip"), Err(TemplateError::NoColumn));
        assert_eq!(Template::parse("a/{}"), Err(TemplateError::EmptyName));
        for text in ["a/{id", "a/id}", "a/{i{d}"] {
            assert_eq!(Template::parse(text), Err(TemplateError::Unbalanced), "{text}");
        }
    }
}
