//! TLS in front of another server, for clients that show a certificate of its own authority.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A TLS server that hands everything on.
pub struct TlsFront {
    address: SocketAddr,
    /// The authority, as a client needs it to trust the server.
    pub authority: String,
    /// A certificate that the server takes, with its key.
    pub client: String,
    connections: Arc<AtomicUsize>,
    _runtime: Runtime,
}

impl TlsFront {
    /// Listens on loopback, and hands on to `upstream`. A client has to speak one of these protocols, if any are named.
    pub fn start(upstream: SocketAddr, protocols: &[&str]) -> Result<TlsFront> {
        let authority = authority()?;
        let (server, server_key) = certificate("localhost", &authority)?;
        let (client, client_key) = certificate("reaper", &authority)?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
        let key = PrivateKeyDer::try_from(server_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder().with_client_cert_verifier(verifier);
        let mut config = config.with_single_cert(vec![server.der().clone()], key)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let connections = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::clone(&connections);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                let (socket, _) = listener.accept().await?;
                let acceptor = acceptor.clone();
                accepted.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    let mut client = acceptor.accept(socket).await?;
                    let mut server = TcpStream::connect(upstream).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
            #[expect(unreachable_code, reason = "tells the type of the errors above")]
            Ok::<(), std::io::Error>(())
        });
        let client = client.pem() + &client_key.serialize_pem();
        Ok(TlsFront { address, authority: authority.pem(), client, connections, _runtime: runtime })
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The host and port that clients use.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.address.port())
    }
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority of this test");
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn certificate(name: &str, authority: &CertifiedIssuer<'static, KeyPair>) -> Result<(rcgen::Certificate, KeyPair)> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![name.to_owned()])?.signed_by(&key, authority)?;
    Ok((certificate, key))
}
