//! The order in which a step of a transaction chain latches the headers of allocation groups (AGI
//! and AGF).
//!
//! Owns: the order, and the highest header that the step keeps. Does **not** own the latches
//! ([`buffers`](super::buffers)). A step only tries to latch a header that is lower than one that
//! it keeps. If another thread holds that header, the layers above decide how to continue without
//! it.
//!
//! # Invariants
//!
//! - **I1** A step waits for a header only if the header lies above every header that the step
//!   keeps. All inode headers lie below all free-space headers, and within each kind the groups
//!   ascend.
//!
//! # No deadlock
//!
//! Suppose that steps wait for each other's headers in a circle. Each step in the circle waits for
//! a header that the next step keeps. By I1 that header lies above all headers of the waiting step.
//! So the headers only ascend along the circle, and the header at its start would lie above itself.
//! Threads that latch a header without a step (readers of inode chunks, the thread that writes
//! items to their home locations) latch one header and wait for no other.

use xfs_format::{AgBlock, AgNumber, BlockKind, DiskAddr, Geometry};

use super::Transaction;

/// The header of an allocation group: its AGI or its AGF. The order of the values is the order in
/// which a transaction must latch the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupHeader {
    /// The AGI, which leads to the inodes of the group.
    Inodes(AgNumber),
    /// The AGF, which leads to the space of the group.
    Space(AgNumber),
}

impl Transaction<'_> {
    /// Returns whether this step may wait for the latch of a header (I1: headers ascend). If not,
    /// the step may only try to latch the header, without waiting.
    #[must_use]
    pub fn may_wait_for(&self, header: GroupHeader) -> bool {
        let may_wait = self.highest_header.is_none_or(|highest| header >= highest);
        debug_assert!(
            !may_wait || self.latched_headers().all(|latched| latched <= header),
            "I1: a step waits only for headers above those that it keeps"
        );
        may_wait
    }

    /// Records that the current transaction of the chain keeps the latch of a group header until
    /// the commit of this transaction.
    pub fn keep_header(&mut self, header: GroupHeader) {
        self.highest_header = self.highest_header.max(Some(header));
    }

    /// Returns whether the current transaction of the chain keeps the latch of the free-space
    /// header (AGF) of any group.
    #[must_use]
    pub const fn keeps_space(&self) -> bool {
        matches!(self.highest_header, Some(GroupHeader::Space(_)))
    }

    /// Returns the group headers among the buffers that the transaction holds.
    fn latched_headers(&self) -> impl Iterator<Item = GroupHeader> {
        let geometry = self.geometry();
        self.buffers.places().filter_map(|(at, kind)| {
            let group = group_of(geometry, at)?;
            match kind {
                BlockKind::Agi => Some(GroupHeader::Inodes(group)),
                BlockKind::Agf => Some(GroupHeader::Space(group)),
                _ => None,
            }
        })
    }
}

/// Returns the number of the allocation group in which a sector lies, or `None` if the number does
/// not fit in 32 bits.
fn group_of(geometry: &Geometry, at: DiskAddr) -> Option<AgNumber> {
    let sectors = geometry.ag_block_disk_addr(AgNumber(1), AgBlock(0)).0;
    u32::try_from(at.0.checked_div(sectors)?).ok().map(AgNumber)
}

#[cfg(test)]
mod tests;
