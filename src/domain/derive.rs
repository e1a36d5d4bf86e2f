//! Objects that go with another one: thumbnails, renditions, a folder of segments. Templates over its key say which.

use std::collections::BTreeMap;

use super::object::has_steps;
use super::template::{Part, Template, TemplateError};

/// What a template may name of the object's key; `over` may add names of its own.
const PIECES: [&str; 5] = ["key", "dir", "name", "stem", "ext"];
/// More at once are a mistake, and each is a request.
const MOST_VARIANTS: usize = 100;

/// Values for the further names of a template, one set for each object that goes along.
pub type Variant = BTreeMap<String, String>;

/// A declared rule: which objects go with one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Derivation {
    template: Template,
    variants: Vec<Variant>,
}

/// Why a rule is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeriveError {
    #[error("{0}")]
    Template(#[from] TemplateError),
    #[error("It names \"{0}\", which is neither one of key, dir, name, stem and ext, nor in every set of \"over\".")]
    UnknownName(String),
    #[error("It names nothing that tells objects of one folder apart, so what lies beside them would go along.")]
    TooWide,
    #[error("It is the object itself.")]
    Itself,
    #[error("\"over\" is no list of up to {MOST_VARIANTS} sets of names and values.")]
    BadOver,
    #[error("\"over\" has a value with a slash, or an empty one, under \"{0}\".")]
    BadValue(String),
}

/// Why nothing safe follows from a key: a part that the template names is empty, or the store could take a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underivable;

impl Derivation {
    /// A template and the sets of values that it is filled with; none for a template that needs none.
    pub fn new(template: &str, variants: Vec<Variant>) -> Result<Self, DeriveError> {
        let template = Template::parse(template)?;
        let names = template.columns();
        for name in names.iter().filter(|name| !PIECES.contains(name)) {
            if variants.is_empty() || !variants.iter().all(|variant| variant.contains_key(*name)) {
                return Err(DeriveError::UnknownName((*name).to_owned()));
            }
        }
        if variants.len() > MOST_VARIANTS {
            return Err(DeriveError::BadOver);
        }
        let values = variants.iter().flatten();
        if let Some((name, _)) = values.clone().find(|(_, value)| value.is_empty() || value.contains('/')) {
            return Err(DeriveError::BadValue(name.clone()));
        }
        let tells_apart = |name: &&str| ["key", "name", "stem"].contains(name);
        if !names.iter().any(tells_apart) {
            return Err(DeriveError::TooWide);
        }
        if matches!(template.parts(), [Part::Column(name)] if name == "key") {
            return Err(DeriveError::Itself);
        }
        Ok(Self { template, variants })
    }

    /// Whether everything below what it yields goes, not an object of that name.
    pub fn is_prefix(&self) -> bool {
        matches!(self.template.parts().last(), Some(Part::Text(end)) if end.ends_with('/'))
    }

    /// Whether two objects never have the same one: else it goes with the first of them.
    pub fn is_one_to_one(&self) -> bool {
        let has = |name: &str| self.template.columns().contains(&name);
        has("key") || has("dir") && (has("name") || has("stem") && has("ext"))
    }

    /// Whether what lies below the prefix of one object may be another's, whose key begins like the first one's.
    pub fn is_nesting(&self) -> bool {
        let below =
            |outer: &str, inner: &str| match (self.of(outer).into_iter().next(), self.of(inner).into_iter().next()) {
                (Some(Ok(outer)), Some(Ok(inner))) => inner.starts_with(&outer),
                _ => false,
            };
        self.is_prefix() && (below("p/q", "p/q/r") || below("p/q.e", "p/q.e/r.e"))
    }

    /// What goes with the object of that key, in the order of the sets.
    pub fn of(&self, key: &str) -> Vec<Result<String, Underivable>> {
        let pieces = Pieces::of(key);
        let none = Variant::new();
        let variants = if self.variants.is_empty() { std::slice::from_ref(&none) } else { &self.variants };
        variants.iter().map(|variant| self.render(&pieces, variant)).collect()
    }

