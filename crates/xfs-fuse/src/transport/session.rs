//! A connection to the kernel while it is served.
//!
//! Owns: the first exchange, the workers and how they end. Does **not** own: what requests mean
//! ([`Handler`]), and mounting.
//!
//! ```text
//!           start                 unmounted: ENODEV            join
//!  (none) ─────────► serving ─────────────────────► ended ───────────────► handler
//!                       │      halt: every gate is emptied      ▲
//!                       └───────────────────────────────────────┘
//! ```
//!
//! Each worker has a [`Line`] of its own, so that the kernel finds the request of an answer without
//! a lock that all share, and a gate: the lock under which it handles a request. Who empties all gates
//! knows that no request is being handled and none will be, though the workers may wait in the kernel for
//! ever: nothing but the end of the process calls them back from there.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use xfs_sync::{CachePadded, Mutex, Slot};
use zerocopy::IntoBytes;

use super::device::Device;
use super::greeting::greet;
use super::line::{Line, lines};
use super::pipe::{Pipes, REST};
use super::reply::{Reply, stale_inode};
use super::request::Request;
use super::ring::IdleRing;
use super::turnstile::Turnstile;
use super::wire::{InitFlags, Opcode};
use crate::{Checks, MountError, Service};

/// The most bytes that one request writes or reads: what the kernel allows by itself.
pub const MAX_WRITE_BYTES: u32 = 1 << 20;
pub(super) const PAGE_BYTES: u32 = 4096;

/// Who answers requests.
pub trait Handler: Send + Sync + 'static {
    /// What it wants the kernel to do, of what the kernel offers.
    fn wishes(&self) -> InitFlags;

    /// Who checks permissions.
    fn checks(&self) -> Checks {
        Checks::Kernel
    }

    /// Called before the first request. What the kernel shall not keep of attributes is told by `outdater`.
    fn outdate_by(&self, _: Outdater) {}

    /// Called by each worker in its own thread, before its first request.
    fn begin_worker(&self) {}

    /// Whether such a request waits for the device that the volume lies on, so that meanwhile another
    /// worker may wait for requests.
    fn waits(&self, _: Opcode) -> bool {
        false
    }

    /// The nodes of which the kernel may hold more than it has said.
    fn unsettled(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// What the caller gets. ENOSYS means that this is not served, and mostly that it will not be
    /// asked for again.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno>;
}

/// The handler of one worker, locked while it handles a request; `None` once that is over.
pub(super) type Gate<H> = CachePadded<Mutex<Option<Arc<H>>, Slot>>;

/// What workers and those who end a session tell.
enum Notice {
    WorkerEnded,
    /// A request could not be answered as it should, or a worker serves no more.
    Failed(Failure),
    /// A worker panics.
    Panicked,
    Halt,
    /// There are pipes to be given back when they rest.
    PipeOpened,
    /// What the kernel holds of the contents of a node is out of date.
    Stale(u64),
    /// What it holds of the attributes of one is.
    Outdated(u64),
}

/// Has the kernel forget attributes that it was told, from any thread and at any time. It does not wait: the
/// kernel may be about to drop that inode, for which it may have to be served.
#[derive(Clone)]
pub struct Outdater(Sender<Notice>);

impl Outdater {
    /// Has it forget those of a node.
    pub fn outdate(&self, node: u64) {
        // Nobody hears it when the session has ended.
        let _ = self.0.send(Notice::Outdated(node));
    }
}

/// How a worker has failed.
pub(super) struct Failure {
    error: io::Error,
    /// Whether it serves no more, so that somebody may wait for an answer for ever.
    has_ended: bool,
}

/// Where a worker tells the thread that waits for the end what that shall do.
pub(super) struct Reports(Sender<Notice>);

impl Reports {
    /// A request could not be answered as it should: has the mount end. The worker goes on meanwhile.
    pub(super) fn fail(&self, error: io::Error) {
        // Nobody hears it when the session has ended by itself.
        let _ = self.0.send(Notice::Failed(Failure { error, has_ended: false }));
    }

    /// The contents of a node, if one is given, have changed and the kernel may hold those before.
    pub(super) fn stale(&self, node: Option<u64>) {
        if let Some(node) = node {
            let _ = self.0.send(Notice::Stale(node));
        }
    }
}

