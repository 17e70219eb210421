//! Counting the usage of all owners by reading all inodes.
//!
//! Owns: the walk over the inodes on disk, and the sums. Does **not** own: the dquots with which
//! the sums are compared. Inodes in memory that are newer than the disk are not considered.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use xfs_buffer::{BufferCache, Error, Result};
use xfs_format::dquot::QuotaKind;
use xfs_format::inode::{FileType, ForkKind, InodeFlags, InodeFlags2};
use xfs_format::{AgInode, AgNumber, InodeNumber};
use xfs_inode::Inode;

/// The usage of an owner, as a count over all inodes finds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CountedUsage {
    /// Number of blocks of the data device.
    pub blocks: u64,
    /// Number of inodes.
    pub inodes: u64,
    /// Number of blocks of the realtime section.
    pub rt_blocks: u64,
}

/// The usage of all users, groups and projects, as a count over all inodes finds it.
#[derive(Clone, Debug, Default)]
pub struct UsageCounts {
    counts: BTreeMap<(QuotaKind, u32), CountedUsage>,
    inodes: u64,
}

/// The function that a count calls after each chunk of inodes, with the number of inodes counted so
/// far, and for each damage, with the error. The function can end the count.
pub type CountStep<'a> = &'a mut dyn FnMut(Result<u64>) -> ControlFlow<()>;

impl UsageCounts {
    /// Counts the usage of all owners. `exempt` are the quota inodes, which count for no owner.
    /// Damaged inodes are not counted; `step` gets their errors.
    #[doc(alias = "quotacheck")]
    #[must_use]
    pub fn of_volume(cache: &BufferCache, exempt: &[InodeNumber], step: CountStep<'_>) -> Self {
        let mut counts = Self::default();
        for group in cache.geometry().groups() {
            if counts.count_group(cache, group, exempt, step).is_break() {
                break;
            }
        }
        counts
    }

    /// Removes the usage of an owner from the counts, and returns it.
    pub fn take(&mut self, kind: QuotaKind, id: u32) -> CountedUsage {
        self.counts.remove(&(kind, id)).unwrap_or_default()
    }

    /// Removes the usage of all remaining owners of a type from the counts, and returns it in the
    /// order of their IDs.
    pub fn take_all(&mut self, kind: QuotaKind) -> Vec<(u32, CountedUsage)> {
        let taken = self.counts.extract_if((kind, 0)..=(kind, u32::MAX), |_, _| true);
        taken.map(|((_, id), usage)| (id, usage)).collect()
    }

    fn count_group(
        &mut self,
        cache: &BufferCache,
        group: AgNumber,
        exempt: &[InodeNumber],
        step: CountStep<'_>,
    ) -> ControlFlow<()> {
        let chunks = match xfs_alloc::inode_chunks(cache, group) {
            Ok(chunks) => chunks,
            Err(error) => return step(Err(error)),
        };
        for chunk in chunks {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    step(Err(error))?;
                    continue;
                }
            };
            let allocated = (0..u64::BITS).filter(|index| chunk.allocated() >> index & 1 == 1);
            let number = |index| cache.geometry().join_inode(group, AgInode(chunk.start.0 + index));
            let numbers: Vec<_> =
                allocated.map(number).filter(|number| !exempt.contains(number)).collect();
            for inode in Inode::read_each(cache, &numbers) {
                let counted = inode.and_then(|inode| self.add(cache, &inode));
                match counted {
                    // The inode btree and the inode disagree, which only a check can judge.
                    Ok(()) | Err(Error::Posix(_)) => {}
                    Err(error) => step(Err(error))?,
                }
            }
            step(Ok(self.inodes))?;
        }
        ControlFlow::Continue(())
    }

    /// Adds the usage of an inode to its owners. Files of the metadata directory count for no
    /// owner.
    fn add(&mut self, cache: &BufferCache, inode: &Inode) -> Result<()> {
        self.inodes += 1;
        let core = inode.core();
        if core.flags2.contains(InodeFlags2::METADATA) {
            return Ok(());
        }
        let rt_blocks = realtime_blocks(cache, inode)?;
        let owners = [
            (QuotaKind::User, core.uid),
            (QuotaKind::Group, core.gid),
            (QuotaKind::Project, core.project_id),
        ];
        for owner in owners {
            let usage = self.counts.entry(owner).or_default();
            usage.inodes += 1;
            usage.rt_blocks = usage.rt_blocks.saturating_add(rt_blocks);
            // The count of an inode includes its realtime blocks.
            let blocks = core.blocks.saturating_sub(rt_blocks);
            usage.blocks = usage.blocks.saturating_add(blocks);
        }
        Ok(())
    }
}

/// Returns the number of realtime blocks of an inode. Only the contents of a realtime file have
/// such blocks.
fn realtime_blocks(cache: &BufferCache, inode: &Inode) -> Result<u64> {
    let is_realtime = inode.core().flags.contains(InodeFlags::REALTIME);
    if !is_realtime || inode.file_type() != FileType::Regular {
        return Ok(0);
    }
    let map = inode.extent_map(cache, ForkKind::Data)?;
    Ok(map.iter().map(|extent| u64::from(extent.length_blocks)).sum())
}
