//! A proxy in front of a real store that now and then does what networks and stores do: refuses, hangs up, cuts the
//! answer, lets the client wait, or loses the answer of a request that was carried out.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;

use crate::listen::Server;

/// One request in so many gets a fault.
const ONE_IN: u32 = 8;
/// Longer than a scenario's request timeout, so that some answers come too late.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// An error is answered instead of the store's answer.
    Refused(u16, &'static str),
    /// The connection closes before the store hears of the request.
    HangUp,
    /// The request arrives late, perhaps after the client has given it up.
    RequestLate,
    /// The store carries the request out, and nobody learns of it.
    AnswerLost,
    /// Half of the answer arrives.
    AnswerCut,
    /// The answer takes its time.
    AnswerLate,
}

const FAULTS: [Fault; 8] = [
    Fault::Refused(503, "SlowDown"),
    Fault::Refused(500, "InternalError"),
    Fault::Refused(403, "AccessDenied"),
    Fault::HangUp,
    Fault::RequestLate,
    Fault::AnswerLost,
    Fault::AnswerCut,
    Fault::AnswerLate,
];

/// The proxy.
pub struct Proxy {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    store: SocketAddr,
    is_faulty: AtomicBool,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    requests: u64,
    faults: BTreeMap<String, u64>,
}

impl Proxy {
    /// Listens on loopback in front of the store at this endpoint; faulty from the start.
    pub fn start(endpoint: &str, seed: u64) -> Result<Proxy> {
        let store = endpoint.strip_prefix("http://").context("the store speaks plain HTTP")?.parse()?;
        let state = State { rng: Rng::with_seed(seed), requests: 0, faults: BTreeMap::new() };
        let shared = Arc::new(Shared { store, is_faulty: AtomicBool::new(true), state: Mutex::new(state) });
        let of_connections = Arc::clone(&shared);
        let server = Server::start(move |socket| of_connections.pass(socket))?;
        Ok(Proxy { server, shared })
    }

    /// The URL that clients use.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Passes everything on from now on.
    pub fn heal(&self) {
        self.shared.is_faulty.store(false, Ordering::Relaxed);
    }

    /// Requests so far, and faults by kind.
    pub fn tally(&self) -> (u64, BTreeMap<String, u64>) {
        let state = self.shared.state();
        (state.requests, state.faults.clone())
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// One request a connection: both sides are told to close, so the end of the answer is the end of the stream.
    fn pass(&self, mut client: TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        let Some(request) = read_request(&mut client)? else { return Ok(()) };
        let (fault, wait) = self.draw();
        match fault {
            Some(Fault::HangUp) => return Ok(()),
            Some(Fault::Refused(status, code)) => return client.write_all(refusal(status, code).as_bytes()),
            Some(Fault::RequestLate) => thread::park_timeout(wait),
            _ => {}
        }
        let mut store = TcpStream::connect(self.store)?;
        store.write_all(&request)?;
        let mut answer = Vec::new();
        store.read_to_end(&mut answer)?;
        match fault {
            Some(Fault::AnswerLost) => return Ok(()),
            Some(Fault::AnswerCut) => answer.truncate(answer.len() / 2),
            Some(Fault::AnswerLate) => thread::park_timeout(wait),
            _ => {}
        }
        client.write_all(&answer)
    }

    fn draw(&self) -> (Option<Fault>, Duration) {
        let mut state = self.state();
        state.requests += 1;
        if !self.is_faulty.load(Ordering::Relaxed) || state.rng.u32(..ONE_IN) > 0 {
            return (None, Duration::ZERO);
        }
        let fault = FAULTS[state.rng.usize(..FAULTS.len())];
        let wait = LONGEST_WAIT.mul_f64(state.rng.f64());
        *state.faults.entry(format!("{fault:?}")).or_default() += 1;
        (Some(fault), wait)
    }
}

fn refusal(status: u16, code: &str) -> String {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>by chance</Message></Error>");
    format!("HTTP/1.1 {status} Chance\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The request as it came, with a line that asks to close; what is signed stays as it is.
fn read_request(client: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let mut reader = BufReader::new(client);
    let (mut request, mut length) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line).to_ascii_lowercase();
        if let Some(value) = text.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        let is_last = text.trim().is_empty();
        if is_last {
            request.extend_from_slice(b"Connection: close\r\n");
        }
        request.extend_from_slice(&line);
        if is_last {
            break;
        }
    }
    let head = request.len();
    request.resize(head + length, 0);
    reader.read_exact(&mut request[head..])?;
    Ok(Some(request))
}
