//! A scripted HTTP server: it records every request with the time of its arrival, and plays the answers it is given. It
//! fails the scenario that sent what must never be sent.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::listen::Server;

mod answer;
mod rules;

pub use answer::{Answer, Flaw};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Request {
    /// When its head and body had been read.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its target: path and query, as sent.
    pub target: String,
    /// The host in its target: it came through a proxy.
    pub through: Option<String>,
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

    /// The bucket that it is about, where requests name it in their path.
    pub fn bucket(&self) -> &str {
        self.target.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default()
    }

    /// The keys that it deletes, as it spells them.
    fn deleted(&self) -> Vec<String> {
        let path = self.target.split('?').next().unwrap_or_default().trim_start_matches('/');
        match (self.method.as_str(), path.split_once('/')) {
            ("DELETE", Some((_, key))) => vec![key.to_owned()],
            ("POST", _) => self.keys(),
            _ => Vec::new(),
        }
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ str| line.split_once(':').filter(|(n, _)| n.eq_ignore_ascii_case(name)).is_some();
        self.head.iter().find(|line| of(line)).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

/// The server.
pub struct FaultServer {
    server: Server,
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
    /// What is played to requests about one bucket, before all others.
    of_bucket: HashMap<String, VecDeque<Answer>>,
    always_of_bucket: HashMap<String, Answer>,
    of_text: Vec<(String, Answer)>,
    /// What is there, by bucket and key.
    objects: BTreeSet<(String, String)>,
    violations: Vec<String>,
    /// Under which hosts requests may come, beside its address.
    hosts: Vec<String>,
    /// How long a healthy answer takes for each key that it is about.
    per_key: Duration,
    /// It is no store, and anything may be asked of it.
    is_other: bool,
    held: bool,
    ended: bool,
}

impl FaultServer {
    /// Listens on loopback; answers like a healthy server until it is told otherwise.
    pub fn start() -> Result<FaultServer> {
        let shared = Arc::new(Shared::default());
        let of_connections = Arc::clone(&shared);
        let server = Server::start(move |socket| of_connections.converse(socket))?;
        Ok(FaultServer { server, shared })
    }

    /// The URL that clients use.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Plays this answer once, after the ones given before.
    pub fn answer_next(&self, answer: Answer) {
        self.shared.state().next.push_back(answer);
    }

    /// Plays this answer whenever no other is due; none is a healthy server again.
    pub fn answer_always(&self, answer: Option<Answer>) {
        self.shared.state().always = answer;
    }

    /// Plays these answers, in order, to requests about a bucket.
    pub fn answer_about(&self, bucket: &str, answers: impl IntoIterator<Item = Answer>) {
        self.shared.state().of_bucket.entry(bucket.to_owned()).or_default().extend(answers);
    }

    /// Plays this answer to all requests about a bucket, or none any more.
    pub fn answer_always_about(&self, bucket: &str, answer: Option<Answer>) {
        let always = &mut self.shared.state().always_of_bucket;
        match answer {
            Some(answer) => drop(always.insert(bucket.to_owned(), answer)),
            None => drop(always.remove(bucket)),
        }
    }

    /// Plays this answer to all requests whose target or body holds the text.
    pub fn answer_naming(&self, text: &str, answer: Answer) {
        self.shared.state().of_text.push((text.to_owned(), answer));
    }

    /// Plays no answers to requests by what they hold any more.
    pub fn answer_no_more_naming(&self) {
        self.shared.state().of_text.clear();
    }

    /// Healthy answers take so long for each key that they are about.
    pub fn take_its_time(&self, per_key: Duration) {
        self.shared.state().per_key = per_key;
    }

    /// It plays another service than a store: requests are neither signed nor about objects.
    pub fn is_no_store(&self) {
        self.shared.state().is_other = true;
    }

    /// Requests may be for this host, too.
    pub fn stands_for(&self, host: &str) {
        self.shared.state().hosts.push(host.to_owned());
    }

    /// Objects that are there from now on, until a request is answered well.
    pub fn put<K: AsRef<str>>(&self, bucket: &str, keys: &[K]) {
        let keys = keys.iter().map(|key| (bucket.to_owned(), key.as_ref().to_owned()));
        self.shared.state().objects.extend(keys);
    }

    /// Those of a bucket that are still there.
    pub fn survivors(&self, bucket: &str) -> Vec<String> {
        let state = self.shared.state();
        state.objects.iter().filter(|(of, _)| of == bucket).map(|(_, key)| key.clone()).collect()
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
        let violations = std::mem::take(&mut self.shared.state().violations);
        // A scenario that has failed tells its own story.
        assert!(thread::panicking() || violations.is_empty(), "{}", violations.join("\n"));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn converse(&self, socket: TcpStream) -> std::io::Result<()> {
        socket.set_nodelay(true)?;
        let host = socket.local_addr()?.to_string();
        let mut reader = BufReader::new(socket.try_clone()?);
        let mut writer = socket;
        while let Some(request) = read_request(&mut reader)? {
            let is_head = request.method == "HEAD";
            let answer = self.record(request, &host);
            drop(self.changed.wait_while(self.state(), |state| state.held && !state.ended));
            if !answer.delay.is_zero() {
                thread::park_timeout(answer.delay);
            }
            answer.send(&mut writer, is_head, &|| self.state().ended)?;
        }
        Ok(())
    }

    fn record(&self, request: Request, host: &str) -> Answer {
        let mut state = self.state();
        let of_request = request.header("host").unwrap_or_default();
        let host = state.hosts.iter().map(String::as_str).find(|host| *host == of_request).unwrap_or(host);
        let violation = rules::violation(&request, host).filter(|_| !state.is_other);
        state.violations.extend(violation);
        let bucket = request.bucket().to_owned();
        let names = |text: &String| request.target.contains(text) || request.body.contains(text);
        let naming = state.of_text.iter().find(|(text, _)| names(text)).map(|(_, answer)| answer.clone());
        let about_it = state.of_bucket.get_mut(&bucket).and_then(VecDeque::pop_front);
        let about_it = about_it.or_else(|| state.always_of_bucket.get(&bucket).cloned());
        let scripted = naming.or(about_it).or_else(|| state.next.pop_front()).or_else(|| state.always.clone());
        let keys = u32::try_from(request.deleted().len()).unwrap_or(u32::MAX);
        let slowly = state.per_key * keys;
        let answer = scripted.unwrap_or_else(|| Answer::healthy(&request).after(slowly));
        if answer.does_it {
            for key in request.deleted() {
                state.objects.remove(&(bucket.clone(), key));
            }
        }
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
    let (through, target) = match target.strip_prefix("http://").and_then(|rest| rest.split_once('/')) {
        Some((host, path)) => (Some(host.to_owned()), format!("/{path}")),
        None => (None, target),
    };
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
    Ok(Some(Request { at: Instant::now(), method, target, through, head, body }))
}
