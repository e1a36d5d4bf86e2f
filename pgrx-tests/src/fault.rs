//! A scripted HTTP server: it records every request with the time of its arrival, and plays the answers it is given.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// When its head and body had been read.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its target: path and query, as sent.
    pub target: String,
    /// Its head, each line as sent.
    pub head: Vec<String>,
    /// Its body.
    pub body: String,
}

impl Request {
    /// The keys that a batch names, in order.
    pub fn keys(&self) -> Vec<String> {
        self.body.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once("</Key>")?.0.to_owned())).collect()
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case(name)).is_some();
        self.head.iter().find(|line| of(line)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

/// One scripted answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status line's code; none closes the connection without an answer.
    pub status: Option<u16>,
    /// More head lines.
    pub headers: Vec<String>,
    /// The body.
    pub body: String,
    /// How long to wait before it.
    pub delay: Duration,
}

impl Answer {
    /// An answer at once.
    pub fn of(status: u16, body: impl Into<String>) -> Answer {
        Answer { status: Some(status), headers: Vec::new(), body: body.into(), delay: Duration::ZERO }
    }

    /// An S3 error document.
    pub fn error(status: u16, code: &str) -> Answer {
        Answer::of(
            status,
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>scripted</Message></Error>"),
        )
    }

    /// The connection is closed instead.
    pub fn hang_up() -> Answer {
        Answer { status: None, ..Answer::of(0, "") }
    }

    /// The same answer, later.
    pub fn after(self, delay: Duration) -> Answer {
        Answer { delay, ..self }
    }

    /// What a healthy server says: every key is deleted.
    pub fn healthy(request: &Request) -> Answer {
        if request.method == "DELETE" {
            return Answer::of(204, "");
        }
        let deleted: String = request.keys().iter().map(|key| format!("<Deleted><Key>{key}</Key></Deleted>")).collect();
        let open =
            r#"<?xml version="1.0" encoding="UTF-8"?><DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">"#;
        Answer::of(200, format!("{open}{deleted}</DeleteResult>"))
    }
}

/// The server.
pub struct FaultServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    next: VecDeque<Answer>,
    always: Option<Answer>,
    held: bool,
    ended: bool,
}

impl FaultServer {
    /// Listens on loopback; answers like a healthy server until it is told otherwise.
    pub fn start() -> Result<FaultServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let of_listener = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if of_listener.state().ended {
                    return;
                }
                let shared = Arc::clone(&of_listener);
                // A client that hangs up ends its own connection only.
                thread::spawn(move || shared.converse(socket).ok());
            }
        });
        Ok(FaultServer { address, shared })
    }

    /// The URL that clients use.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Plays this answer once, after the ones given before.
    pub fn answer_next(&self, answer: Answer) {
        self.shared.state().next.push_back(answer);
    }

    /// Plays this answer whenever no other is due; none is a healthy server again.
    pub fn answer_always(&self, answer: Option<Answer>) {
        self.shared.state().always = answer;
    }

    /// From now on requests are read and not answered.
    pub fn hold(&self) {
        self.shared.state().held = true;
    }

    /// Answers what was held, and goes on answering.
    pub fn release(&self) {
        self.shared.state().held = false;
        self.shared.changed.notify_all();
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// Waits for the request after the first `seen`, however long ago it came.
    pub fn request_after(&self, seen: usize, patience: Duration) -> Option<Request> {
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, patience, |state| state.requests.len() <= seen);
        let (state, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.requests.get(seen).cloned()
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        // The listener looks at `ended` when somebody calls.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn converse(&self, socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        let mut reader = BufReader::new(socket.try_clone()?);
        let mut writer = socket;
        while let Some(request) = read_request(&mut reader)? {
            let answer = self.record(request);
            drop(self.changed.wait_while(self.state(), |state| state.held && !state.ended));
            if !answer.delay.is_zero() {
                thread::park_timeout(answer.delay);
            }
            let Some(status) = answer.status else { return Ok(()) };
            let more: String = answer.headers.iter().map(|line| format!("{line}\r\n")).collect();
            let length = answer.body.len();
            // An answer without a body has no length either.
            let length = if status == 304 { String::new() } else { format!("Content-Length: {length}\r\n") };
            let text = format!("HTTP/1.1 {status} Scripted\r\n{length}{more}\r\n{}", answer.body);
            writer.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn record(&self, request: Request) -> Answer {
        let mut state = self.state();
        let scripted = state.next.pop_front().or_else(|| state.always.clone());
        let answer = scripted.unwrap_or_else(|| Answer::healthy(&request));
        state.requests.push(request);
        self.changed.notify_all();
        answer
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut head = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or(0);
        }
        head.push(line.to_owned());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Some(Request { at: Instant::now(), method, target, head, body }))
}