    fn render(&self, pieces: &Pieces<'_>, variant: &Variant) -> Result<String, Underivable> {
        let mut text = String::new();
        let mut at_root = false;
        for part in self.template.parts() {
            match part {
                // What has no folder has no slash behind it.
                Part::Text(plain) if at_root => text.push_str(plain.strip_prefix('/').unwrap_or(plain)),
                Part::Text(plain) => text.push_str(plain),
                Part::Column(name) => {
                    let value =
                        pieces.get(name).or_else(|| variant.get(name).map(String::as_str)).ok_or(Underivable)?;
                    match (name.as_str(), value) {
                        // What has no extension has no dot before it.
                        ("ext", "") => text.truncate(text.strip_suffix('.').unwrap_or(&text).len()),
                        ("dir", "") => {}
                        (_, "") => return Err(Underivable),
                        (_, value) => text.push_str(value),
                    }
                }
            }
            at_root = matches!(part, Part::Column(name) if name == "dir") && !pieces.has_dir;
        }
        if is_safe(&text, self.is_prefix()) && text != pieces.key { Ok(text) } else { Err(Underivable) }
    }
}

/// A store may take segments of dots for steps, and merge slashes: then a prefix is another one.
fn is_safe(text: &str, is_prefix: bool) -> bool {
    let may_be_wider = is_prefix && (text.starts_with('/') || text.contains("//") || text.contains('\\'));
    !has_steps(text) && !may_be_wider && (is_prefix || !text.ends_with('/'))
}

/// The parts of a key: `a/b.tar.gz` has the folder `a`, the name `b.tar.gz`, the stem `b.tar` and the extension `gz`.
struct Pieces<'a> {
    key: &'a str,
    /// `/b` has one, without a name.
    has_dir: bool,
    dir: &'a str,
    name: &'a str,
    stem: &'a str,
    ext: &'a str,
}

impl<'a> Pieces<'a> {
    fn of(key: &'a str) -> Self {
        let (has_dir, (dir, name)) = (key.contains('/'), key.rsplit_once('/').unwrap_or(("", key)));
        // A dot in front, or at the end, is no beginning of an extension.
        let halves = name.rsplit_once('.').filter(|(stem, ext)| !stem.is_empty() && !ext.is_empty());
        let (stem, ext) = halves.unwrap_or((name, ""));
        Self { key, has_dir, dir, name, stem, ext }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        match name {
            "key" => Some(self.key),
            "dir" => Some(self.dir),
            "name" => Some(self.name),
            "stem" => Some(self.stem),
            "ext" => Some(self.ext),
            _ => None,
        }
    }
}

