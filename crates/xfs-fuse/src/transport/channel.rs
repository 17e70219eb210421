//! The channel on which one worker receives requests and sends answers.
//!
//! Owns: the number of channels, and the loop of a worker on each kind of channel. Does **not**
//! own: threads, and the meaning of requests.

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::device::Device;
use super::pages::Pages;
use super::pipe::WorkerPipes;
use super::reply::Reply;
use super::request::Request;
use super::ring::{IdleRing, Ring, queues};
use super::session::{Handler, HandlerSlot, MAX_WRITE_BYTES, Reports};
use super::wire::{InHeader, Opcode, OutHeader, RingHeader, StaleInode, WriteIn};
use super::worker_gate::WorkerGate;
use crate::MountError;

/// Number of bytes in a buffer before the data of a WRITE, for the header and the arguments.
const ARGUMENT_BYTES: usize = 4096;

/// The channel from which a worker receives its requests.
pub(super) enum Channel {
    Device(Device),
    Ring(Box<Ring>),
}

/// Opens one ring per thread, and at least one per queue of the kernel.
///
/// # Errors
///
/// [`MountError::Rings`] if a ring cannot be opened.
pub(crate) fn rings(threads: usize) -> Result<Vec<IdleRing>, MountError> {
    let failed = |source| MountError::Rings { source };
    let queues = queues().map_err(failed)?;
    (0..threads.max(queues)).map(|_| IdleRing::open().map_err(failed)).collect()
}

/// Returns the channels of a connection. Also returns how many of them, counted from the first,
/// must work: the mount fails if one of these has no worker.
pub(super) fn channels(
    device: Device,
    threads: usize,
    rings: Vec<IdleRing>,
) -> Result<(Vec<Channel>, usize), MountError> {
    let failed = |source| MountError::Failed { what: "its descriptor".to_owned(), source };
    if rings.is_empty() {
        let mut devices = vec![device];
        while let Some(first) = devices.first().filter(|_| devices.len() < threads) {
            // A server that inherited the connection may lack the right to open the device.
            let next = first.another().or_else(|_| first.shared().map_err(failed))?;
            devices.push(next);
        }
        return Ok((devices.into_iter().map(Channel::Device).collect(), 1));
    }
    let queues = queues().map_err(failed)?;
    let mut channels = Vec::new();
    for (index, ring) in rings.into_iter().enumerate() {
        let queue = u16::try_from(index % queues).map_err(|_| failed(Errno::INVAL.into()))?;
        let ring = ring.connect(device.shared().map_err(failed)?, queue);
        channels.push(Channel::Ring(Box::new(ring)));
    }
    // The device serves the requests that do not come through a ring.
    channels.insert(0, Channel::Device(device));
    Ok((channels, queues + 1))
}

impl Channel {
    /// Prepares the channel. Must be called in the worker's thread, which enters its sandbox when
    /// this function calls `enter`.
    pub(super) fn begin(&mut self, enter: impl FnOnce()) -> io::Result<()> {
        match self {
            Self::Device(_) => {
                enter();
                Ok(())
            }
            Self::Ring(ring) => {
                // The sandbox forbids this call, so it comes first.
                ring.enable()?;
                enter();
                ring.begin()
            }
        }
    }

    /// Serves requests until the connection ends or the session has emptied the worker's handler
    /// slot.
    pub(super) fn serve<H: Handler>(
        &mut self,
        slot: &HandlerSlot<H>,
        worker_gate: &WorkerGate,
        pipes: WorkerPipes<'_>,
        reports: &Reports,
    ) -> io::Result<()> {
        match self {
            Self::Device(device) => {
                let dispatcher = Dispatcher { device, reports };
                serve_device(&dispatcher, slot, worker_gate, pipes)
            }
            Self::Ring(ring) => serve_ring(ring, slot, reports),
        }
    }
}

/// Allocates a buffer that can hold the largest request. In it, the data of a WRITE starts at a
/// page boundary.
pub(super) fn request_pages() -> Pages {
    let before = size_of::<InHeader>() + size_of::<WriteIn>();
    Pages::new(MAX_WRITE_BYTES as usize + ARGUMENT_BYTES, before)
}

/// Sends the answers of a worker that reads requests from the device.
struct Dispatcher<'a> {
    device: &'a Device,
    reports: &'a Reports,
}

impl Dispatcher<'_> {
    /// Sends an answer. If the kernel rejects it, answers the request with an error instead. The
    /// session then ends the mount, which may not serve correctly any more.
    fn answer(
        &self,
        request: &Request<'_>,
        reply: &mut Reply<'_>,
        outcome: Result<(), Errno>,
    ) -> io::Result<()> {
        let told = reply.notice().map_or(Ok(()), |notice| self.device.send(notice.as_bytes()));
        let sent = told.and_then(|()| self.device.send(reply.finish(request.unique(), outcome)));
        self.reports.stale(reply.stale_contents());
        let Err(error) = sent else { return Ok(()) };
        self.reports.fail(error);
        // ENOENT means that the kernel has already ended the request with an error of its own.
        self.device.send(reply.finish(request.unique(), Err(Errno::IO)))
    }
}

