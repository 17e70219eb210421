//! A connection to the kernel while it is served.
//!
//! Owns: the handshake, the workers and how they end. Does **not** own: the meaning of requests
//! ([`Handler`]), and mounting.
//!
//! ```text
//!           start                 unmounted: ENODEV            join
//!  (none) ─────────► serving ─────────────────────► ended ───────────────► handler
//!                       │      halt: every slot is emptied      ▲
//!                       └───────────────────────────────────────┘
//! ```
//!
//! Each worker has a [`Channel`] of its own, so that the kernel finds the request of an answer
//! without a lock that all workers share. Each worker also has a handler slot, whose lock the
//! worker holds while it handles a request. After a thread has emptied every handler slot, no
//! request is being handled and none will be. The workers may still wait in the kernel for ever,
//! because only the end of the process wakes them.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
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

/// The largest read or write in one request, in bytes. The kernel allows no more without additional
/// privilege.
pub const MAX_WRITE_BYTES: u32 = 1 << 20;
pub(super) const PAGE_BYTES: u32 = 4096;

/// Answers the requests of a connection.
pub trait Handler: Send + Sync + 'static {
    /// Returns the features that the server wants. The kernel may not offer all of them.
    fn wishes(&self) -> InitFlags;

    /// Returns whether the kernel or the server checks permissions.
    fn checks(&self) -> Checks {
        Checks::Kernel
    }

    /// Called before the first request. The handler can keep the `Invalidator`, with which it can
    /// make the kernel drop cached attributes later.
    fn set_invalidator(&self, _: Invalidator) {}

    /// Called by each worker in its own thread, before its first request.
    fn begin_worker(&self) {}

    /// Returns whether a request with this opcode may wait for the volume's device. If so, another
    /// worker may take requests in the meantime.
    fn waits(&self, _: Opcode) -> bool {
        false
    }

    /// Returns the nodes for which the kernel may hold written data that it has not sent yet.
    fn unwritten_nodes(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Answers a request.
    ///
    /// # Errors
    ///
    /// The errno that the calling program gets. ENOSYS means that the server does not support the
    /// operation. For most operations the kernel then sends no more requests.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno>;
}

/// One worker's reference to the handler. The worker holds the lock while it handles a request. The
/// reference is `None` after the end of the session.
pub(super) type HandlerSlot<H> = CachePadded<Mutex<Option<Arc<H>>, Slot>>;

/// An event that a worker or another thread sends to the thread that waits in [`Session::wait`].
enum SessionEvent {
    WorkerEnded,
    /// A request got no correct answer, or a worker has ended with an error.
    Failed(Failure),
    /// A worker is panicking.
    Panicked,
    Halt,
    /// A pipe was opened, which must be closed after it has been idle for some time.
    PipeOpened,
    /// The kernel's cached contents of this node are out of date.
    StaleContents(u64),
    /// The kernel's cached attributes of this node are out of date.
    StaleAttributes(u64),
}

/// Makes the kernel drop cached attributes, from any thread and at any time. The call does not
/// wait. Another thread sends the notification, because the kernel may need an answer from the
/// server before it can take the notification.
#[derive(Clone)]
pub struct Invalidator(Sender<SessionEvent>);

impl Invalidator {
    /// Makes the kernel drop the cached attributes of a node.
    pub fn invalidate(&self, node: u64) {
        // The session may have ended, in which case the event is not needed.
        let _ = self.0.send(SessionEvent::StaleAttributes(node));
    }
}

/// The failure of a worker.
pub(super) struct Failure {
    error: io::Error,
    /// Whether the worker has ended. If so, the program that waits for the answer to the worker's
    /// last request may wait for ever.
    has_ended: bool,
}

/// Sends a worker's reports to the thread in [`Session::wait`].
pub(super) struct Reports(Sender<SessionEvent>);

impl Reports {
    /// Reports that a request got no correct answer. The session then ends the mount, while the
    /// worker continues.
    pub(super) fn fail(&self, error: io::Error) {
        // The session may have ended by itself, in which case the event is not needed.
        let _ = self.0.send(SessionEvent::Failed(Failure { error, has_ended: false }));
    }

    /// Reports that the contents of `node` have changed and that the kernel may have the old
    /// contents in its cache. Does nothing if `node` is `None`.
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
    /// The time at which idle pipes are closed next, if any pipe is open.
    next_idle_check: Cell<Option<Instant>>,
    /// The first failure of a worker.
    failure: RefCell<Option<io::Error>>,
    /// Whether a worker has ended with an error.
    is_broken: Cell<bool>,
    /// The function to call before a panic ends the process.
    before_abort: Box<dyn Fn() + Send>,
    halter: Halter,
    handler: Arc<H>,
    /// The descriptor through which notifications are sent.
    notifier: Device,
}

/// Halts a session from another thread.
#[derive(Clone)]
pub struct Halter(Sender<SessionEvent>);

impl Halter {
    /// Makes [`Session::wait`] return [`WaitOutcome::Halted`].
    pub fn halt(&self) {
        // The session may have ended by itself, in which case the event is not needed.
        let _ = self.0.send(SessionEvent::Halt);
    }
}

