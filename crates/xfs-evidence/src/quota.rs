//! Recognising quota inodes, to which no directory entry leads, and blocks of dquots, which name
//! neither their inode nor their address.

use xfs_format::dquot::{QuotaKind, dquot_at, dquots_per_block};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::{FileBlock, FsBlock, Lsn, VerifyContext};

use crate::inode::InodeEvidence;
use crate::volume::Evidence;

/// The largest number of extents of an inode that are examined. The first block of each is read,
/// and must hold dquots in a quota inode.
const MOST_EXTENTS: usize = 16;

/// A block of dquots that was recognised by its contents. Type and IDs of its dquots give the quota
/// inode and the block of that inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecognisedDquots {
    /// The type of owner whose usage the dquots count.
    pub kind: QuotaKind,
    /// The block of the quota inode in which these dquots lie.
    pub file_block: FileBlock,
    /// The greatest LSN of the dquots that pass their checks.
    pub lsn: Lsn,
}

impl RecognisedDquots {
    /// Recognises a block of dquots. At least one dquot must pass its checks. All dquots that pass
    /// must have the type and the IDs of the same place. The others may be damaged.
    #[must_use]
    pub fn of(bytes: &[u8], context: &VerifyContext<'_>) -> Option<Self> {
        let per_block = dquots_per_block(context.geometry);
        let mut found: Option<Self> = None;
        for index in 0..per_block {
            let dquot = dquot_at(bytes, index)?;
            let Ok(kind) = dquot.verify_fields(context.geometry) else { continue };
            if dquot.verify_seal(context).is_err() {
                continue;
            }
            // The IDs of the last block of a quota inode wrap around.
            let first = dquot.id.get().wrapping_sub(index);
            if !first.is_multiple_of(per_block) {
                return None;
            }
            let file_block = FileBlock(u64::from(first / per_block));
            let lsn = Lsn(dquot.lsn.get());
            let known = found.get_or_insert(Self { kind, file_block, lsn });
            if (known.kind, known.file_block) != (kind, file_block) {
                return None;
            }
            known.lsn = known.lsn.max(lsn);
        }
        found
    }
}

impl Evidence<'_> {
    /// Reads a block, and returns its place in a quota inode if it holds dquots of this volume.
    #[must_use]
    pub fn dquot_block(&self, block: FsBlock) -> Option<RecognisedDquots> {
        let (bytes, _) = self.read_block(block).ok()?;
        RecognisedDquots::of(&bytes, &self.context())
    }

    /// Returns the type of owner (user, group or project) whose quota a sound inode holds. A quota
    /// inode is a regular file of size 0 with one link, in which a block holds dquots. `None` if
    /// the inode is not such a file.
    #[must_use]
    pub fn quota_kind(&self, found: &InodeEvidence) -> Option<QuotaKind> {
        let core = found.core()?;
        let is_plain = core.file_type() == Some(FileType::Regular) && !core.is_realtime();
        if !is_plain || core.size != 0 || core.nlink != 1 {
            return None;
        }
        let extents = self.extents(found, ForkKind::Data).extents;
        extents.iter().take(MOST_EXTENTS).find_map(|extent| {
            let (bytes, _) = self.read_block(extent.start).ok()?;
            let first = || dquot_at(&bytes, 0)?.verify_fields(self.geometry()).ok();
            RecognisedDquots::of(&bytes, &self.context()).map(|block| block.kind).or_else(first)
        })
    }
}

#[cfg(test)]
mod tests;