/// A connection that is being served.
pub struct Session<H: Handler> {
    gates: Arc<[Gate<H>]>,
    workers: Vec<JoinHandle<()>>,
    notices: Receiver<Notice>,
    pipes: Arc<Pipes>,
    /// When pipes are given back next, if there are any.
    rests: Cell<Option<Instant>>,
    /// The first failure of a worker.
    failure: RefCell<Option<io::Error>>,
    /// Whether a worker has failed that serves no more.
    is_broken: Cell<bool>,
    /// What is done before the process ends with a panic.
    last_act: Box<dyn Fn() + Send>,
    halter: Halter,
    handler: Arc<H>,
    /// Where the kernel is told something that it has not asked for.
    notifier: Device,
}

/// Ends a session from another thread.
#[derive(Clone)]
pub struct Halter(Sender<Notice>);

impl Halter {
    /// Has [`Session::wait`] return [`Waited::Halted`].
    pub fn halt(&self) {
        // Nobody hears it when the session has ended by itself.
        let _ = self.0.send(Notice::Halt);
    }
}

/// Why [`Session::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The volume was unmounted: no request will come any more.
    Ended,
    /// Somebody asked for it to halt; requests still come.
    Halted,
    /// A worker has failed, and [`Session::failure`] says how.
    Failed,
    /// The time is over.
    TimedOut,
}

impl<H: Handler> Session<H> {
    /// Answers the kernel's first request and starts workers: as many as `service` says, or as the system gives
    /// if that is at least one, or with `rings` one for each, at least as many as the kernel has queues.
    pub(crate) fn start(
        device: Device,
        handler: H,
        service: Service,
        rings: Vec<IdleRing>,
        last_act: Box<dyn Fn() + Send>,
    ) -> Result<Self, MountError> {
        let mut wishes = handler.wishes();
        wishes.set(InitFlags::OVER_IO_URING, !rings.is_empty());
        greet(&device, wishes)?;
        let failed = |source| MountError::Failed { what: "its descriptor".to_owned(), source };
        let notifier = device.shared().map_err(failed)?;
        let (lines, needed) = lines(device, service.threads + service.spare, rings)?;
        let turnstile = Arc::new(Turnstile::new(service.threads.max(1)));
        let handler = Arc::new(handler);
        let gate = |_: &Line| CachePadded::new(Mutex::new(Some(Arc::clone(&handler))));
        let gates: Arc<[Gate<H>]> = lines.iter().map(gate).collect();
        let (sender, notices) = channel();
        handler.outdate_by(Outdater(sender.clone()));
        let opener = sender.clone();
        // Nobody hears it when the session has ended.
        let pipes = Arc::new(Pipes::new(move || drop(opener.send(Notice::PipeOpened))));
        let (begun, begins) = channel();
        let mut workers = Vec::new();
        let wanted = lines.len();
        for (index, line) in lines.into_iter().enumerate() {
            let (turnstile, pipes) = (Arc::clone(&turnstile), Arc::clone(&pipes));
            let worker = Worker { index, line, turnstile, pipes };
            match worker.spawn(&gates, &sender, &begun) {
                Ok(worker) => workers.push(worker),
                Err(source) if workers.len() < needed => {
                    return Err(MountError::Failed { what: "its threads".to_owned(), source });
                }
                Err(error) => {
                    tracing::warn!(%error, wanted, "{index} threads serve");
                    // Nobody is behind the other gates, and nobody shall wait for them.
                    for gate in gates.iter().skip(index) {
                        gate.lock().take();
                    }
                    break;
                }
            }
        }
        for outcome in begins.iter().take(workers.len()) {
            outcome.map_err(|source| MountError::Failed { what: "a queue".to_owned(), source })?;
        }
        Ok(Self {
            gates,
            workers,
            notices,
            pipes,
            rests: Cell::new(None),
            failure: RefCell::new(None),
            is_broken: Cell::new(false),
            last_act,
            halter: Halter(sender),
            handler,
            notifier,
        })
    }

    /// Who answers.
    #[must_use]
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// What ends this session from elsewhere.
    #[must_use]
    pub fn halter(&self) -> Halter {
        self.halter.clone()
    }

