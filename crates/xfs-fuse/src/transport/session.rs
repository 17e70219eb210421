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
//! Each worker has a descriptor of its own, so that the kernel finds the request of an answer without
//! a lock that all share, and a gate: the lock under which it handles a request. Who empties all gates
//! knows that no request is being handled and none will be, though the workers may wait in `read` for
//! ever: nothing but the end of the process calls them back from there.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use xfs_sync::{CachePadded, Mutex, Slot};
use zerocopy::IntoBytes;

use super::device::Device;
use super::pages::Pages;
use super::reply::{Reply, stale_inode};
use super::request::Request;
use super::wire::{
    InHeader, InitFlags, InitIn, InitOut, MAJOR, MINOR, OLDEST_MINOR, Opcode, WriteIn,
};
use crate::MountError;

/// The most bytes that one request writes or reads: what the kernel allows by itself.
pub const MAX_WRITE_BYTES: u32 = 1 << 20;
/// Room for the header and the arguments in front of what is written.
const ARGUMENT_BYTES: usize = 4096;
/// Requests that the kernel sends ahead of anybody waiting for them: what is read ahead, mostly.
const MAX_BACKGROUND: u16 = 64;
pub(super) const PAGE_BYTES: u32 = 4096;

/// Who answers requests.
pub trait Handler: Send + Sync + 'static {
    /// What it wants the kernel to do, of what the kernel offers.
    fn wishes(&self) -> InitFlags;

    /// Called by each worker in its own thread, before its first request.
    fn begin_worker(&self) {}

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
    fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Result<(), Errno>;
}

/// The handler of one worker, locked while it handles a request; `None` once that is over.
type Gate<H> = CachePadded<Mutex<Option<Arc<H>>, Slot>>;

/// What workers and those who end a session tell.
enum Notice {
    WorkerEnded,
    Halt,
}

/// A connection that is being served.
pub struct Session<H: Handler> {
    gates: Arc<[Gate<H>]>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    notices: Receiver<Notice>,
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
    /// The time is over.
    TimedOut,
}

impl<H: Handler> Session<H> {
    /// Answers the kernel's first request and starts `threads` workers, or as many as the system gives
    /// if that is at least one.
    pub(crate) fn start(device: Device, handler: H, threads: usize) -> Result<Self, MountError> {
        greet(&device, handler.wishes())?;
        let failed = |source| MountError::Failed { what: "its descriptor".to_owned(), source };
        let notifier = device.shared().map_err(failed)?;
        let mut devices = vec![device];
        while let Some(first) = devices.first().filter(|_| devices.len() < threads) {
            // Who was given the connection may not open the device himself.
            let next = first.another().or_else(|_| first.shared().map_err(failed))?;
            devices.push(next);
        }
        let handler = Arc::new(handler);
        let gate = |_: &Device| CachePadded::new(Mutex::new(Some(Arc::clone(&handler))));
        let gates: Arc<[Gate<H>]> = devices.iter().map(gate).collect();
        let (sender, notices) = channel();
        let spawn = |(index, device): (usize, Device)| {
            let (gates, sender) = (Arc::clone(&gates), sender.clone());
            std::thread::Builder::new().name(format!("fuse-{index}")).spawn(move || {
                let _bomb = EndWithPanic;
                let served = gates.get(index).map_or(Ok(()), |gate| {
                    if let Some(handler) = gate.lock().as_deref() {
                        handler.begin_worker();
                    }
                    serve(&device, gate)
                });
                let _ = sender.send(Notice::WorkerEnded);
                served
            })
        };
        let mut workers = Vec::new();
        for (index, device) in devices.into_iter().enumerate() {
            match spawn((index, device)) {
                Ok(worker) => workers.push(worker),
                Err(source) if workers.is_empty() => {
                    return Err(MountError::Failed { what: "its threads".to_owned(), source });
                }
                Err(error) => {
                    tracing::warn!(%error, wanted = threads, "{index} threads serve");
                    // Nobody is behind the other gates, and nobody shall wait for them.
                    for gate in gates.iter().skip(index) {
                        gate.lock().take();
                    }
                    break;
                }
            }
        }
        Ok(Self { gates, workers, notices, halter: Halter(sender), handler, notifier })
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

    /// Waits for the end, at most this long.
    pub fn wait(&self, timeout: Duration) -> Waited {
        loop {
            if self.workers.iter().all(JoinHandle::is_finished) {
                return Waited::Ended;
            }
            match self.notices.recv_timeout(timeout) {
                // The thread is not quite gone when it says so; its gate is free, though.
                Ok(Notice::WorkerEnded) if self.has_ended() => return Waited::Ended,
                Ok(Notice::WorkerEnded) => {}
                Ok(Notice::Halt) => return Waited::Halted,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Waited::TimedOut;
                }
            }
        }
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
            if !worker.is_finished() {
                continue;
            }
            if let Ok(Err(error)) = worker.join() {
                tracing::error!(%error, "a worker has ended early");
            }
        }
        Arc::into_inner(self.handler)
    }
}