/// Reads `over`: a JSON array of objects whose values are texts, numbers or truths.
pub fn variants(over: &serde_json::Value) -> Result<Vec<Variant>, DeriveError> {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(truth) => Some(truth.to_string()),
        _ => None,
    };
    let sets = over.as_array().filter(|sets| !sets.is_empty()).ok_or(DeriveError::BadOver)?;
    let variant = |set: &serde_json::Value| {
        let pairs = set.as_object()?.iter().map(|(name, value)| Some((name.clone(), text(value)?)));
        pairs.collect::<Option<Variant>>()
    };
    sets.iter().map(|set| variant(set).ok_or(DeriveError::BadOver)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn derivation(template: &str, over: Option<serde_json::Value>) -> Result<Derivation, DeriveError> {
        Derivation::new(template, over.as_ref().map_or(Ok(Vec::new()), variants)?)
    }

    fn one(template: &str, key: &str) -> Option<String> {
        derivation(template, None).unwrap().of(key).remove(0).ok()
    }

    #[test]
    fn what_goes_along_has_another_name() {
        for (template, key, derived) in [
            ("thumbs/{key}.webp", "u/1/a.jpg", "thumbs/u/1/a.jpg.webp"),
            ("{dir}/{stem}_s.{ext}", "u/1/a.jpg", "u/1/a_s.jpg"),
            ("{dir}/{stem}_s.{ext}", "a.jpg", "a_s.jpg"),
            ("{dir}/{stem}_s.{ext}", "u/README", "u/README_s"),
            ("{dir}/t/{name}", ".hidden", "t/.hidden"),
            ("hls/{stem}/", "v/film.tar.gz", "hls/film.tar/"),
            ("{key}/", "v/film", "v/film/"),
            ("{{{key}}}", "a", "{a}"),
        ] {
            assert_eq!(one(template, key).as_deref(), Some(derived), "{template} of {key}");
        }
        let over = json!([{"w": 100, "h": 50}, {"w": "2x", "h": true}]);
        let sizes = derivation("{dir}/{stem}_{w}x{h}.{ext}", Some(over)).unwrap();
        assert_eq!(sizes.of("a/b.png"), [Ok("a/b_100x50.png".to_owned()), Ok("a/b_2xxtrue.png".to_owned())]);
    }

    #[test]
    fn a_template_takes_along_what_lies_beside_the_object() {
        let refused = |template: &str, over| derivation(template, over).unwrap_err();
        assert_eq!(refused("{dir}/", None), DeriveError::TooWide);
        assert_eq!(refused("thumbs/{ext}/", None), DeriveError::TooWide);
        assert_eq!(refused("{w}/", Some(json!([{"w": 1}]))), DeriveError::TooWide);
        assert_eq!(refused("thumbs/", None), DeriveError::Template(TemplateError::NoColumn));
        assert_eq!(refused("{key}", None), DeriveError::Itself);
        assert_eq!(refused("{key}{w}", None), DeriveError::UnknownName("w".into()));
        assert_eq!(refused("{key}{w}", Some(json!([{"w": 1}, {}]))), DeriveError::UnknownName("w".into()));
        assert_eq!(refused("{key}/{w}", Some(json!([{"w": "../x"}]))), DeriveError::BadValue("w".into()));
        for over in [json!([]), json!({}), json!([1]), json!([{"w": []}]), json!([{"w": null}])] {
            assert_eq!(refused("{key}{w}", Some(over)), DeriveError::BadOver);
        }
    }

    #[test]
    fn a_key_of_dots_makes_a_prefix_of_everything() {
        for (template, key) in [
            ("hls/{stem}/", "v/...x"),
            ("hls/{stem}/", "v/.."),
            ("hls/{name}/", "v/"),
            ("{key}/", "/"),
            ("{key}/", "/a"),
            ("{dir}/{stem}/", "a//b.mp4"),
            ("hls/{stem}/", "a\\..\\..\\b"),
            ("thumbs/{key}.webp", "a/../b"),
            ("{dir}/{stem}.{ext}", "a/b.jpg"),
        ] {
            assert_eq!(one(template, key), None, "{template} of {key}");
        }
    }

    #[test]
    fn two_objects_of_one_name_share_what_goes_along_in_silence() {
        for (template, is_one_to_one) in [
            ("thumbs/{key}.webp", true),
            ("{dir}/{stem}_s.{ext}", true),
            ("{dir}/s/{name}", true),
            ("{dir}/{stem}.webp", false),
            ("hls/{stem}/", false),
            ("thumbs/{name}", false),
        ] {
            assert_eq!(derivation(template, None).unwrap().is_one_to_one(), is_one_to_one, "{template}");
        }
    }

    #[test]
    fn the_prefix_of_one_object_holds_another_s_in_silence() {
        for (template, is_nesting) in [
            ("hls/{key}/", true),
            ("{dir}/{name}/", true),
            ("{dir}/{stem}/", true),
            ("hls/{key}.d/", false),
            ("{dir}/hls/{name}/", false),
            ("{dir}/{stem}-{ext}/", false),
            ("hls/{name}/", false),
            ("{key}.webp", false),
        ] {
            assert_eq!(derivation(template, None).unwrap().is_nesting(), is_nesting, "{template}");
        }
    }

    proptest! {
        #[test]
        fn a_prefix_leaves_its_folder(key in "[a./\\\\]{1,8}|\\PC{1,12}") {
            let derived = derivation("hls/{stem}/", None).unwrap().of(&key).remove(0);
            if let Ok(prefix) = derived {
                let inner = prefix.strip_prefix("hls/").and_then(|rest| rest.strip_suffix('/'));
                prop_assert!(inner.is_some_and(|inner| !inner.is_empty() && !inner.contains('/') && inner != "." && inner != ".."));
            }
        }

        #[test]
        fn two_objects_have_the_same_one(a in "[ab./]{1,6}", b in "[ab./]{1,6}") {
            for template in ["{key}.w", "{dir}/{stem}_s.{ext}", "{dir}/s_{name}"] {
                let rule = derivation(template, None).unwrap();
                if let (Ok(of_a), Ok(of_b)) = (&rule.of(&a)[0], &rule.of(&b)[0]) {
                    prop_assert!(a == b || of_a != of_b, "{template}: {a} and {b} both have {of_a}");
                }
            }
        }
    }
}
