//! Connections to stores: whom they trust, how long they may take, and through what they go.

use std::path::Path;

use reqwest::redirect::Policy;
use reqwest::tls::{Certificate, Identity};
use reqwest::{NoProxy, Proxy, Url};

use super::io::Settings;

/// Where clouds serve credentials: no proxy may see those, and none could reach them.
const METADATA: &str = "169.254.169.254,169.254.170.2,169.254.170.23,fd00:ec2::254,fd00:ec2::23";

/// Makes the client of all requests. An error names the setting that is wrong, and nothing of what the file holds.
pub fn client(settings: &Settings) -> Result<reqwest::Client, String> {
    // An error only says that the process has a provider already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .redirect(Policy::none())
        .no_proxy()
        .connect_timeout(settings.connect_timeout)
        .timeout(settings.request_timeout)
        .tcp_nodelay(true);
    if let Some(path) = &settings.ca_file {
        let authorities = Certificate::from_pem_bundle(&read("ca_file", path)?)
            .map_err(|_| "storage_reaper.ca_file holds no certificates".to_owned())?;
        builder = builder.tls_certs_merge(authorities);
    }
    if let Some(path) = &settings.client_certificate_file {
        let own = Identity::from_pem(&read("client_certificate_file", path)?)
            .map_err(|_| "storage_reaper.client_certificate_file does not hold a certificate and its key".to_owned())?;
        builder = builder.identity(own);
    }
    if let Some(url) = &settings.proxy {
        builder = builder.proxy(proxy(url)?);
    }
    builder.build().map_err(|_| "the HTTP client could not be made of these settings".to_owned())
}

fn read(setting: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("could not read storage_reaper.{setting}: {error}"))
}

fn proxy(text: &str) -> Result<Proxy, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or("storage_reaper.proxy is not the URL of an HTTP proxy")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("storage_reaper.proxy names a user, and a setting is no place for a password".to_owned());
    }
    let proxy = Proxy::all(url).map_err(|_| "storage_reaper.proxy is not the URL of an HTTP proxy")?;
    Ok(proxy.no_proxy(NoProxy::from_string(METADATA)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_stands_in_a_setting() {
        assert!(proxy("http://proxy.example.com:3128").is_ok());
        for wrong in ["proxy.example.com:3128", "socks5://p", "http://", "http://u@p", "http://u:secret@p:1"] {
            let told = proxy(wrong).err().unwrap_or_default();
            assert!(!told.is_empty() && !told.contains("secret"), "{wrong}: {told}");
        }
    }
}