/// The reason why [`Session::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// The volume was unmounted: no more requests will come.
    Ended,
    /// A [`Halter`] has ended the wait, although the volume is still mounted.
    Halted,
    /// A worker has failed. [`Session::failure`] returns the error.
    Failed,
    /// The timeout has expired.
    TimedOut,
}

impl<H: Handler> Session<H> {
    /// Performs the handshake and starts the workers. Without rings, it starts as many workers as
    /// `service` requests, or fewer, but at least one, if the system permits no more threads. With
    /// `rings`, it starts one worker per ring, and at least one per queue of the kernel.
    pub(crate) fn start(
        device: Device,
        handler: H,
        service: Service,
        rings: Vec<IdleRing>,
        before_abort: Box<dyn Fn() + Send>,
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
        // The session may have ended, in which case the event is not needed.
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
                    tracing::warn!(%error, wanted, "the mount is served by {index} threads");
                    // No worker uses the remaining slots, so their handlers must not count.
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
            next_idle_check: Cell::new(None),
            failure: RefCell::new(None),
            is_broken: Cell::new(false),
            before_abort,
            halter: Halter(sender),
            handler,
            notifier,
        })
    }

    /// Returns the handler that answers requests.
    #[must_use]
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Returns a handle that halts this session from another thread.
    #[must_use]
    pub fn halter(&self) -> Halter {
        self.halter.clone()
    }

    /// Makes the kernel write its cached pages of files, and returns after that. Workers must serve
    /// these writes in the meantime, so no worker may call this function.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let mut settled = Ok(());
        for node in self.handler.unwritten_nodes() {
            // The kernel writes a dirty page before it drops it, and waits for pages that are being
            // written.
            let sent = self.notifier.send(stale_inode(node, 0).as_bytes());
            settled = settled.and(sent);
        }
        settled
    }

    /// Waits for the end of the session, at most `timeout`. Meanwhile closes idle pipes.
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
            if self.next_idle_check.get().is_some_and(|due| due <= now) {
                self.next_idle_check.set(self.pipes.rest().then(|| now + REST));
            }
            let next = end.into_iter().chain(self.next_idle_check.get()).min();
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

    /// Handles an event. Returns the result of `wait` if the event ends the wait, and otherwise
    /// `None`.
    fn note(&self, notice: SessionEvent) -> Option<WaitOutcome> {
        match notice {
            // The thread is still about to exit when it sends this event, but its slot is already
            // empty.
            SessionEvent::WorkerEnded => self.has_ended().then_some(WaitOutcome::Ended),
            SessionEvent::PipeOpened => {
                self.next_idle_check
                    .set(self.next_idle_check.get().or_else(|| Some(Instant::now() + REST)));
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
                    tracing::warn!(%error, node, "the kernel still caches stale contents");
                }
                None
            }
            SessionEvent::StaleAttributes(node) => {
                if let Err(error) = self.notifier.send(stale_inode(node, -1).as_bytes()) {
                    tracing::warn!(%error, node, "the kernel still caches stale attributes");
                }
                None
            }
            SessionEvent::Panicked => {
                (self.before_abort)();
                std::process::abort();
            }
            SessionEvent::Halt => Some(WaitOutcome::Halted),
        }
    }

    /// Returns the first failure of a worker. A later call returns `None` until another worker
    /// fails.
    pub fn failure(&self) -> Option<io::Error> {
        self.failure.take()
    }

    /// Returns whether a worker has ended with an error. The program that waits for the answer to
    /// the worker's last request may then wait until the connection ends.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    fn has_ended(&self) -> bool {
        self.slots.iter().all(|slot| slot.try_lock().is_some_and(|handler| handler.is_none()))
    }

    /// Waits until no request is being handled, prevents further requests, and returns the handler.
    /// Returns `None` if another reference to the handler still exists.
    pub fn finish(self) -> Option<H> {
        for slot in self.slots.iter() {
            slot.lock().take();
        }
        for worker in self.workers {
            if worker.is_finished() {
                let ended = worker.join();
                assert!(ended.is_ok() || thread::panicking(), "a worker of the mount has panicked");
            }
        }
        Arc::into_inner(self.handler)
    }
}

/// The thread that serves one channel.
struct Worker {
    index: usize,
    channel: Channel,
    worker_gate: Arc<WorkerGate>,
    pipes: Arc<Pipes>,
}

impl Worker {
    /// Starts the worker's thread, which sends on `begun` whether it can serve its channel.
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
            // Nothing receives this if another worker has failed to begin.
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

/// How long a panicking worker waits for the thread in `Session::wait` to run `before_abort`.
/// After that time the worker ends the process.
const BEFORE_ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends the process when a worker panics. The volume's state in memory may then be inconsistent,
/// and the program whose request the worker handled would wait for ever. The next mount recovers
/// the volume.
struct EndWithPanic(Sender<SessionEvent>);

impl Drop for EndWithPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The waiting thread may make calls that a worker's sandbox forbids. If that thread is
            // busy, the process ends without `before_abort`.
            let _ = self.0.send(SessionEvent::Panicked);
            std::thread::sleep(BEFORE_ABORT_TIMEOUT);
            std::process::abort();
        }
    }
}
