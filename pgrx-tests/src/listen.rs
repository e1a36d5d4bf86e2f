//! A server on loopback that has a thread for each connection, and takes no more connections once it is dropped.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Result;

/// The server.
pub struct Server {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
}

impl Server {
    /// Listens on a port of its own. An error ends its connection only.
    pub fn start(converse: impl Fn(TcpStream) -> std::io::Result<()> + Send + Sync + 'static) -> Result<Server> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let (ended, converse) = (Arc::clone(&has_ended), Arc::new(converse));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let converse = Arc::clone(&converse);
                thread::spawn(move || converse(socket).ok());
            }
        });
        Ok(Server { address, has_ended })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL that clients use.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        // The listener looks at `has_ended` when somebody calls.
        let _ = TcpStream::connect(self.address);
    }
}
