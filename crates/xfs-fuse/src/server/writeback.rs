//! What differs where the kernel keeps what is written in its page cache (`writeback_cache`).
//!
//! The kernel then keeps size and times of change of every regular file that it knows, whatever answers
//! say of them, and tells the times when it writes an inode back. A write is acknowledged before we hear
//! of it, with no time of its own, and nothing that the file forbids since can undo it.
//!
//! Owns: whose times count, and what is shown of files that may have more than we know. Does **not** own:
//! writing itself ([`contents`](super::contents)).

use ferroxfs::format::inode::{ExtendedFlags, FileType};
use ferroxfs::{Metadata, Node, Timestamp};
use rustix::io::Errno;

use super::{Server, VALID, errno};
use crate::transport::Reply;
use crate::transport::wire::{OPEN_DIRECT_IO, OPEN_KEEP_CACHE, SetAttrIn, set};

/// How long attributes of a regular file count: its blocks come when the kernel writes, and it does not
/// ask for them then.
const VALID_SECONDS: u64 = 1;
/// The kernel takes times from a clock that ticks so often at the least, and ours is finer: what is later
/// by less than a tick is of the same change.
const TICK_NS: i128 = 10_000_000;
const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;
/// Blocks of a file are counted in these.
const BASIC_BLOCK_BYTES: u32 = 512;

impl Server {
    /// How a file is open that is opened or made. What can only be added to is written past the page
    /// cache, where each write is looked at, and nobody can map it to write elsewhere, whether or not the kernel writes
    /// later.
    pub(super) fn open_flags(&self, node: &Node, writes: bool) -> u32 {
        let is_guarded = writes && node.metadata().xflags.contains(ExtendedFlags::APPEND);
        if is_guarded { OPEN_DIRECT_IO } else { OPEN_KEEP_CACHE }
    }

    /// Whether the kernel keeps size and times of a file.
    fn is_kept(&self, metadata: &Metadata) -> bool {
        self.settings.writeback && metadata.file_type == FileType::Regular
    }

    /// How many seconds the attributes of a file count.
    pub(super) fn valid_seconds(&self, metadata: &Metadata) -> u64 {
        if self.is_kept(metadata) { VALID_SECONDS } else { VALID.as_secs() }
    }

    /// The blocks that are shown of a file. Programs that copy take a file without any for one that holds
    /// nothing but zeros, and what the kernel has not written yet needs some.
    pub(super) fn shown_blocks(&self, metadata: &Metadata) -> u64 {
        let least = if self.is_kept(metadata) {
            self.volume.geometry().block_size / BASIC_BLOCK_BYTES
        } else {
            0
        };
        metadata.blocks.max(least.into())
    }

    /// Blocks may have come without the kernel's asking. The caller has the file open, so the kernel is
    /// not about to drop it.
    pub(super) fn note_written(&self, node: &Node, reply: &mut Reply<'_>) {
        if self.is_kept(&node.metadata()) {
            reply.invalidate_attributes(self.node_of(node.number()));
        }
    }

    /// The time of change that the kernel gives, if it does. A later one stays: of a change, as that of
    /// flags, which the kernel does not know to be one.
    pub(super) fn given_change(
        &self,
        wanted: &SetAttrIn,
        node: &Node,
    ) -> Result<Option<Timestamp>, Errno> {
        if !self.settings.writeback || wanted.valid & set::CTIME == 0 {
            return Ok(None);
        }
        let given = Timestamp::new(wanted.ctime, wanted.ctime_ns).ok_or(Errno::INVAL)?;
        let known = node.metadata().changed;
        let is_other = nanoseconds(known) - nanoseconds(given) > TICK_NS;
        Ok(Some(if is_other { known } else { given }))
    }

    /// Takes the times that the kernel tells when it writes an inode back, `false` if the request is another
    /// one. The file may have become immutable since it was written to. Only who has it open for writing
    /// can ask for the same by itself.
    pub(super) fn take_times(&self, wanted: &SetAttrIn, node: &Node) -> Result<bool, Errno> {
        const TOLD: u32 = set::MTIME | set::CTIME | set::HANDLE;
        if wanted.valid & (TOLD | set::ALL | set::KILL_SET_IDS) != TOLD {
            return Ok(false);
        }
        let Some(changed) = self.given_change(wanted, node)? else { return Ok(false) };
        let writes = self.handles.file(wanted.handle).is_some_and(|file| file.is_writable());
        if writes {
            let modified = Timestamp::new(wanted.mtime, wanted.mtime_ns).ok_or(Errno::INVAL)?;
            node.note_modified(modified, changed).map_err(errno)?;
        }
        Ok(writes)
    }

    /// Whether times are given that somebody has asked to be now.
    pub(super) fn is_touched(&self, wanted: &SetAttrIn) -> bool {
        let times = wanted.valid & set::ALL;
        if !self.settings.writeback {
            return times == set::TOUCH;
        }
        // The kernel says what now is.
        let is_now = wanted.mtime == wanted.ctime && wanted.mtime_ns == wanted.ctime_ns;
        times == set::TOUCH || times == set::TOUCH & !set::MTIME_NOW && is_now
    }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds()) * NANOSECONDS_PER_SECOND + i128::from(time.nanoseconds())
}
