//! The handshake: the first exchange of a connection.
//!
//! Owns: the protocol version, and the features that kernel and server agree on. Does **not** own:
//! the features that the server wants.

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::channel::request_pages;
use super::device::Device;
use super::reply::Reply;
use super::request::Request;
use super::session::MAX_WRITE_BYTES;
use super::wire::{InitFlags, InitIn, InitOut, MAJOR, MINOR, OLDEST_MINOR, Opcode};
use crate::MountError;

/// The most background requests, mostly readahead, that the kernel may have sent at a time.
const MAX_BACKGROUND: u16 = 64;

/// Answers the kernel's first request. `wishes` are the features that the server wants.
pub(super) fn handshake(device: &Device, wishes: InitFlags) -> Result<(), MountError> {
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
            // The kernel asks again, in the version that this answer names.
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
        if (wishes - offered).contains(InitFlags::OVER_IO_URING) {
            let refusal = reply.finish(request.unique(), Err(Errno::OPNOTSUPP));
            device.send(refusal).map_err(failed)?;
            return Err(MountError::NoRings);
        }
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
            max_pages: most_pages(rustix::param::page_size()),
            ..InitOut::default()
        });
        return device.send(reply.finish(request.unique(), Ok(()))).map_err(failed);
    }
}

/// Returns the number of memory pages in the largest read or write. With more pages, the kernel
/// would request more bytes than the server answers, and take the end of the answer for the end of
/// the file.
fn most_pages(page_bytes: usize) -> u16 {
    (MAX_WRITE_BYTES as usize / page_bytes).max(1) as u16
}

#[cfg(test)]
mod tests;
