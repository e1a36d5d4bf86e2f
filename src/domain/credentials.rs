//! Names of credentials. The credentials themselves never enter the database.

use std::fmt;
use std::str::FromStr;

/// Where the worker finds the credentials of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CredentialName {
    /// The server's environment: keys, a web identity or a container role.
    Environment,
    /// A profile of the shared credentials or config file.
    Profile(String),
    /// A role that is assumed with the server's own credentials.
    Role {
        /// The role's Amazon resource name.
        arn: String,
    },
    /// The role of the machine or container.
    Instance,
}

/// Why a credential name was refused. Never repeats the value: it may be a secret, pasted into the
/// wrong place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CredentialNameError {
    /// Not one of the four forms.
    #[error(
        "credentials are 'environment', 'profile:NAME', 'role:arn:aws:iam::ACCOUNT:role/NAME' or 'instance'; the value given is not shown, since it may be a secret"
    )]
    Unknown,
    /// A profile name that is empty or has odd characters.
    #[error("the name of a profile has 1 to 64 letters, digits, '-', '_', '.' or '@'")]
    BadProfile,
    /// A token that is looked for elsewhere than in a profile.
    #[error("a token stands under a profile: 'profile:NAME'")]
    NoProfile,
    /// A key where its name belongs.
    #[error("this looks like an access key rather than the name of a profile; keys belong in the credentials file")]
    LooksSecret,
    /// A role that AWS would not know.
    #[error("a role is written as role:arn:aws:iam::ACCOUNT:role/NAME")]
    BadRole,
}

impl FromStr for CredentialName {
    type Err = CredentialNameError;

    fn from_str(text: &str) -> Result<CredentialName, CredentialNameError> {
        match text.split_once(':') {
            None if text == "environment" => Ok(CredentialName::Environment),
            None if text == "instance" => Ok(CredentialName::Instance),
            Some(("profile", name)) => profile(name),
            Some(("role", arn)) => role(arn),
            _ => Err(CredentialNameError::Unknown),
        }
    }
}

/// The profile under which a token is kept, by a name such as `profile:cdn`: tokens come from nowhere else.
pub fn token_profile(text: &str) -> Result<String, CredentialNameError> {
    match text.parse()? {
        CredentialName::Profile(name) => Ok(name),
        _ => Err(CredentialNameError::NoProfile),
    }
}

fn profile(name: &str) -> Result<CredentialName, CredentialNameError> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    if looks_secret(name) {
        return Err(CredentialNameError::LooksSecret);
    }
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fine) {
        return Err(CredentialNameError::BadProfile);
    }
    Ok(CredentialName::Profile(name.to_owned()))
}

/// Key ids are 20 upper-case characters that start with A; secrets are 40 of base64, or 32 or 64 of
/// hex.
fn looks_secret(name: &str) -> bool {
    let all = |test: fn(&u8) -> bool| name.as_bytes().iter().all(test);
    match name.len() {
        16..=24 => name.starts_with("A") && all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        32 | 64 => all(u8::is_ascii_hexdigit),
        31 | 40 => {
            all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte))
                && name.bytes().any(|byte| byte.is_ascii_digit())
        }
        _ => false,
    }
}

fn role(arn: &str) -> Result<CredentialName, CredentialNameError> {
    let fields: Vec<&str> = arn.splitn(6, ':').collect();
    let ["arn", partition, "iam", "", account, resource] = fields[..] else {
        return Err(CredentialNameError::BadRole);
    };
    let fine_partition =
        partition.starts_with("aws") && partition.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    let fine_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let fine_name = |name: &str| {
        !name.is_empty()
            && name.len() <= 512
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-/".contains(&byte))
    };
    if fine_partition && fine_account && resource.strip_prefix("role/").is_some_and(fine_name) {
        Ok(CredentialName::Role { arn: arn.to_owned() })
    } else {
        Err(CredentialNameError::BadRole)
    }
}

impl fmt::Display for CredentialName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CredentialName::Environment => f.write_str("environment"),
            CredentialName::Profile(name) => write!(f, "profile:{name}"),
            CredentialName::Role { arn } => write!(f, "role:{arn}"),
            CredentialName::Instance => f.write_str("instance"),
        }
    }
}