    /// Has the kernel write the pages that it holds of files, and returns when it has. Workers have to
    /// serve that meanwhile, so this is for another thread.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let mut settled = Ok(());
        for node in self.handler.unsettled() {
            // It writes a page before it drops it, and waits for those that are being written.
            let sent = self.notifier.send(stale_inode(node, 0).as_bytes());
            settled = settled.and(sent);
        }
        settled
    }

    /// Waits for the end, at most this long. Meanwhile it gives back pipes that rest.
    pub fn wait(&self, timeout: Duration) -> Waited {
        let end = Instant::now().checked_add(timeout);
        loop {
            if self.workers.iter().all(JoinHandle::is_finished) {
                for notice in self.notices.try_iter() {
                    let _ = self.note(notice);
                }
                return Waited::Ended;
            }
            let now = Instant::now();
            if self.rests.get().is_some_and(|due| due <= now) {
                self.rests.set(self.pipes.rest().then(|| now + REST));
            }
            let next = end.into_iter().chain(self.rests.get()).min();
            let step = next.map_or(Duration::MAX, |next| next.saturating_duration_since(now));
            match self.notices.recv_timeout(step) {
                Ok(notice) => {
                    if let Some(waited) = self.note(notice) {
                        return waited;
                    }
                }
                Err(RecvTimeoutError::Timeout) if end.is_none_or(|end| Instant::now() < end) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Waited::TimedOut;
                }
            }
        }
    }

    /// What somebody who waits is told of it, if anything.
    fn note(&self, notice: Notice) -> Option<Waited> {
        match notice {
            // The thread is not quite gone when it says so; its gate is free, though.
            Notice::WorkerEnded => self.has_ended().then_some(Waited::Ended),
            Notice::PipeOpened => {
                self.rests.set(self.rests.get().or_else(|| Some(Instant::now() + REST)));
                None
            }
            Notice::Failed(Failure { error, has_ended }) => {
                tracing::error!(%error, has_ended, "a worker has failed");
                self.failure.borrow_mut().get_or_insert(error);
                self.is_broken.set(self.is_broken.get() || has_ended);
                Some(Waited::Failed)
            }
            Notice::Stale(node) => {
                if let Err(error) = self.notifier.send(stale_inode(node, 0).as_bytes()) {
                    tracing::warn!(%error, node, "the kernel keeps contents that are out of date");
                }
                None
            }
            Notice::Outdated(node) => {
                if let Err(error) = self.notifier.send(stale_inode(node, -1).as_bytes()) {
                    tracing::warn!(%error, node, "the kernel keeps attributes that are out of date");
                }
                None
            }
            Notice::Panicked => {
                (self.last_act)();
                std::process::abort();
            }
            Notice::Halt => Some(Waited::Halted),
        }
    }

    /// How the first worker has failed, if one has.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Whether somebody may wait for an answer that nobody gives, until the connection ends.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    fn has_ended(&self) -> bool {
        self.gates.iter().all(|gate| gate.try_lock().is_some_and(|handler| handler.is_none()))
    }

    /// Returns the handler once no request is being handled, and lets none be handled any more.
    pub fn finish(self) -> Option<H> {
        for gate in self.gates.iter() {
            gate.lock().take();
        }
        for worker in self.workers {
            if worker.is_finished() {
                // A panic has ended the process.
                let _ = worker.join();
            }
        }
        Arc::into_inner(self.handler)
    }
}

/// Who serves a line.
struct Worker {
    index: usize,
    line: Line,
    turnstile: Arc<Turnstile>,
    pipes: Arc<Pipes>,
}

impl Worker {
    /// Starts it behind its gate. It says in `begun` whether it can serve.
    fn spawn<H: Handler>(
        self,
        gates: &Arc<[Gate<H>]>,
        sender: &Sender<Notice>,
        begun: &Sender<io::Result<()>>,
    ) -> io::Result<JoinHandle<()>> {
        let Self { index, mut line, turnstile, pipes } = self;
        let (gates, sender, begun) = (Arc::clone(gates), sender.clone(), begun.clone());
        std::thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
            let _bomb = EndWithPanic(sender.clone());
            let Some(gate) = gates.get(index) else { return };
            let began = line.begin(|| {
                if let Some(handler) = gate.lock().as_deref() {
                    handler.begin_worker();
                }
            });
            let can_serve = began.is_ok();
            // Nobody listens any more where another worker has failed to begin.
            let _ = begun.send(began);
            let reports = Reports(sender.clone());
            let served = match can_serve {
                true => line.serve(gate, &turnstile, pipes.of(index), &reports),
                false => Ok(()),
            };
            gate.lock().take();
            if let Err(error) = served {
                let _ = sender.send(Notice::Failed(Failure { error, has_ended: true }));
            }
            let _ = sender.send(Notice::WorkerEnded);
        })
    }
}

/// How long the first thread has for what it does before the process ends with a panic.
const LAST_ACT: Duration = Duration::from_secs(2);

/// Ends the process where a worker panics: whoever waits for its answer would wait for ever, and what
/// the volume holds in memory may not fit together. The next mount recovers.
struct EndWithPanic(Sender<Notice>);

impl Drop for EndWithPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The thread that waits may do what one in a sandbox may not. If it does something else it comes
            // too late.
            let _ = self.0.send(Notice::Panicked);
            std::thread::sleep(LAST_ACT);
            std::process::abort();
        }
    }
}
