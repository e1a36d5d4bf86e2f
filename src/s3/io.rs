//! The I/O thread: many requests in flight on one thread that knows nothing of PostgreSQL.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_local;

use crate::domain::backend::{Backend, BackendId};
use crate::domain::batch::Request;
use crate::domain::document::Reading;
use crate::domain::object::Object;
use crate::domain::probe::Found;
use crate::domain::purge::Purge;

use super::client::{Client, Sent};
use super::document::Document;
use super::fault::{Fault, FaultKind};
use super::list::Listed;
use super::purge::Untold;
use super::turns::Turns;

/// Settings of the thread; other ones mean another thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
    pub credentials_file: Option<PathBuf>,
    pub config_file: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub client_certificate_file: Option<PathBuf>,
    pub proxy: Option<String>,
}

/// A request to send.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    /// The request leaves before this moment, or not at all: what was checked before it may not hold any more.
    pub until: Instant,
    pub backend: Arc<Backend>,
    pub request: Request,
    /// Its turn comes before this moment, or too late: it may have questions of its own to ask.
    pub begins_before: Instant,
    /// How many requests to the backend may be under way at once.
    pub slots: usize,
    /// When a single object was captured, in microseconds of the epoch: the last time, if there are several.
    pub captured_us: i64,
}

/// A document to read.
#[derive(Debug)]
pub struct ReadJob {
    pub id: u64,
    pub backend: Arc<Backend>,
    pub object: Object,
    /// Of the version that was read before.
    pub etag: Option<String>,
    pub reading: Reading,
    /// The most bytes that it may have.
    pub limit: usize,
}

/// A prefix to list.
#[derive(Debug)]
pub struct ListJob {
    pub id: u64,
    pub backend: Arc<Backend>,
    /// Its key is the prefix.
    pub prefix: Object,
    /// More objects than this are not wanted.
    pub most: usize,
}

/// A store to ask what it can do.
#[derive(Debug)]
pub struct ProbeJob {
    pub id: u64,
    pub backend: Arc<Backend>,
    /// Below which it is asked: the right to delete may be for that part of the bucket only.
    pub prefix: String,
}

/// URLs that a service is told of.
#[derive(Debug)]
pub struct PurgeJob {
    pub id: u64,
    pub purge: Arc<Purge>,
    pub urls: Vec<String>,
}

/// What the thread is told.
enum Order {
    Send(Job),
    Read(ReadJob),
    List(ListJob),
    Purge(PurgeJob),
    Probe(ProbeJob),
    Recall(Option<BackendId>),
    ForgetCredentials,
}

/// A request that was answered, or failed.
#[derive(Debug)]
pub enum Done {
    Sent {
        id: u64,
        result: Result<Sent, Fault>,
    },
    Read {
        id: u64,
        result: Result<Document, Fault>,
    },
    Listed {
        id: u64,
        result: Result<Listed, Fault>,
    },
    Purged {
        id: u64,
        result: Result<(), Untold>,
    },
    Probed {
        id: u64,
        result: Result<Found, Fault>,
    },
    /// A store refused what was signed by another time than its own.
    Timed {
        backend: BackendId,
        /// By how many seconds its clock is ahead of ours; what is sent from now on is signed by it.
        ahead_s: i64,
    },
    /// It was taken back before it was sent, or its turn came too late.
    Recalled {
        id: u64,
        is_late: bool,
    },
}

/// The thread has ended by itself, which it does only by a panic.
#[derive(Debug)]
pub struct IoStopped;

/// A running I/O thread.
pub struct Io {
    orders: UnboundedSender<Order>,
    done: Receiver<Done>,
    thread: JoinHandle<()>,
}

/// Credentials that are not older are not looked up again for want of a right.
const DOUBTED_AFTER: Duration = Duration::from_secs(60);

/// How long `stop` waits for the thread.
const PATIENCE: Duration = Duration::from_secs(1);

impl Io {
    /// Starts the thread, which inherits the caller's signal mask. `wake` is called on it whenever something is done.
    pub fn start(settings: Settings, wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (orders, incoming) = unbounded_channel();
        let (outgoing, done) = mpsc::channel();
        let report = move |result: Done| {
            // Nobody listens any more when the receiver is gone, and then nothing is left to do.
            let _ = outgoing.send(result);
            wake();
        };
        let name = "storage_reaper io".to_owned();
        let thread = std::thread::Builder::new().name(name).spawn(move || run(settings, incoming, report))?;
        Ok(Self { orders, done, thread })
    }

    /// Hands a request over.
    pub fn submit(&self, job: Job) {
        // A stopped thread shows in `finished`.
        let _ = self.orders.send(Order::Send(job));
    }

    /// Takes back what waits for its turn at a backend, or at any.
    pub fn recall(&self, backend: Option<BackendId>) {
        let _ = self.orders.send(Order::Recall(backend));
    }

    /// Asks for a document.
    pub fn read(&self, job: ReadJob) {
        let _ = self.orders.send(Order::Read(job));
    }

    /// Asks what lies below a prefix.
    pub fn list(&self, job: ListJob) {
        let _ = self.orders.send(Order::List(job));
    }

    /// Tells a service of URLs.
    pub fn purge(&self, job: PurgeJob) {
        let _ = self.orders.send(Order::Purge(job));
    }

    /// Asks a store what it can do.
    pub fn probe(&self, job: ProbeJob) {
        let _ = self.orders.send(Order::Probe(job));
    }

    /// Credentials are looked up afresh: the files that hold them may have changed.
    pub fn forget_credentials(&self) {
        let _ = self.orders.send(Order::ForgetCredentials);
    }

