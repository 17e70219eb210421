//! The rules that differ if the kernel buffers writes in its page cache (`writeback_cache`).
//!
//! The kernel then maintains the size and the change times of every regular file that it knows, and
//! ignores those in the server's answers. It sends the times to the server when it writes an inode
//! back. It acknowledges a write before the server sees it. The write carries no time. A
//! restriction that was put on the file after the acknowledgement cannot undo the write.
//!
//! Owns: which times count, and the attributes shown for files of which the kernel may hold unsent
//! data. Does **not** own: writing itself ([`contents`](super::contents)).

use ferroxfs::FileType;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{Metadata, Node, Timestamp};
use rustix::io::Errno;

use super::{Server, VALID, errno};
use crate::transport::Reply;
use crate::transport::wire::{OPEN_DIRECT_IO, OPEN_KEEP_CACHE, SetAttrIn, set};

/// How many seconds the kernel may cache a regular file's attributes. The block count changes when
/// the kernel writes data, and the kernel does not request the new count then.
const VALID_SECONDS: u64 = 1;
/// The longest tick of the coarse clock from which the kernel takes file times. ferroxfs's clock is
/// finer. So a time of ferroxfs that is later than the kernel's by less than a tick belongs to the
/// same change.
const TICK_NS: i128 = 10_000_000;
const NANOSECONDS_PER_SECOND: i128 = 1_000_000_000;
/// The unit of a file's block count in bytes.
const BASIC_BLOCK_BYTES: u32 = 512;

impl Server {
    /// Returns the flags with which OPEN or CREATE is answered. Append-only files always bypass the
    /// page cache. So the server checks each write, and no program can map such a file to overwrite
    /// its contents.
    pub(super) fn open_flags(&self, node: &Node, writes: bool) -> u32 {
        let is_guarded = writes && node.metadata().xflags.contains(ExtendedFlags::APPEND);
        if is_guarded { OPEN_DIRECT_IO } else { OPEN_KEEP_CACHE }
    }

    /// Returns whether the kernel, not the server, maintains the size and the times of a file.
    fn is_kept(&self, metadata: &Metadata) -> bool {
        self.settings.writeback && metadata.file_type == FileType::Regular
    }

    /// Returns how many seconds the kernel may cache the attributes of a file.
    pub(super) fn valid_seconds(&self, metadata: &Metadata) -> u64 {
        if self.is_kept(metadata) { VALID_SECONDS } else { VALID.as_secs() }
    }

    /// Returns the block count to show. Programs that copy files assume that a file without blocks
    /// is all zeros. So a file whose data the kernel may not have sent yet shows at least one
    /// block.
    pub(super) fn shown_blocks(&self, metadata: &Metadata) -> u64 {
        let least = if self.is_kept(metadata) {
            self.volume.geometry().block_size / BASIC_BLOCK_BYTES
        } else {
            0
        };
        metadata.blocks.max(least.into())
    }

    /// Makes the kernel drop the cached attributes of a file whose block count may have changed.
    /// The caller has the file open, so the kernel is not about to drop the inode.
    pub(super) fn note_written(&self, node: &Node, reply: &mut Reply<'_>) {
        if self.is_kept(&node.metadata()) {
            reply.invalidate_attributes(self.node_of(node.number()));
        }
    }

    /// Returns the change time to set, or `None` if the kernel sends none. Normally this is the
    /// time that the kernel sends. If the change time on the volume is later, it stays: it belongs
    /// to a change that the kernel does not know, for example of flags.
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

    /// Sets the times that the kernel sends when it writes an inode back. Returns `false`, and does
    /// nothing, if the request is not such a write-back of times. Does not check whether the file
    /// is immutable: it may have become so since a program wrote to it. A program can make the same
    /// request only if it has the file open for writing.
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

    /// Returns whether a request sets both times to the current time.
    pub(super) fn is_touched(&self, wanted: &SetAttrIn) -> bool {
        let times = wanted.valid & set::ALL;
        if !self.settings.writeback {
            return times == set::TOUCH;
        }
        // The kernel has put its own time in place of "now".
        let is_now = wanted.mtime == wanted.ctime && wanted.mtime_ns == wanted.ctime_ns;
        times == set::TOUCH || times == set::TOUCH & !set::MTIME_NOW && is_now
    }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds()) * NANOSECONDS_PER_SECOND + i128::from(time.nanoseconds())
}
