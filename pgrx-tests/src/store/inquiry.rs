//! Questions that a test asks a server on its own account, to learn what it can do before it expects anything.

use anyhow::{Result, ensure};
use rusty_s3::actions::{ObjectIdentifier, S3Action};

use super::{ACCESS_KEY, Contents, Program, SECRET_KEY, SIGNED_FOR, Store, moto};

impl Store {
    /// An access key with its secret that the server insists on from now on. Most servers always do.
    pub fn insist_on_signatures(&self) -> Result<(String, String)> {
        if self.program != Program::Moto {
            return Ok((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned()));
        }
        let identity = moto::identity(&self.agent, &self.endpoint())?;
        moto::check_signatures(&self.agent, &self.endpoint(), true)?;
        Ok(identity)
    }

    /// Asks something of the test's own while the server insists: moto reads no signatures from URLs, which is where our
    /// client puts them, so it believes everybody for that time.
    pub fn without_signatures<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.program != Program::Moto {
            return body();
        }
        moto::check_signatures(&self.agent, &self.endpoint(), false)?;
        let outcome = body();
        moto::check_signatures(&self.agent, &self.endpoint(), true)?;
        outcome
    }
}

impl Contents<'_> {
    /// Whether the server takes an object under this key.
    pub fn takes(&self, key: &str) -> Result<bool> {
        let url = match self.plain_url(key) {
            Some(url) => url,
            None => self.bucket.put_object(Some(&self.credentials), key).sign(SIGNED_FOR).into(),
        };
        Ok(self.store.agent.put(&url).send("x").is_ok_and(|answer| answer.status().is_success()))
    }

    /// Whether the server has an object for this key, be it under another name.
    pub fn knows(&self, key: &str) -> Result<bool> {
        let url = match self.plain_url(key) {
            Some(url) => url,
            None => self.bucket.head_object(Some(&self.credentials), key).sign(SIGNED_FOR).into(),
        };
        Ok(self.store.agent.head(&url).call().is_ok_and(|answer| answer.status().is_success()))
    }

    /// Deletes by a batch; whether the answer confirms any of the keys.
    pub fn erase(&self, keys: &[&str]) -> Result<bool> {
        let objects: Vec<_> = keys.iter().map(|key| ObjectIdentifier::new((*key).to_owned())).collect();
        let action = self.bucket.delete_objects(Some(&self.credentials), objects.iter());
        let url = action.sign(SIGNED_FOR);
        let (body, digest) = action.body_with_md5();
        let sent = self.store.agent.post(url.as_str()).header("Content-MD5", digest).send(body);
        // A server that hangs up has confirmed nothing, either.
        let Ok(mut answer) = sent else { return Ok(false) };
        Ok(answer.status().is_success() && answer.body_mut().read_to_string()?.contains("<Deleted>"))
    }

    /// Deletes one object that is there.
    pub fn remove(&self, key: &str) -> Result<()> {
        let url = match self.plain_url(key) {
            Some(url) => url,
            None => self.bucket.delete_object(Some(&self.credentials), key).sign(SIGNED_FOR).into(),
        };
        let status = self.store.agent.delete(&url).call()?.status();
        ensure!(status.is_success(), "DELETE of {key:?} answered {status}");
        Ok(())
    }

    /// Dot segments do not survive in the URLs that our client signs. So they go with a signature that a server refuses if
    /// it checks any.
    fn plain_url(&self, key: &str) -> Option<String> {
        if !key.split('/').any(|segment| segment == "." || segment == "..") {
            return None;
        }
        let escape = |byte: u8| match byte {
            b'/' | b'.' | b'-' | b'_' | b'~' => char::from(byte).to_string(),
            _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        let path: String = key.bytes().map(escape).collect();
        Some(format!("{}/{}/{path}?X-Amz-Signature=none", self.store.endpoint(), self.name()))
    }
}