/// Serves requests from the device until the session empties the worker's handler slot. A waiting
/// worker notices that only when the next request arrives.
fn serve_device<H: Handler>(
    dispatcher: &Dispatcher<'_>,
    slot: &HandlerSlot<H>,
    worker_gate: &WorkerGate,
    pipes: WorkerPipes<'_>,
) -> io::Result<()> {
    let device = dispatcher.device;
    let mut buffer = request_pages();
    let mut reply = Reply::through_pipes(pipes, device.as_fd());
    let mut place = None;
    loop {
        // The handler slot is free while the worker waits here.
        place.get_or_insert_with(|| worker_gate.enter());
        let Some(length) = device.receive(buffer.bytes_mut())? else { break };
        let request = buffer.bytes().get(..length).and_then(Request::decode);
        let request = request.ok_or(Errno::PROTO)?;
        let handler = slot.lock();
        let Some(handler) = handler.as_deref() else { break };
        let opcode = request.opcode();
        if opcode == Some(Opcode::Destroy) {
            break;
        }
        if opcode.is_some_and(|opcode| handler.waits(opcode)) {
            place = None;
        }
        reply.begin(request.unique());
        let outcome = handler.handle(&request, &mut reply);
        let wants_none =
            matches!(opcode, Some(Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt));
        if wants_none || reply.is_sent() {
            continue;
        }
        dispatcher.answer(&request, &mut reply, outcome)?;
    }
    Ok(())
}

fn serve_ring<H: Handler>(
    ring: &mut Ring,
    slot: &HandlerSlot<H>,
    reports: &Reports,
) -> io::Result<()> {
    // The answer to a request whose contents lie where the answer's contents go.
    let mut separate = Reply::default();
    while ring.wait()? {
        let handler = slot.lock();
        let Some(handler) = handler.as_deref() else { break };
        let (message, contents) = ring.message().ok_or(Errno::PROTO)?;
        let (answer, invalidations) = answer(handler, &message, contents, &mut separate)?;
        if let Some(notice) = invalidations.before {
            ring.device().send(notice.as_bytes())?;
        }
        ring.answer(answer)?;
        reports.stale(invalidations.stale_contents);
    }
    Ok(())
}

/// The notifications that must be sent with an answer.
struct Invalidations {
    before: Option<StaleInode>,
    /// The node whose cached contents the kernel must drop after it has got the answer. `None` if
    /// it need not drop any.
    stale_contents: Option<u64>,
}

impl Invalidations {
    fn of(reply: &Reply<'_>) -> Self {
        Self { before: reply.notice(), stale_contents: reply.stale_contents() }
    }
}

/// Handles a request of a ring and writes the body of its answer into `contents`. If the request's
/// own contents lie in `contents` too, the body is first built in `separate`. Returns the header of
/// the answer, and the notifications that must be sent with it.
fn answer<H: Handler>(
    handler: &H,
    message: &RingHeader,
    contents: &mut [u8],
    separate: &mut Reply<'_>,
) -> io::Result<(OutHeader, Invalidations)> {
    separate.clear();
    if message.entry.length > 0 {
        let request = Request::of_ring(message, contents).ok_or(Errno::PROTO)?;
        let unique = request.unique();
        let outcome = handler.handle(&request, separate);
        return Ok((put(separate, unique, outcome, contents), Invalidations::of(separate)));
    }
    let request = Request::of_ring(message, &[]).ok_or(Errno::PROTO)?;
    let mut reply = Reply::into_room(&mut *contents);
    let outcome = handler.handle(&request, &mut reply);
    let invalidations = Invalidations::of(&reply);
    match reply.moved() {
        Ok(mut elsewhere) => {
            Ok((put(&mut elsewhere, request.unique(), outcome, contents), invalidations))
        }
        Err(mut there) => Ok((there.header(request.unique(), outcome), invalidations)),
    }
}

/// Copies an answer to `contents`, the memory from which the kernel takes it. Returns the header of
/// the answer.
fn put(
    reply: &mut Reply<'_>,
    unique: u64,
    outcome: Result<(), Errno>,
    contents: &mut [u8],
) -> OutHeader {
    let header = reply.header(unique, outcome);
    match contents.get_mut(..reply.body().len()) {
        Some(place) => {
            place.copy_from_slice(reply.body());
            header
        }
        None => reply.header(unique, Err(Errno::IO)),
    }
}

#[cfg(test)]
mod tests;
