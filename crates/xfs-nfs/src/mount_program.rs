//! The program MOUNT, version 3 (RFC 1813, appendix I), which gives a client its first file handle.
//!
//! There is one export, `/`. A client may mount any directory below it. The server keeps no list of
//! mounts, which could only grow: clients that end need not say so.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{Node, Volume};

use crate::call::{Call, Unanswered};
use crate::handle::FileHandle;
use crate::status::NfsStatus;
use crate::xdr::Encoder;

pub(crate) const PROGRAM: u32 = 100_005;
pub(crate) const VERSION: u32 = 3;

const NULL: u32 = 0;
const MNT: u32 = 1;
const DUMP: u32 = 2;
const UMNT: u32 = 3;
const UMNTALL: u32 = 4;
const EXPORT: u32 = 5;
/// The kind of credentials that the server accepts.
const AUTH_SYS: u32 = 1;

/// Answers a call.
pub(crate) fn answer(
    call: &Call<'_>,
    volume: &Volume,
    id: [u8; 8],
    reply: &mut Encoder,
) -> Result<(), Unanswered> {
    let mut arguments = call.arguments;
    match call.procedure {
        NULL | UMNT | UMNTALL => {}
        MNT => match directory(volume, arguments.bytes()?) {
            Ok(node) => {
                reply.u32(0);
                FileHandle::of(&node.metadata(), id).encode(reply);
                reply.u32(1).u32(AUTH_SYS);
            }
            // The numbers of mountstat3 are those of nfsstat3.
            Err(status) => drop(reply.u32(status.number())),
        },
        DUMP => drop(reply.flag(false)),
        // One export, no groups, no further export.
        EXPORT => drop(reply.flag(true).bytes(b"/").flag(false).flag(false)),
        _ => return Err(Unanswered::NoProcedure),
    }
    Ok(())
}

/// Returns the directory at `path`. Symbolic links are not followed: they belong to the client.
fn directory(volume: &Volume, path: &[u8]) -> Result<Node, NfsStatus> {
    let mut node = volume.root()?;
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        node = node.lookup(OsStr::from_bytes(name))?;
    }
    if node.metadata().is_dir() { Ok(node) } else { Err(NfsStatus::NOT_DIRECTORY) }
}
