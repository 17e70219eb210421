//! Recognising quota inodes, to which no directory entry leads.

use xfs_format::dquot::{QuotaKind, dquot_at};
use xfs_format::inode::{FileType, ForkKind};

use crate::inode::InodeEvidence;
use crate::volume::Evidence;

/// The largest number of extents of an inode that are examined. The first block of each is read,
/// and must hold dquots in a quota inode.
const MOST_EXTENTS: usize = 16;

impl Evidence<'_> {
    /// Returns the type of owner (user, group or project) whose quota a sound inode holds. A quota
    /// inode is a regular file of size 0 with one link, in which a block begins with a dquot.
    /// `None` if the inode is not such a file.
    #[must_use]
    pub fn quota_kind(&self, found: &InodeEvidence) -> Option<QuotaKind> {
        let core = found.core()?;
        let is_plain = core.file_type() == Some(FileType::Regular) && !core.is_realtime();
        if !is_plain || core.size != 0 || core.nlink != 1 {
            return None;
        }
        let extents = self.extents(found, ForkKind::Data).extents;
        extents.iter().take(MOST_EXTENTS).find_map(|extent| {
            let at = self.geometry().block_disk_addr(extent.start)?;
            let mut block = vec![0; self.geometry().block_size as usize];
            self.read(at, &mut block).ok()?;
            dquot_at(&block, 0)?.verify_fields(self.geometry()).ok()
        })
    }
}