/// Ends the process where a worker panics: whoever waits for its answer would wait for ever, and what
/// the volume holds in memory may not fit together. The next mount recovers.
struct EndWithPanic;

impl Drop for EndWithPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Room for the largest request. What is written to a file lies in it from the start of a page on.
fn request_pages() -> Pages {
    let before = size_of::<InHeader>() + size_of::<WriteIn>();
    Pages::new(MAX_WRITE_BYTES as usize + ARGUMENT_BYTES, before)
}

/// Serves requests until there are none any more.
fn serve<H: Handler>(device: &Device, gate: &Gate<H>) -> io::Result<()> {
    let mut buffer = request_pages();
    let mut reply = Reply::default();
    let served = loop {
        let length = match device.receive(buffer.bytes_mut()) {
            Ok(Some(length)) => length,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let Some(request) = buffer.bytes().get(..length).and_then(Request::decode) else {
            break Err(Errno::PROTO.into());
        };
        let handler = gate.lock();
        let Some(handler) = handler.as_deref() else { return Ok(()) };
        let opcode = request.opcode();
        if opcode == Some(Opcode::Destroy) {
            break Ok(());
        }
        reply.clear();
        let outcome = handler.handle(&request, &mut reply);
        let is_answered =
            !matches!(opcode, Some(Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt));
        if !is_answered {
            continue;
        }
        let told = reply.notice().map_or(Ok(()), |notice| device.send(notice.as_bytes()));
        let sent = told.and_then(|()| device.send(reply.finish(request.unique(), outcome)));
        if let Err(error) = sent {
            break Err(error);
        }
    };
    gate.lock().take();
    served
}

/// Answers the kernel's first request.
fn greet(device: &Device, wishes: InitFlags) -> Result<(), MountError> {
    let failed = |source| MountError::Failed { what: "the first exchange".to_owned(), source };
    let mut buffer = request_pages();
    loop {
        let length = device.receive(buffer.bytes_mut()).map_err(failed)?;
        let length = length.ok_or_else(|| failed(Errno::NODEV.into()))?;
        let request = buffer.bytes().get(..length).and_then(Request::decode);
        let request = request.ok_or_else(|| failed(Errno::PROTO.into()))?;
        let (init, _) = request.argument::<InitIn>().map_err(|errno| failed(errno.into()))?;
        let mut reply = Reply::default();
        reply.clear();
        if init.major > MAJOR {
            // It asks again, in the version that we name.
            reply.add_bytes([MAJOR, MINOR].as_bytes());
            device.send(reply.finish(request.unique(), Ok(()))).map_err(failed)?;
            continue;
        }
        if request.opcode() != Some(Opcode::Init) || init.major < MAJOR || init.minor < OLDEST_MINOR
        {
            let refusal = reply.finish(request.unique(), Err(Errno::PROTO));
            device.send(refusal).map_err(failed)?;
            return Err(MountError::OldKernel { major: init.major, minor: init.minor });
        }
        let offered = InitFlags::from_bits_retain(
            u64::from(init.flags) | u64::from(init.flags2) << u32::BITS,
        );
        let agreed = (offered & (wishes | InitFlags::INIT_EXT)).bits();
        reply.add(&InitOut {
            major: MAJOR,
            minor: MINOR.min(init.minor),
            max_readahead: init.max_readahead,
            flags: agreed as u32,
            flags2: (agreed >> u32::BITS) as u32,
            max_background: MAX_BACKGROUND,
            congestion_threshold: MAX_BACKGROUND / 4 * 3,
            max_write: MAX_WRITE_BYTES,
            time_granularity_ns: 1,
            max_pages: (MAX_WRITE_BYTES / PAGE_BYTES) as u16,
            ..InitOut::default()
        });
        return device.send(reply.finish(request.unique(), Ok(()))).map_err(failed);
    }
}

#[cfg(test)]
mod tests;
