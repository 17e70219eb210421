//! The way on which one worker gets requests and gives answers.
//!
//! Owns: how many ways there are, and the loop of a worker on each. Does **not** own: threads, and what requests
//! mean.

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

/// Room for the header and the arguments in front of what is written.
const ARGUMENT_BYTES: usize = 4096;

/// Where requests come from.
pub(super) enum Channel {
    Device(Device),
    Ring(Box<Ring>),
}

/// Rings for as many workers as are wanted, but one for each queue of the kernel at least.
///
/// # Errors
///
/// [`MountError::Rings`].
pub(crate) fn rings(threads: usize) -> Result<Vec<IdleRing>, MountError> {
    let failed = |source| MountError::Rings { source };
    let queues = queues().map_err(failed)?;
    (0..threads.max(queues)).map(|_| IdleRing::open().map_err(failed)).collect()
}

/// The channels of a connection, and how many of these it cannot do without, which come first.
pub(super) fn channels(
    device: Device,
    threads: usize,
    rings: Vec<IdleRing>,
) -> Result<(Vec<Channel>, usize), MountError> {
    let failed = |source| MountError::Failed { what: "its descriptor".to_owned(), source };
    if rings.is_empty() {
        let mut devices = vec![device];
        while let Some(first) = devices.first().filter(|_| devices.len() < threads) {
            // Who was given the connection may not open the device himself.
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
    // What does not come through a ring.
    channels.insert(0, Channel::Device(device));
    Ok((channels, queues + 1))
}

impl Channel {
    /// Makes it ready, in the thread of its worker, which enters where it works by `enter`.
    pub(super) fn begin(&mut self, enter: impl FnOnce()) -> io::Result<()> {
        match self {
            Self::Device(_) => {
                enter();
                Ok(())
            }
            Self::Ring(ring) => {
                // A sandbox does not let that be done.
                ring.enable()?;
                enter();
                ring.begin()
            }
        }
    }

    /// Serves requests until there are none any more.
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

/// Room for the largest request. What is written to a file lies in it from the start of a page on.
pub(super) fn request_pages() -> Pages {
    let before = size_of::<InHeader>() + size_of::<WriteIn>();
    Pages::new(MAX_WRITE_BYTES as usize + ARGUMENT_BYTES, before)
}

/// Where a worker at the device gives its answers.
struct Dispatcher<'a> {
    device: &'a Device,
    reports: &'a Reports,
}

impl Dispatcher<'_> {
    /// Answers a request. Whose answer the kernel does not take gets an error instead, and the mount is to
    /// end: it may not serve as it should.
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
        // ENOENT if the kernel has ended the request with an error of its own.
        self.device.send(reply.finish(request.unique(), Err(Errno::IO)))
    }
}

/// Until nothing is handled any more, which finds the worker when the next request comes.
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
        // The slot is free meanwhile.
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
    // Of requests whose contents lie where those of the answer go.
    let mut aside = Reply::default();
    while ring.wait()? {
        let handler = slot.lock();
        let Some(handler) = handler.as_deref() else { break };
        let (message, contents) = ring.message().ok_or(Errno::PROTO)?;
        let (answer, invalidations) = answer(handler, &message, contents, &mut aside)?;
        if let Some(notice) = invalidations.before {
            ring.device().send(notice.as_bytes())?;
        }
        ring.answer(answer)?;
        reports.stale(invalidations.stale_contents);
    }
    Ok(())
}

/// What the kernel is told beside an answer.
struct Invalidations {
    before: Option<StaleInode>,
    /// Whose contents it is to drop afterwards.
    stale_contents: Option<u64>,
}

impl Invalidations {
    fn of(reply: &Reply<'_>) -> Self {
        Self { before: reply.notice(), stale_contents: reply.stale_contents() }
    }
}

/// Has a request handled, and its answer written where its contents lie. Comes back with the header of the answer, and
/// what the kernel is told beside it.
fn answer<H: Handler>(
    handler: &H,
    message: &RingHeader,
    contents: &mut [u8],
    aside: &mut Reply<'_>,
) -> io::Result<(OutHeader, Invalidations)> {
    aside.clear();
    if message.entry.length > 0 {
        let request = Request::of_ring(message, contents).ok_or(Errno::PROTO)?;
        let unique = request.unique();
        let outcome = handler.handle(&request, aside);
        return Ok((put(aside, unique, outcome, contents), Invalidations::of(aside)));
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

/// Copies an answer to where the kernel takes it.
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
