//! A small S3 server over a directory: `s3-server ADDRESS DIRECTORY ACCESS_KEY SECRET_KEY`.
//!
//! Prints the address that it listens on, then serves until it is killed.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [address, directory, access_key, secret_key] = arguments.as_slice() else {
        bail!("usage: s3-server ADDRESS DIRECTORY ACCESS_KEY SECRET_KEY");
    };
    let directory = PathBuf::from(directory);
    let files = FileSystem::new(&directory)
        .map_err(|error| anyhow::anyhow!("cannot serve {}: {error:?}", directory.display()))?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(access_key.as_str(), secret_key.as_str()));

    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(serve(address, service.build()))
}

async fn serve(address: &str, service: S3Service) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    println!("{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            // A client that hangs up is no news.
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
        });
    }
}
