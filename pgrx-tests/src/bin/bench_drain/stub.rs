//! A store that holds nothing and answers deletions well: at once, or after a fixed time. It reads no more of a request
//! than its answer needs, so that it takes little of the machine from the worker.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use storage_reaper_tests::listen::Server;

/// The server.
pub struct Stub {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    latency: Duration,
    takes_batches: bool,
    objects: AtomicUsize,
}

impl Stub {
    /// Listens on loopback.
    pub fn start(latency: Duration, takes_batches: bool) -> Result<Stub> {
        let shared = Arc::new(Shared { latency, takes_batches, objects: AtomicUsize::new(0) });
        let of_connections = Arc::clone(&shared);
        let server = Server::start(move |socket| of_connections.converse(socket))?;
        Ok(Stub { server, shared })
    }

    /// The URL that clients use.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// How many objects it was asked to delete so far, each as often as it was.
    pub fn objects(&self) -> usize {
        self.shared.objects.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn converse(&self, mut writer: TcpStream) -> std::io::Result<()> {
        writer.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(128 * 1024, writer.try_clone()?);
        let (mut line, mut body, mut answer) = (String::new(), Vec::new(), String::new());
        while reader.read_line(&mut line)? > 0 {
            let is_batch = line.starts_with("POST ");
            let mut length = 0;
            loop {
                line.clear();
                if reader.read_line(&mut line)? <= 2 {
                    break;
                }
                if let Some((name, value)) = line.split_once(':')
                    && name.eq_ignore_ascii_case("content-length")
                {
                    length = value.trim().parse().unwrap_or(0);
                }
            }
            line.clear();
            body.resize(length, 0);
            reader.read_exact(&mut body)?;
            answer.clear();
            let objects = match (is_batch, self.takes_batches) {
                (true, true) => all_deleted(&String::from_utf8_lossy(&body), &mut answer),
                (true, false) => {
                    answer.push_str("HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\n\r\n");
                    0
                }
                (false, _) => {
                    answer.push_str("HTTP/1.1 204 No Content\r\n\r\n");
                    1
                }
            };
            if !self.latency.is_zero() {
                thread::park_timeout(self.latency);
            }
            self.objects.fetch_add(objects, Ordering::Relaxed);
            writer.write_all(answer.as_bytes())?;
        }
        Ok(())
    }
}

/// Writes the answer to a batch that has done all that was asked, and says of how many keys.
fn all_deleted(body: &str, answer: &mut String) -> usize {
    let mut result = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?><DeleteResult>");
    let mut keys = 0;
    for key in body.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0)) {
        keys += 1;
        result.extend(["<Deleted><Key>", key, "</Key></Deleted>"]);
    }
    result.push_str("</DeleteResult>");
    answer.push_str("HTTP/1.1 200 OK\r\ncontent-type: application/xml\r\ncontent-length: ");
    answer.push_str(&result.len().to_string());
    answer.push_str("\r\n\r\n");
    answer.push_str(&result);
    keys
}
