//! moto: AWS in one Python process, with its versions, locks and error codes. It keeps everything in memory.

use std::env;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use ureq::Agent;

use super::serve;
use crate::process::Process;

/// What a request to its IAM looks like; it reads the service from it, and checks nothing before it is told to.
const ASK_IAM: &str =
    "AWS4-HMAC-SHA256 Credential=tests/20200101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0";

/// Whoever has a key may do anything.
const POLICY: &str = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C\
                      %22Action%22%3A%22*%22%2C%22Resource%22%3A%22*%22%7D%5D%7D";

/// Starts it.
pub(super) fn launch(directory: &Path, port: u16, keep: bool) -> Result<Process> {
    let moto = env::var("MOTO").context("MOTO is not set: run through make, or `. .ci/env` first")?;
    serve(&[&moto, "-H", "127.0.0.1", "-p", &port.to_string()], &[], directory, keep)
}

/// Makes a user, since its S3 knows only the keys that its IAM has drawn; returns access key and secret.
pub(super) fn identity(agent: &Agent, endpoint: &str) -> Result<(String, String)> {
    let ask = |action: &str| {
        let form = format!("Version=2010-05-08&UserName=reaper&Action={action}");
        let request = agent.post(endpoint).header("Authorization", ASK_IAM);
        let mut answer = request.content_type("application/x-www-form-urlencoded").send(form)?;
        let text = answer.body_mut().read_to_string()?;
        ensure!(answer.status().is_success(), "{action} answered {}: {text}", answer.status());
        anyhow::Ok(text)
    };
    ask("CreateUser")?;
    ask(&format!("PutUserPolicy&PolicyName=all&PolicyDocument={POLICY}"))?;
    let key = ask("CreateAccessKey")?;
    let leaf = |name: &str| {
        let (_, rest) = key.split_once(&format!("<{name}>")).with_context(|| format!("no {name} in {key}"))?;
        let (value, _) = rest.split_once('<').with_context(|| format!("{name} does not end in {key}"))?;
        anyhow::Ok(value.to_owned())
    };
    Ok((leaf("AccessKeyId")?, leaf("SecretAccessKey")?))
}

/// Has it check signatures, or not. While it does, it takes none from a URL, which is where our own client puts them.
pub(super) fn check_signatures(agent: &Agent, endpoint: &str, check: bool) -> Result<()> {
    let unchecked = if check { "0" } else { "inf" };
    let status = agent.post(format!("{endpoint}/moto-api/reset-auth")).send(unchecked)?.status();
    ensure!(status.is_success(), "moto answered {status} when told about signatures");
    Ok(())
}
