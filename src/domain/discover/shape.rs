//! What keys look like, so that a text without a scheme can be told from a word.

/// The longest key that is taken for a name chosen by people; identifiers and hashes are longer.
const LONGEST_WORD: usize = 15;
/// No file name's ending is longer.
const LONGEST_EXTENSION: usize = 10;
/// A first folder of more bytes, or with digits, is one of many, such as a user's.
const LONGEST_FOLDER: usize = 32;

/// Words in names of tables and columns that keep locators.
const TELLING: [&str; 25] = [
    "asset", "attach", "audio", "avatar", "banner", "blob", "bucket", "cover", "document", "file", "href", "icon",
    "image", "img", "key", "logo", "media", "object", "path", "photo", "picture", "s3", "src", "thumb", "video",
];
/// The same, where the word is not to be taken from within another one.
const TELLING_WHOLE: [&str; 7] = ["url", "uri", "link", "upload", "storage", "pic", "doc"];

/// What keys of one kind have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    /// In a folder, with an extension, or both. `*` stands for a folder that is one of many.
    Path { folder: Option<String>, extension: Option<String> },
    /// Neither, but too long for a word, such as a UUID or a hash.
    Long { length: usize },
}

impl Shape {
    /// `None` for a text that could as well be a word.
    pub fn of(key: &str) -> Option<Self> {
        let (folders, name) = key.rsplit_once('/').map_or((None, key), |(folders, name)| (Some(folders), name));
        let folder = folders.map(|folders| general(folders.split('/').next().unwrap_or_default()));
        let extension = name.rsplit_once('.').and_then(|(stem, extension)| {
            let is_one = !stem.is_empty()
                && (1..=LONGEST_EXTENSION).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_one.then(|| extension.to_ascii_lowercase())
        });
        match (folder, extension) {
            (None, None) if key.len() > LONGEST_WORD => Some(Self::Long { length: key.len() }),
            (None, None) => None,
            (folder, extension) => Some(Self::Path { folder, extension }),
        }
    }

    /// Whether the shape alone says something, beside a telling name: any two UUIDs are of one length.
    pub fn is_telling(&self) -> bool {
        matches!(self, Self::Path { .. })
    }
}

fn general(folder: &str) -> String {
    let is_one_of_many = folder.len() > LONGEST_FOLDER || folder.bytes().any(|byte| byte.is_ascii_digit());
    if is_one_of_many { "*".to_owned() } else { folder.to_owned() }
}

/// Whether the name of a column, or of its table, says that it keeps locators.
pub fn name_is_telling(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let words = || lower.split(|letter: char| !letter.is_ascii_alphabetic());
    TELLING.iter().any(|word| lower.contains(word))
        || words().any(|word| {
            TELLING_WHOLE
                .iter()
                .any(|telling| word.strip_prefix(telling).is_some_and(|rest| rest.is_empty() || rest == "s"))
        })
        || ["Url", "URL", "Uri", "Link"].iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{Shape, name_is_telling};

    fn path(folder: Option<&str>, extension: Option<&str>) -> Option<Shape> {
        Some(Shape::Path { folder: folder.map(str::to_owned), extension: extension.map(str::to_owned) })
    }

    #[test]
    fn keys_of_one_kind_have_one_shape() {
        for (key, shape) in [
            ("a.png", path(None, Some("png"))),
            ("A.b.PNG", path(None, Some("png"))),
            ("image/2024/1.jpg", path(Some("image"), Some("jpg"))),
            ("user-17/1.jpg", path(Some("*"), Some("jpg"))),
            ("image/1", path(Some("image"), None)),
            ("3b241101-e2bb-4255-8caf-4136c566a962", Some(Shape::Long { length: 36 })),
            (".profile", None),
            ("active", None),
            ("", None),
        ] {
            assert_eq!(Shape::of(key), shape, "{key}");
        }
    }

    #[test]
    fn names_tell() {
        for name in ["url", "avatar_url", "imageUrl", "s3_key", "files", "links", "Photo", "doc"] {
            assert!(name_is_telling(name), "{name}");
        }
        for name in ["curl", "id", "title", "blinking", "state", "topic"] {
            assert!(!name_is_telling(name), "{name}");
        }
    }
}