    /// Everything that is done, without waiting.
    pub fn finished(&self) -> Result<Vec<Done>, IoStopped> {
        let mut finished = Vec::new();
        loop {
            match self.done.try_recv() {
                Ok(done) => finished.push(done),
                Err(TryRecvError::Empty) => return Ok(finished),
                Err(TryRecvError::Disconnected) => return Err(IoStopped),
            }
        }
    }

    /// Drops what is in flight and ends the thread.
    pub fn stop(self) {
        let Self { orders, done, thread } = self;
        drop((orders, done));
        let deadline = Instant::now() + PATIENCE;
        while !thread.is_finished() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

fn run(settings: Settings, mut incoming: UnboundedReceiver<Order>, report: impl Fn(Done) + 'static) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(_) => return,
    };
    let report: Report = Rc::new(report);
    let tasks = tokio::task::LocalSet::new();
    let tell = Rc::clone(&report);
    let client = Client::new(settings, move |backend, ahead_s| tell(Done::Timed { backend, ahead_s })).map(Rc::new);
    tasks.block_on(&runtime, async move {
        let turns = Rc::default();
        while let Some(order) = incoming.recv().await {
            match &client {
                Ok(client) => carry_out(client, &turns, order, &report).await,
                Err(message) => refuse(order, message, &*report),
            }
        }
    });
}

/// Called on the thread with everything that is done.
type Report = Rc<dyn Fn(Done)>;

/// Starts what is ordered; its end is reported.
async fn carry_out(client: &Rc<Client>, turns: &Rc<RefCell<Turns>>, order: Order, report: &Report) {
    let (own, report) = (Rc::clone(client), Rc::clone(report));
    match order {
        Order::Send(job) => {
            let next = turns.borrow_mut().begin(job);
            next.into_iter().for_each(|job| start(&own, turns, job, &report));
        }
        Order::Recall(backend) => {
            turns
                .borrow_mut()
                .recall(backend)
                .into_iter()
                .for_each(|job| report(Done::Recalled { id: job.id, is_late: false }));
        }
        Order::Read(job) => drop(spawn_local(async move { report(read(&own, job).await) })),
        Order::List(job) => drop(spawn_local(async move { report(list(&own, job).await) })),
        Order::Purge(job) => {
            drop(spawn_local(async move { report(Done::Purged { id: job.id, result: own.purge(&job).await }) }));
        }
        Order::Probe(job) => drop(spawn_local(async move { report(probe(&own, job).await) })),
        // What is sent next must not find the old ones.
        Order::ForgetCredentials => client.forget_all_credentials().await,
    }
}

/// Sends a request whose turn it is, and then those whose turn comes by that.
fn start(client: &Rc<Client>, turns: &Rc<RefCell<Turns>>, job: Job, report: &Report) {
    let (client, turns, report) = (Rc::clone(client), Rc::clone(turns), Rc::clone(report));
    spawn_local(async move {
        let backend = job.backend.id;
        let is_late = Instant::now() > job.begins_before;
        let done = if is_late { Done::Recalled { id: job.id, is_late } } else { serve(&client, job).await };
        let next = turns.borrow_mut().end(backend);
        next.into_iter().for_each(|job| start(&client, &turns, job, &report));
        report(done);
    });
}

/// Without a client nothing can be done.
fn refuse(order: Order, message: &str, report: &dyn Fn(Done)) {
    let fault = || Fault::refusal(FaultKind::Credentials, message.to_owned());
    match order {
        Order::Send(Job { id, .. }) => report(Done::Sent { id, result: Err(fault()) }),
        Order::Read(ReadJob { id, .. }) => report(Done::Read { id, result: Err(fault()) }),
        Order::List(ListJob { id, .. }) => report(Done::Listed { id, result: Err(fault()) }),
        Order::Purge(PurgeJob { id, .. }) => report(Done::Purged { id, result: Err(Untold::of(message)) }),
        Order::Probe(ProbeJob { id, .. }) => report(Done::Probed { id, result: Err(fault()) }),
        Order::Recall(_) | Order::ForgetCredentials => {}
    }
}

async fn serve(client: &Client, job: Job) -> Done {
    let result = client.send(&job).await;
    forget_if_refused(client, &job.backend, result.as_ref().err()).await;
    Done::Sent { id: job.id, result }
}

async fn read(client: &Client, job: ReadJob) -> Done {
    let result = client.read(&job).await;
    forget_if_refused(client, &job.backend, result.as_ref().err()).await;
    Done::Read { id: job.id, result }
}

async fn list(client: &Client, job: ListJob) -> Done {
    let result = client.list(&job).await;
    forget_if_refused(client, &job.backend, result.as_ref().err()).await;
    Done::Listed { id: job.id, result }
}

async fn probe(client: &Client, job: ProbeJob) -> Done {
    let result = client.explore(&job).await;
    forget_if_refused(client, &job.backend, result.as_ref().err()).await;
    Done::Probed { id: job.id, result }
}

async fn forget_if_refused(client: &Client, backend: &Backend, fault: Option<&Fault>) {
    match fault.map(|fault| fault.kind) {
        Some(FaultKind::Auth | FaultKind::Credentials) => client.forget_credentials(backend, Duration::ZERO).await,
        // Some stores say so of keys that they do not know any more. Of a right that is missing, too, and then again and again.
        Some(FaultKind::Denied) => client.forget_credentials(backend, DOUBTED_AFTER).await,
        _ => {}
    }
}
