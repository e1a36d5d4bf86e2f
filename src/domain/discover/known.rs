//! What is known of our objects: where they can be, and what some of them are called.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use html_escape::decode_html_entities;

use super::shape::Shape;
use crate::domain::backend::BackendId;
use crate::domain::embedded::urls;
use crate::domain::object::Object;
use crate::domain::resolve::{Namespace, keys_may_mean, prints, resolve};
use crate::domain::vendor;

/// How much of a text is read as a URL: longer ones are not worth the time that all readings of a long line take.
const LONGEST_URL: usize = 1024;
/// URLs of a text that lead to a host of ours, and turn out to name no object.
const MOST_URLS: usize = 64;
/// What ends the host of a URL inside of a text.
const BEHIND_HOST: &[char] = &['/', '?', '#', '\\', '"', '<'];

/// The namespace, and locators that attached rows and the outbox hold.
pub struct Known<'a> {
    namespace: &'a Namespace,
    /// The backends that are asked about.
    backends: Vec<BackendId>,
    hosts: HashSet<&'a str>,
    shapes: HashMap<Shape, BackendId>,
    /// Fingerprints of all that may name a known object.
    prints: HashMap<i64, BackendId>,
}

impl<'a> Known<'a> {
    /// `wanted` leaves only the objects of one backend.
    pub fn new(namespace: &'a Namespace, wanted: Option<BackendId>) -> Self {
        let ids = namespace.backends().iter().map(|backend| backend.id);
        Self {
            namespace,
            backends: ids.filter(|id| wanted.is_none_or(|wanted| wanted == *id)).collect(),
            hosts: namespace.hosts().collect(),
            shapes: HashMap::new(),
            prints: HashMap::new(),
        }
    }

    /// Takes in a locator of a row or of the outbox; `backend` is where plain keys of that source go.
    pub fn learn(&mut self, locator: &str, backend: Option<BackendId>) {
        let Some(object) = self.wanted(resolve(locator, self.namespace, backend).ok()) else { return };
        if let Some(shape) = Shape::of(&object.key) {
            self.shapes.insert(shape, object.backend);
            self.prints.extend(prints(&object, self.namespace).all().map(|print| (print, object.backend)));
        }
    }

    /// Whose object a locator of an attached row names.
    pub fn owner(&self, locator: &str, backend: Option<BackendId>) -> Option<BackendId> {
        self.wanted(resolve(locator, self.namespace, backend).ok()).map(|object| object.backend)
    }

    /// Objects of another backend may be in the bucket of a wanted one.
    fn wanted(&self, object: Option<Object>) -> Option<Object> {
        object.filter(|object| {
            self.backends.iter().any(|id| *id == object.backend || keys_may_mean(object, self.namespace, Some(*id)))
        })
    }

    pub fn has_shape(&self, shape: &Shape) -> bool {
        self.shapes.contains_key(shape)
    }

    pub fn backend_of_shape(&self, shape: &Shape) -> Option<BackendId> {
        self.shapes.get(shape).copied()
    }

    /// Whose object something of that fingerprint names, if it is a known one.
    pub fn named(&self, print: i64) -> Option<BackendId> {
        self.prints.get(&print).copied()
    }

    /// The fingerprints under which a row may name what the key means at one of the backends.
    pub fn prints_of_key(&self, key: &str) -> Vec<i64> {
        let objects = self.backends.iter().filter_map(|id| resolve(key, self.namespace, Some(*id)).ok());
        objects.flat_map(|object| prints(&object, self.namespace).all().collect::<Vec<_>>()).collect()
    }

    /// Whose object a text names that says where it is. What the worker would not guess at is read as people read it:
    /// without a scheme, with blanks around it, or with a query of its own.
    pub fn located(&self, raw: &str) -> Option<BackendId> {
        let text = raw.trim();
        let web = if text.starts_with("//") { format!("https:{text}") } else { text.to_owned() };
        let (scheme, _) = web.split_once("://")?;
        let is_web = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
        if !is_web && !["s3", "gs"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return None;
        }
        let bare = if is_web { &web[..web.find(['?', '#']).unwrap_or(web.len())] } else { &web };
        let read = |text: &str| {
            let found = self.backends.iter().find_map(|id| resolve(text, self.namespace, Some(*id)).ok());
            self.wanted(found).map(|object| object.backend)
        };
        read(&web).or_else(|| read(bare))
    }

    /// Whose object a URL inside of a text names, and the URL. Almost all URLs lead elsewhere: that is seen by their hosts.
    pub fn embedded(&self, text: &str) -> Option<(BackendId, String)> {
        let mut text = Cow::Borrowed(text);
        if text.contains("\\/") {
            text = Cow::Owned(text.replace("\\/", "/"));
        }
        if text.contains("&#") {
            text = Cow::Owned(decode_html_entities(text.as_ref()).into_owned());
        }
        let starts = text.match_indices("//").filter(|(slashes, _)| self.leads_to_us(&text, *slashes));
        starts.take(MOST_URLS).find_map(|(slashes, _)| {
            let found = urls(around(&text, slashes)).into_iter();
            let found = found.filter_map(|url| self.located(&url).map(|backend| (backend, url)));
            // The shortest reading, and rather one with its scheme.
            found.min_by_key(|(_, url)| (url.starts_with("//"), url.len()))
        })
    }

    /// Whether what follows the slashes is a host of ours, or a bucket where the scheme says so.
    fn leads_to_us(&self, text: &str, slashes: usize) -> bool {
        let (before, rest) = (&text[..slashes], &text[slashes + "//".len()..]);
        let end = rest.find(|letter: char| letter.is_whitespace() || BEHIND_HOST.contains(&letter));
        let authority = rest[..end.unwrap_or(rest.len())].to_ascii_lowercase();
        let is_bucket = |name: &str| self.namespace.backends().iter().any(|backend| backend.bucket == name);
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = [":443", ":80"].iter().find_map(|port| host.strip_suffix(port)).unwrap_or(host);
        let is_scheme = |scheme: &str| {
            before.get(before.len().saturating_sub(scheme.len())..).is_some_and(|end| end.eq_ignore_ascii_case(scheme))
        };
        if is_scheme("s3:") || is_scheme("gs:") {
            return is_bucket(&authority);
        }
        self.hosts.contains(host) || vendor::read(host).is_some_and(|host| host.bucket.as_deref().is_none_or(is_bucket))
    }
}

/// The text from a scheme on, whose slashes are given.
fn around(text: &str, slashes: usize) -> &str {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b':';
    let scheme =
        text.as_bytes()[..slashes].iter().rev().take("https:".len()).take_while(|byte| is_scheme(byte)).count();
    let mut end = text.len().min(slashes + LONGEST_URL);
    while !text.is_char_boundary(end) {
        end += 1;
    }
    &text[slashes - scheme..end]
}
