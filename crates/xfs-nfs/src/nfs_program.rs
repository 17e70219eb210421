//! The program NFS, version 3 (RFC 1813).
//!
//! Each procedure decodes its arguments, makes the calls of the library, and encodes a status and
//! results. After a failure the results are the attributes of the files of the call, which a client
//! may cache. The attributes before a change are never sent: they would have to be read in one step
//! with the change.

mod contents;
mod listing;
mod names;

use std::time::{SystemTime, UNIX_EPOCH};

use ferroxfs::{Access, FileType, Node, Timestamp, Volume};

use crate::attributes::{Changes, decode_time, encode, wire_time};
use crate::call::{Call, Unanswered};
use crate::handle::{FileHandle, ReceivedHandle};
use crate::record::MOST_CONTENTS_BYTES;
use crate::status::NfsStatus;
use crate::xdr::{Decoder, Encoder, Garbage};

pub(crate) const PROGRAM: u32 = 100_003;
pub(crate) const VERSION: u32 = 3;

/// The volume as the clients of a server see it.
#[derive(Debug)]
pub(crate) struct Export {
    /// The volume with the rights of root.
    pub(crate) volume: Volume,
    /// The first bytes of the UUID of the volume.
    pub(crate) id: [u8; 8],
    /// A value that differs from one run of a server to the next. A client that sees another one
    /// sends its uncommitted writes again.
    pub(crate) run: [u8; 8],
    /// Whether clients may only read.
    pub(crate) read_only: bool,
    /// Whether replies to changes precede their durability.
    pub(crate) waits: bool,
}

/// A call of the program: the export, and the caller.
pub(crate) struct NfsCall<'a> {
    export: &'a Export,
    /// The volume with the rights of the caller.
    volume: Volume,
    uid: u32,
}

/// The attributes that follow a failed or finished operation, if the file is known.
type After = Option<Node>;

impl<'a> NfsCall<'a> {
    pub(crate) const fn new(export: &'a Export, volume: Volume, uid: u32) -> Self {
        Self { export, volume, uid }
    }

    /// Answers a call.
    pub(crate) fn answer(&self, call: &Call<'_>, reply: &mut Encoder) -> Result<(), Unanswered> {
        let arguments = &mut { call.arguments };
        match call.procedure {
            0 => Ok(()),
            1 => self.get_attributes(arguments, reply),
            2 => self.set_attributes(arguments, reply),
            3 => self.look_up(arguments, reply),
            4 => self.access(arguments, reply),
            5 => self.read_link(arguments, reply),
            6 => self.read(arguments, reply),
            7 => self.write(arguments, reply),
            8 => self.create(arguments, reply),
            9 => self.make_directory(arguments, reply),
            10 => self.make_symlink(arguments, reply),
            11 => self.make_special(arguments, reply),
            12 => self.remove(arguments, |node, name| node.remove_file(name), reply),
            13 => self.remove(arguments, |node, name| node.remove_dir(name), reply),
            14 => self.rename(arguments, reply),
            15 => self.link(arguments, reply),
            16 => self.list(arguments, reply),
            17 => self.list_with_attributes(arguments, reply),
            18 => self.space(arguments, reply),
            19 => self.limits_of_server(arguments, reply),
            20 => self.limits_of_names(arguments, reply),
            21 => self.commit(arguments, reply),
            _ => return Err(Unanswered::NoProcedure),
        }
        .map_err(Unanswered::from)
    }

    fn find(&self, handle: ReceivedHandle<'_>) -> Result<Node, NfsStatus> {
        // Only root finds files by their inodes. A handle shows that a caller has once found the
        // file by its name. The rights are those for the file itself.
        let node = handle.find(&self.export.volume, self.export.id)?;
        Ok(node.acting_as(&self.volume)?)
    }

    /// Returns the file for a change.
    fn find_to_change(&self, handle: ReceivedHandle<'_>) -> Result<Node, NfsStatus> {
        match self.export.read_only {
            true => Err(NfsStatus::READ_ONLY),
            false => self.find(handle),
        }
    }

    /// Makes a change durable, unless changes may wait.
    fn settle(&self, changed: &Node) -> Result<(), NfsStatus> {
        match self.export.waits {
            true => Ok(()),
            false => Ok(changed.sync()?),
        }
    }

    fn fsid(&self) -> u64 {
        u64::from_be_bytes(self.export.id)
    }

    fn encode_handle(&self, node: &Node, reply: &mut Encoder) {
        FileHandle::of(&node.metadata(), self.export.id).encode(reply);
    }

    /// Encodes attributes that may be absent: `post_op_attr`.
    fn encode_after(&self, node: Option<&Node>, reply: &mut Encoder) {
        reply.flag(node.is_some());
        if let Some(node) = node {
            encode(&node.metadata(), self.fsid(), reply);
        }
    }

    /// Encodes the absent attributes before a change, and those after it: `wcc_data`.
    fn encode_change(&self, node: Option<&Node>, reply: &mut Encoder) {
        reply.flag(false);
        self.encode_after(node, reply);
    }

    fn get_attributes(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        match self.find(handle) {
            Ok(node) => encode(&node.metadata(), self.fsid(), reply.u32(0)),
            Err(status) => drop(reply.u32(status.number())),
        }
        Ok(())
    }

    fn set_attributes(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let changes = Changes::decode(args)?;
        let guard = args.optional(decode_time)?;
        let mut after: After = None;
        let outcome = self.find_to_change(handle).and_then(|node| {
            after = Some(node.clone());
            let is_as_known =
                guard.is_none_or(|time| wire_time(node.metadata().changed) == wire_time(time));
            if !is_as_known {
                return Err(NfsStatus::NOT_SYNC);
            }
            if let Some(size) = changes.size {
                self.set_size(&node, size)?;
            }
            changes.apply(&node, now())?;
            self.settle(&node)
        });
        reply.u32(number(&outcome));
        self.encode_change(after.as_ref(), reply);
        Ok(())
    }

