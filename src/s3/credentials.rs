//! Finds credentials by name. They stay in memory here and go nowhere but into signatures.

use std::path::Path;

use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, AssumeRoleWithWebIdentityCredentialProvider, Credential, DefaultCredentialProvider,
    ECSCredentialProvider, EnvCredentialProvider, IMDSv2CredentialProvider, ProfileCredentialProvider, RequestSigner,
};
use reqsign_core::{Context, OsEnv, ProvideCredentialChain, Signer};
use reqsign_file_read_tokio::TokioFileRead;
use reqsign_http_send_reqwest::ReqwestHttpSend;

use crate::domain::backend::Backend;
use crate::domain::credentials::CredentialName;

use super::clock::TimedSigner;
use super::io::Settings;

/// A signer for a backend; it keeps its credentials until shortly before they expire.
pub fn signer(backend: &Backend, settings: &Settings, client: &reqwest::Client) -> Signer<Credential> {
    let context = Context::new()
        .with_file_read(TokioFileRead)
        .with_http_send(ReqwestHttpSend::new(client.clone()))
        .with_env(OsEnv);
    let request_signer = TimedSigner::new(&backend.region);
    match &backend.credentials {
        CredentialName::Environment => Signer::new(context, environment(), request_signer),
        CredentialName::Instance => {
            let chain =
                ProvideCredentialChain::new().push(ECSCredentialProvider::new()).push(IMDSv2CredentialProvider::new());
            Signer::new(context, chain, request_signer)
        }
        CredentialName::Profile(name) => Signer::new(context, profile(name, settings), request_signer),
        CredentialName::Role { arn } => {
            let base = DefaultCredentialProvider::builder()
                .profile(with_files(ProfileCredentialProvider::new(), settings))
                .no_process()
                .no_sso()
                .build();
            let sts = Signer::new(context.clone(), base, RequestSigner::new("sts", &backend.region));
            let role = AssumeRoleCredentialProvider::new(arn.clone(), sts)
                .with_role_session_name("storage-reaper".to_owned())
                .with_region(backend.region.clone())
                .with_regional_sts_endpoint();
            Signer::new(context, role, request_signer)
        }
    }
}

/// What the server's environment gives: keys, a web identity, or a container's endpoint.
fn environment() -> ProvideCredentialChain<Credential> {
    ProvideCredentialChain::new()
        .push(EnvCredentialProvider::new())
        .push(AssumeRoleWithWebIdentityCredentialProvider::new())
        .push(ECSCredentialProvider::new())
}

fn profile(name: &str, settings: &Settings) -> ProfileCredentialProvider {
    with_files(ProfileCredentialProvider::new().with_profile(name), settings)
}

fn with_files(provider: ProfileCredentialProvider, settings: &Settings) -> ProfileCredentialProvider {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let provider = match &settings.credentials_file {
        Some(path) => provider.with_credentials_file(text(path)),
        None => provider,
    };
    match &settings.config_file {
        Some(path) => provider.with_config_file(text(path)),
        None => provider,
    }
}
