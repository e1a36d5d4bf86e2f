//! The I/O thread: many requests in flight on one thread that knows nothing of PostgreSQL.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::domain::backend::Backend;
use crate::domain::batch::Request;
use crate::domain::document::Reading;
use crate::domain::object::Object;

use super::client::{Client, Sent};
use super::document::Document;
use super::fault::{Fault, FaultKind};
use super::list::Listed;

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

/// What the thread is told.
enum Order {
    Send(Job),
    Read(ReadJob),
    List(ListJob),
    ForgetCredentials,
}

/// A request that was answered, or failed.
#[derive(Debug)]
pub enum Done {
    Sent { id: u64, result: Result<Sent, Fault> },
    Read { id: u64, result: Result<Document, Fault> },
    Listed { id: u64, result: Result<Listed, Fault> },
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

    /// Asks for a document.
    pub fn read(&self, job: ReadJob) {
        let _ = self.orders.send(Order::Read(job));
    }

    /// Asks what lies below a prefix.
    pub fn list(&self, job: ListJob) {
        let _ = self.orders.send(Order::List(job));
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
    let report = std::rc::Rc::new(report);
    let tasks = tokio::task::LocalSet::new();
    let client = Client::new(settings).map(std::rc::Rc::new);
    tasks.block_on(&runtime, async move {
        while let Some(order) = incoming.recv().await {
            let report = std::rc::Rc::clone(&report);
            match (order, &client) {
                (Order::Send(job), Ok(client)) => {
                    let client = std::rc::Rc::clone(client);
                    tokio::task::spawn_local(async move { report(serve(&client, job).await) });
                }
                (Order::Read(job), Ok(client)) => {
                    let client = std::rc::Rc::clone(client);
                    tokio::task::spawn_local(async move { report(read(&client, job).await) });
                }
                (Order::List(job), Ok(client)) => {
                    let client = std::rc::Rc::clone(client);
                    tokio::task::spawn_local(async move { report(list(&client, job).await) });
                }
                (Order::List(ListJob { id, .. }), Err(message)) => {
                    report(Done::Listed { id, result: Err(Fault::refusal(FaultKind::Credentials, message.clone())) });
                }
                (Order::Send(Job { id, .. }), Err(message)) => {
                    report(Done::Sent { id, result: Err(Fault::refusal(FaultKind::Credentials, message.clone())) });
                }
                (Order::Read(ReadJob { id, .. }), Err(message)) => {
                    report(Done::Read { id, result: Err(Fault::refusal(FaultKind::Credentials, message.clone())) });
                }
                (Order::ForgetCredentials, Ok(client)) => client.forget_all_credentials().await,
                (Order::ForgetCredentials, Err(_)) => {}
            }
        }
    });
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

async fn forget_if_refused(client: &Client, backend: &Backend, fault: Option<&Fault>) {
    if fault.is_some_and(|fault| matches!(fault.kind, FaultKind::Auth | FaultKind::Credentials)) {
        client.forget_credentials(backend).await;
    }
}