    /// Changes the length of a file. Its owner may do so whatever its mode says, as in the kernel's
    /// server: the client has checked the mode when it opened the file.
    fn set_size(&self, node: &Node, size: u64) -> Result<(), NfsStatus> {
        match node.file_type() {
            FileType::Regular => {}
            FileType::Directory => return Err(NfsStatus::IS_DIRECTORY),
            _ => return Err(NfsStatus::INVALID),
        }
        let file = self.for_contents(node, Access::WRITE)?.open_write_only()?;
        file.set_len(size)?;
        Ok(file.close()?)
    }

    /// Returns the file with rights for its contents. The owner has them whatever the mode says,
    /// because NFS has no open files: a program may still write to a file that it has opened and
    /// then made read-only. A program that may be executed may be read, by the client's kernel.
    fn for_contents(&self, node: &Node, wanted: Access) -> Result<Node, NfsStatus> {
        let is_owner = node.metadata().uid == self.uid;
        let is_executed = wanted == Access::READ && node.access(Access::EXECUTE).is_ok();
        match is_owner || is_executed {
            true => Ok(node.acting_as(&self.export.volume)?),
            false => Ok(node.clone()),
        }
    }

    fn access(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        const READ: u32 = 1;
        const LOOKUP: u32 = 2;
        const MODIFY: u32 = 4;
        const EXTEND: u32 = 8;
        const DELETE: u32 = 16;
        const EXECUTE: u32 = 32;
        let handle = ReceivedHandle::decode(args)?;
        let wanted = args.u32()?;
        let node = self.find(handle);
        reply.u32(number(&node));
        self.encode_after(node.as_ref().ok(), reply);
        let Ok(node) = node else { return Ok(()) };
        let is_directory = node.file_type() == FileType::Directory;
        let rights = match is_directory {
            true => [
                (Access::READ, READ),
                (Access::WRITE, MODIFY | EXTEND | DELETE),
                (Access::EXECUTE, LOOKUP),
            ],
            false => {
                [(Access::READ, READ), (Access::WRITE, MODIFY | EXTEND), (Access::EXECUTE, EXECUTE)]
            }
        };
        let is_granted = |access: Access| {
            let writes = access == Access::WRITE;
            !(writes && self.export.read_only) && node.access(access).is_ok()
        };
        let granted = rights.into_iter().filter(|(access, _)| is_granted(*access));
        reply.u32(wanted & granted.fold(0, |bits, (_, bit)| bits | bit));
        Ok(())
    }

    fn space(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        let handle = ReceivedHandle::decode(args)?;
        let node = self.find(handle);
        let outcome = node.as_ref().map_err(|status| *status).and_then(|node| Ok(node.space()?));
        reply.u32(number(&outcome));
        self.encode_after(node.as_ref().ok(), reply);
        if let Ok(space) = outcome {
            // The counts come from the volume, and may contradict each other.
            let used = space.inodes.saturating_sub(space.free_inodes);
            let free_files = space.files.saturating_sub(used);
            let bytes = |blocks: u64| blocks.saturating_mul(space.block_size.into());
            reply
                .u64(bytes(space.total_blocks))
                .u64(bytes(space.free_blocks))
                .u64(bytes(space.available_blocks))
                .u64(space.files)
                .u64(free_files)
                .u64(free_files)
                // The number of seconds for which these figures stay as they are.
                .u32(0);
        }
        Ok(())
    }

    fn limits_of_server(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        /// Hard links, symbolic links, one set of limits for all files, times can be set.
        const PROPERTIES: u32 = 1 | 2 | 8 | 16;
        const MOST_FILE_BYTES: u64 = i64::MAX as u64;
        let handle = ReceivedHandle::decode(args)?;
        let node = self.find(handle);
        reply.u32(number(&node));
        self.encode_after(node.as_ref().ok(), reply);
        if node.is_ok() {
            // Reads, writes: the most bytes, the preferred number, the unit.
            for _ in 0..2 {
                reply.u32(MOST_CONTENTS_BYTES).u32(MOST_CONTENTS_BYTES).u32(4096);
            }
            // Listings; the size of files; the resolution of times.
            reply.u32(64 << 10).u64(MOST_FILE_BYTES).u32(0).u32(1).u32(PROPERTIES);
        }
        Ok(())
    }

    fn limits_of_names(&self, args: &mut Decoder<'_>, reply: &mut Encoder) -> Result<(), Garbage> {
        const MOST_LINKS: u32 = i32::MAX as u32;
        const MOST_NAME_BYTES: u32 = 255;
        let handle = ReceivedHandle::decode(args)?;
        let node = self.find(handle);
        reply.u32(number(&node));
        self.encode_after(node.as_ref().ok(), reply);
        if node.is_ok() {
            reply.u32(MOST_LINKS).u32(MOST_NAME_BYTES);
            // Long names are refused; only root gives files away; names are compared byte by byte,
            // and kept.
            reply.flag(true).flag(true).flag(false).flag(true);
        }
        Ok(())
    }
}

/// Returns the number of a status in a reply; 0 for success.
fn number<T>(outcome: &Result<T, NfsStatus>) -> u32 {
    outcome.as_ref().map_or_else(|status| status.number(), |_| 0)
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Timestamp::new(seconds, since.subsec_nanos()).expect("less than a second of nanoseconds")
}

#[cfg(test)]
mod tests;
