//! A connection to the kernel while it is served.
//!
//! Owns: the first exchange, the workers and how they end. Does **not** own: what requests mean
//! ([`Handler`]), and mounting.
//!
//! ```text
//!           start                 unmounted: ENODEV            join
//!  (none) ─────────► serving ─────────────────────► ended ───────────────► handler
//!                       │      halt: every slot is emptied      ▲
//!                       └───────────────────────────────────────┘
//! ```
//!
//! Each worker has a [`Channel`] of its own, so that the kernel finds the request of an answer without
//! a lock that all share, and a slot: the lock under which it handles a request. Who empties all slots
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

use super::channel::{Channel, channels};
use super::device::Device;
use super::handshake::handshake;
use super::pipe::{Pipes, REST};
use super::reply::{Reply, stale_inode};
use super::request::Request;
use super::ring::IdleRing;
use super::wire::{InitFlags, Opcode};
use super::worker_gate::WorkerGate;
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

    /// Called before the first request. What the kernel shall not keep of attributes is told by `invalidator`.
    fn set_invalidator(&self, _: Invalidator) {}

    /// Called by each worker in its own thread, before its first request.
    fn begin_worker(&self) {}

    /// Whether such a request waits for the device that the volume lies on, so that meanwhile another
    /// worker may wait for requests.
    fn waits(&self, _: Opcode) -> bool {
        false
    }

    /// The nodes of which the kernel may hold more than it has said.
    fn unwritten_nodes(&self) -> Vec<u64> {
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
pub(super) type HandlerSlot<H> = CachePadded<Mutex<Option<Arc<H>>, Slot>>;

/// What workers and those who end a session tell.
enum SessionEvent {
    WorkerEnded,
    /// A request could not be answered as it should, or a worker serves no more.
    Failed(Failure),
    /// A worker panics.
    Panicked,
    Halt,
    /// There are pipes to be given back when they rest.
    PipeOpened,
    /// What the kernel holds of the contents of a node is out of date.
    StaleContents(u64),
    /// What it holds of the attributes of one is.
    StaleAttributes(u64),
}

/// Has the kernel forget attributes that it was told, from any thread and at any time. It does not wait: the
/// kernel may be about to drop that inode, for which it may have to be served.
#[derive(Clone)]
pub struct Invalidator(Sender<SessionEvent>);

impl Invalidator {
    /// Has it forget those of a node.
    pub fn invalidate(&self, node: u64) {
        // Nobody hears it when the session has ended.
        let _ = self.0.send(SessionEvent::StaleAttributes(node));
    }
}

/// How a worker has failed.
pub(super) struct Failure {
    error: io::Error,
    /// Whether it serves no more, so that somebody may wait for an answer for ever.
    has_ended: bool,
}

/// Where a worker tells the thread that waits for the end what that shall do.
pub(super) struct Reports(Sender<SessionEvent>);

impl Reports {
    /// A request could not be answered as it should: has the mount end. The worker goes on meanwhile.
    pub(super) fn fail(&self, error: io::Error) {
        // Nobody hears it when the session has ended by itself.
        let _ = self.0.send(SessionEvent::Failed(Failure { error, has_ended: false }));
    }

    /// The contents of a node, if one is given, have changed and the kernel may hold those before.
    pub(super) fn stale(&self, node: Option<u64>) {
        if let Some(node) = node {
            let _ = self.0.send(SessionEvent::StaleContents(node));
        }
    }
}

/// A connection that is being served.
pub struct Session<H: Handler> {
    slots: Arc<[HandlerSlot<H>]>,
    workers: Vec<JoinHandle<()>>,
    notices: Receiver<SessionEvent>,
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
pub struct Halter(Sender<SessionEvent>);

impl Halter {
    /// Has [`Session::wait`] return [`WaitOutcome::Halted`].
    pub fn halt(&self) {
        // Nobody hears it when the session has ended by itself.
        let _ = self.0.send(SessionEvent::Halt);
    }
}

/// Why [`Session::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
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
        handshake(&device, wishes)?;
        let failed = |source| MountError::Failed { what: "its descriptor".to_owned(), source };
        let notifier = device.shared().map_err(failed)?;
        let (channels, needed) = channels(device, service.threads + service.spare, rings)?;
        let worker_gate = Arc::new(WorkerGate::new(service.threads.max(1)));
        let handler = Arc::new(handler);
        let slot = |_: &Channel| CachePadded::new(Mutex::new(Some(Arc::clone(&handler))));
        let slots: Arc<[HandlerSlot<H>]> = channels.iter().map(slot).collect();
        let (sender, notices) = channel();
        handler.set_invalidator(Invalidator(sender.clone()));
        let opener = sender.clone();
        // Nobody hears it when the session has ended.
        let pipes = Arc::new(Pipes::new(move || drop(opener.send(SessionEvent::PipeOpened))));
        let (begun, begins) = channel();
        let mut workers = Vec::new();
        let wanted = channels.len();
        for (index, channel) in channels.into_iter().enumerate() {
            let (worker_gate, pipes) = (Arc::clone(&worker_gate), Arc::clone(&pipes));
            let worker = Worker { index, channel, worker_gate, pipes };
            match worker.spawn(&slots, &sender, &begun) {
                Ok(worker) => workers.push(worker),
                Err(source) if workers.len() < needed => {
                    return Err(MountError::Failed { what: "its threads".to_owned(), source });
                }
                Err(error) => {
                    tracing::warn!(%error, wanted, "{index} threads serve");
                    // Nobody is behind the other slots, and nobody shall wait for them.
                    for slot in slots.iter().skip(index) {
                        slot.lock().take();
                    }
                    break;
                }
            }
        }
        for outcome in begins.iter().take(workers.len()) {
            outcome.map_err(|source| MountError::Failed { what: "a queue".to_owned(), source })?;
        }
        Ok(Self {
            slots,
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
        for node in self.handler.unwritten_nodes() {
            // It writes a page before it drops it, and waits for those that are being written.
            let sent = self.notifier.send(stale_inode(node, 0).as_bytes());
            settled = settled.and(sent);
        }
        settled
    }

    /// Waits for the end, at most this long. Meanwhile it gives back pipes that rest.
    pub fn wait(&self, timeout: Duration) -> WaitOutcome {
        let end = Instant::now().checked_add(timeout);
        loop {
            if self.workers.iter().all(JoinHandle::is_finished) {
                for notice in self.notices.try_iter() {
                    let _ = self.note(notice);
                }
                return WaitOutcome::Ended;
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
                    return WaitOutcome::TimedOut;
                }
            }
        }
    }

    /// What somebody who waits is told of it, if anything.
    fn note(&self, notice: SessionEvent) -> Option<WaitOutcome> {
        match notice {
            // The thread is not quite gone when it says so; its slot is free, though.
            SessionEvent::WorkerEnded => self.has_ended().then_some(WaitOutcome::Ended),
            SessionEvent::PipeOpened => {
                self.rests.set(self.rests.get().or_else(|| Some(Instant::now() + REST)));
                None
            }
            SessionEvent::Failed(Failure { error, has_ended }) => {
                tracing::error!(%error, has_ended, "a worker has failed");
                self.failure.borrow_mut().get_or_insert(error);
                self.is_broken.set(self.is_broken.get() || has_ended);
                Some(WaitOutcome::Failed)
            }
            SessionEvent::StaleContents(node) => {
                if let Err(error) = self.notifier.send(stale_inode(node, 0).as_bytes()) {
                    tracing::warn!(%error, node, "the kernel keeps contents that are out of date");
                }
                None
            }
            SessionEvent::StaleAttributes(node) => {
                if let Err(error) = self.notifier.send(stale_inode(node, -1).as_bytes()) {
                    tracing::warn!(%error, node, "the kernel keeps attributes that are out of date");
                }
                None
            }
            SessionEvent::Panicked => {
                (self.last_act)();
                std::process::abort();
            }
            SessionEvent::Halt => Some(WaitOutcome::Halted),
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
        self.slots.iter().all(|slot| slot.try_lock().is_some_and(|handler| handler.is_none()))
    }

    /// Returns the handler once no request is being handled, and lets none be handled any more.
    pub fn finish(self) -> Option<H> {
        for slot in self.slots.iter() {
            slot.lock().take();
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
    channel: Channel,
    worker_gate: Arc<WorkerGate>,
    pipes: Arc<Pipes>,
}

impl Worker {
    /// Starts it behind its slot. It says in `begun` whether it can serve.
    fn spawn<H: Handler>(
        self,
        slots: &Arc<[HandlerSlot<H>]>,
        sender: &Sender<SessionEvent>,
        begun: &Sender<io::Result<()>>,
    ) -> io::Result<JoinHandle<()>> {
        let Self { index, mut channel, worker_gate, pipes } = self;
        let (slots, sender, begun) = (Arc::clone(slots), sender.clone(), begun.clone());
        std::thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
            let _bomb = EndWithPanic(sender.clone());
            let Some(slot) = slots.get(index) else { return };
            let began = channel.begin(|| {
                if let Some(handler) = slot.lock().as_deref() {
                    handler.begin_worker();
                }
            });
            let can_serve = began.is_ok();
            // Nobody listens any more where another worker has failed to begin.
            let _ = begun.send(began);
            let reports = Reports(sender.clone());
            let served = match can_serve {
                true => channel.serve(slot, &worker_gate, pipes.of(index), &reports),
                false => Ok(()),
            };
            slot.lock().take();
            if let Err(error) = served {
                let _ = sender.send(SessionEvent::Failed(Failure { error, has_ended: true }));
            }
            let _ = sender.send(SessionEvent::WorkerEnded);
        })
    }
}

/// How long the first thread has for what it does before the process ends with a panic.
const LAST_ACT: Duration = Duration::from_secs(2);

/// Ends the process where a worker panics: whoever waits for its answer would wait for ever, and what
/// the volume holds in memory may not fit together. The next mount recovers.
struct EndWithPanic(Sender<SessionEvent>);

impl Drop for EndWithPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The thread that waits may do what one in a sandbox may not. If it does something else it comes
            // too late.
            let _ = self.0.send(SessionEvent::Panicked);
            std::thread::sleep(LAST_ACT);
            std::process::abort();
        }
    }
}
