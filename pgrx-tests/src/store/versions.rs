//! Buckets that keep versions, where a server has them.

use anyhow::{Result, ensure};
use rusty_s3::actions::S3Action;

use super::{Contents, SIGNED_FOR, Store};

/// One line of a bucket's history.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The key.
    pub key: String,
    /// Whether it is a marker that hides the versions below.
    pub is_marker: bool,
}

impl Store {
    /// Makes a bucket whose objects can be locked, if the server says that it can.
    pub fn create_locking_bucket(&self, name: &str) -> Result<Option<Contents<'_>>> {
        let contents = self.bucket(name)?;
        let header = "x-amz-bucket-object-lock-enabled";
        let mut create = contents.bucket.create_bucket(&contents.credentials);
        create.headers_mut().insert(header, "true");
        let url = create.sign(SIGNED_FOR);
        let status = self.agent.put(url.as_str()).header(header, "true").send_empty()?.status();
        // A lock holds a version, so a bucket without versions has no locks, whatever the server makes of the header.
        Ok((status.is_success() && contents.keeps_versions()?).then_some(contents))
    }
}

impl Contents<'_> {
    /// Has the bucket keep versions from now on; false if the server does not.
    pub fn keep_versions(&self) -> Result<bool> {
        let mut request = self.bucket.create_bucket(&self.credentials);
        request.query_mut().insert("versioning", "");
        let url = request.sign(SIGNED_FOR);
        let body = "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status>\
                    </VersioningConfiguration>";
        let status = self.store.agent.put(url.as_str()).send(body)?.status();
        Ok(status.is_success() && self.keeps_versions()?)
    }

    fn keeps_versions(&self) -> Result<bool> {
        Ok(self.ask("versioning")?.is_some_and(|answer| answer.contains("<Status>Enabled</Status>")))
    }

    /// All versions and markers, sorted.
    pub fn versions(&self) -> Result<Vec<Version>> {
        let answer = self.ask("versions")?.unwrap_or_default();
        let lines = |tag, is_marker| keys_of(&answer, tag).map(move |key| Version { key, is_marker });
        let mut versions: Vec<Version> = lines("<Version>", false).chain(lines("<DeleteMarker>", true)).collect();
        versions.sort();
        Ok(versions)
    }

    /// Begins an upload in parts and leaves it so; false where the server refuses.
    pub fn begin_upload(&self, key: &str) -> Result<bool> {
        let url = self.bucket.create_multipart_upload(Some(&self.credentials), key).sign(SIGNED_FOR);
        Ok(self.store.agent.post(url.as_str()).send_empty()?.status().is_success())
    }

    /// Keys of unfinished uploads, sorted; none where the server lists none.
    pub fn uploads(&self) -> Result<Option<Vec<String>>> {
        let Some(answer) = self.ask("uploads")? else { return Ok(None) };
        let mut keys: Vec<String> = keys_of(&answer, "<Upload>").collect();
        keys.sort();
        Ok(Some(keys))
    }

    /// Stores an object whose version nobody may delete until then.
    pub fn put_locked(&self, key: &str, until: &str) -> Result<()> {
        let headers = [("x-amz-object-lock-mode", "COMPLIANCE"), ("x-amz-object-lock-retain-until-date", until)];
        let mut put = self.bucket.put_object(Some(&self.credentials), key);
        headers.iter().for_each(|(name, value)| put.headers_mut().insert(*name, *value));
        let url = put.sign(SIGNED_FOR);
        let request = headers
            .iter()
            .fold(self.store.agent.put(url.as_str()), |request, (name, value)| request.header(*name, *value));
        // A lock wants a checksum: this is the one of "x".
        let status = request.header("Content-MD5", "ndTkYSaMgDT1yFZOFVxnpg==").send("x")?.status();
        ensure!(status.is_success(), "PUT of {key:?} with a lock answered {status}");
        Ok(())
    }

    /// A question about the bucket; none where the server does not answer it.
    fn ask(&self, what: &'static str) -> Result<Option<String>> {
        // The object without a name is the bucket.
        let mut request = self.bucket.get_object(Some(&self.credentials), "");
        request.query_mut().insert(what, "");
        let url = request.sign(SIGNED_FOR);
        let mut answer = self.store.agent.get(url.as_str()).call()?;
        if !answer.status().is_success() {
            return Ok(None);
        }
        Ok(Some(answer.body_mut().read_to_string()?))
    }
}

/// The keys of all lines of a kind in a listing.
fn keys_of<'a>(answer: &'a str, tag: &'a str) -> impl Iterator<Item = String> + 'a {
    let parts = answer.split(tag).skip(1).filter_map(|part| part.split_once("<Key>")?.1.split_once('<'));
    parts.map(|(key, _)| key.to_owned())
}
