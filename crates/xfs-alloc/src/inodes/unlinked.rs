//! The lists of unlinked inodes.
//!
//! An inode that has no name and is not freed yet is on one of the 64 lists of its group. The
//! number of the list is the remainder of the inode number divided by 64. The AGI names the first
//! inode of each list. Each inode names the next one in a field that is logged through the buffer
//! of the inode cluster, not with the inode. The list can therefore be changed without holding the
//! inodes on it.
//!
//! ```text
//! AGI bucket 5 ──► inode 69 ──► inode 5 ──► inode 133 ──► null
//! ```
//!
//! The back link exists only in memory. It saves a walk from the head when an inode in the middle
//! leaves the list. If the back link is unknown, the list is walked from the head.

use std::sync::Arc;

use xfs_buffer::{BufferCache, Result};
use xfs_format::agi::{Agi, AgiCheck, UNLINKED_BUCKETS};
use xfs_format::inode::{InodeDisk, seal};
use xfs_format::{
    AgInode, AgNumber, BlockKind, Corruption, InodeNumber, Lsn, Structure, StructureAddress,
};
use xfs_trans::{InodeRecord, Transaction};
use zerocopy::FromBytes;

use super::group::GroupInodes;
use crate::headers::read_agi;

/// The offset in bytes, in an inode, of the link to the next inode of its unlinked list. The
/// inode's checksum follows the link.
pub(super) const LINK_OFFSET: usize = core::mem::offset_of!(InodeDisk, next_unlinked);
const LINK_BYTES: usize = 8;

/// One list of unlinked inodes, read from disk.
#[derive(Debug)]
pub struct UnlinkedList {
    /// The number of the list in its group, 0 to 63.
    pub bucket: usize,
    /// The inodes on the list, as far as it can be followed.
    pub inodes: Vec<InodeNumber>,
    /// The reason why the list cannot be followed further; `None` if it was followed to its end.
    pub damage: Option<xfs_buffer::Error>,
}

/// Adds an inode to its unlinked list. The inode must be joined to the transaction. The caller
/// removes the last name of the inode in the same transaction, after this call: the lock order of
/// `xfs_alloc::inodes` requires this order.
///
/// # Errors
///
/// The device's error, a corrupt header or inode, or an unlinked list whose first inode is the
/// inode to add.
#[doc(alias = "xfs_iunlink")]
pub fn add_unlinked(tx: &mut Transaction<'_>, record: &Arc<InodeRecord>) -> Result<()> {
    let (group, inode) = GroupInodes::of_inode(tx, record.number())?;
    let first = group.unlinked_head(bucket(inode));
    if first == Some(inode) {
        return Err(group.corrupt(AgiCheck::Unlinked { bucket: bucket(inode), inode: inode.0 }));
    }
    if let Some(first) = first {
        group.state.set_before(first, inode);
    }
    group.set_next(tx, inode, first)?;
    group.set_unlinked_head(tx, bucket(inode), Some(inode));
    group.close(tx);
    Ok(())
}

/// Removes an inode from its unlinked list, because it gets a name after this call. The inode must
/// be joined to the transaction.
///
/// # Errors
///
/// The device's error, a corrupt header or inode, or an unlinked list that does not contain the
/// inode.
#[doc(alias = "xfs_iunlink_remove")]
pub fn remove_unlinked(tx: &mut Transaction<'_>, record: &Arc<InodeRecord>) -> Result<()> {
    let (group, inode) = GroupInodes::of_inode(tx, record.number())?;
    group.unlink(tx, inode)?;
    group.close(tx);
    Ok(())
}

/// Returns the unlinked lists of a group that are not empty. A damaged list is returned up to the
/// damage.
///
/// # Errors
///
/// Returns an error if the AGI cannot be read or is corrupt.
pub fn unlinked_lists(cache: &BufferCache, group: AgNumber) -> Result<Vec<UnlinkedList>> {
    let agi = read_agi(cache, group)?;
    let list = |(bucket, first)| {
        let mut inodes = Vec::new();
        let damage = follow(cache, &agi, first, &mut inodes).err();
        UnlinkedList { bucket, inodes, damage }
    };
    Ok(agi.unlinked_heads().map(list).collect())
}

fn follow(
    cache: &BufferCache,
    agi: &Agi,
    first: AgInode,
    inodes: &mut Vec<InodeNumber>,
) -> Result<()> {
    let mut next = Some(first);
    while let Some(inode) = next {
        // A list cannot be longer than the number of inodes; a longer one is a cycle.
        if inodes.len() >= agi.count as usize {
            return Err(not_on_list(agi.group, inode).into());
        }
        next = next_of(cache, agi.group, inode)?;
        inodes.push(cache.geometry().join_inode(agi.group, inode));
    }
    Ok(())
}

/// Empties a damaged unlinked list. The inodes on it stay unusable until the volume is repaired.
///
/// # Errors
///
/// The device's error, or a corrupt header.
#[doc(alias = "xlog_recover_clear_agi_bucket")]
pub fn clear_unlinked_list(tx: &mut Transaction<'_>, group: AgNumber, bucket: usize) -> Result<()> {
    assert!(bucket < UNLINKED_BUCKETS, "a group has 64 unlinked lists");
    let Some(group) = GroupInodes::open(tx, group)? else {
        unreachable!("the transaction has latched no other group")
    };
    group.set_unlinked_head(tx, bucket, None);
    group.close(tx);
    Ok(())
}

impl<'journal> GroupInodes<'journal> {
    /// Removes an inode from its unlinked list.
    pub(super) fn unlink(&self, tx: &mut Transaction<'journal>, inode: AgInode) -> Result<()> {
        let next = next_of(tx.cache(), self.number, inode)?;
        let known = self.state.take_before(inode);
        let first = self.unlinked_head(bucket(inode));
        let before = if first == Some(inode) {
            None
        } else {
            let before = self.find_before(tx, first, known, inode)?;
            self.set_next(tx, before, next)?;
            Some(before)
        };
        if let Some(next) = next {
            // The head of a list has no predecessor.
            self.state.take_before(next);
            if let Some(before) = before {
                self.state.set_before(next, before);
            }
        }
        if next.is_some() {
            self.set_next(tx, inode, None)?;
        }
        if before.is_none() {
            self.set_unlinked_head(tx, bucket(inode), next);
        }
        Ok(())
    }

    /// Returns the inode that names `inode` as the next one on its unlinked list: the inode
    /// `known`, or one that a walk from `first` finds. `first` is the head of the list.
    fn find_before(
        &self,
        tx: &Transaction<'_>,
        first: Option<AgInode>,
        known: Option<AgInode>,
        inode: AgInode,
    ) -> Result<AgInode> {
        if let Some(known) = known
            && next_of(tx.cache(), self.number, known)? == Some(inode)
        {
            return Ok(known);
        }
        let mut before = first;
        for _ in 0..self.agi.count {
            let Some(here) = before else { break };
            before = next_of(tx.cache(), self.number, here)?;
            if before == Some(inode) {
                return Ok(here);
            }
        }
        Err(not_on_list(self.number, inode).into())
    }

    /// Sets the next inode after `inode` on its unlinked list, in the buffer of the inode cluster.
    #[doc(alias = "xfs_iunlink_log_dinode")]
    fn set_next(
        &self,
        tx: &mut Transaction<'journal>,
        inode: AgInode,
        next: Option<AgInode>,
    ) -> Result<()> {
        let geometry = tx.geometry();
        let number = geometry.join_inode(self.number, inode);
        let outside = || not_on_list(self.number, inode);
        let place = geometry.inode_location(number).ok_or_else(outside)?;
        let buffer = tx.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?;
        let start = place.offset_bytes as usize;
        let mut slot = {
            let bytes = buffer.bytes();
            let slot = bytes.get(start..start + geometry.inode_size as usize);
            slot.ok_or_else(outside)?.to_vec()
        };
        let lsn = match InodeDisk::mut_from_prefix(&mut slot) {
            Ok((disk, _)) => {
                disk.next_unlinked = next.unwrap_or(AgInode::NULL).0.into();
                Lsn(disk.lsn.get())
            }
            Err(_) => return Err(outside().into()),
        };
        // The inode on disk must verify even if only this field is written.
        seal(&mut slot, lsn);
        let link =
            slot.get(LINK_OFFSET..LINK_OFFSET + LINK_BYTES).expect("an inode holds its link");
        let range = start + LINK_OFFSET..start + LINK_OFFSET + LINK_BYTES;
        tx.change(&buffer, range, |bytes| bytes.copy_from_slice(link));
        Ok(())
    }
}

/// Returns the next inode after `inode` on its unlinked list; `None` at the end of the list.
fn next_of(cache: &BufferCache, group: AgNumber, inode: AgInode) -> Result<Option<AgInode>> {
    let geometry = cache.geometry();
    let number = geometry.join_inode(group, inode);
    let bad = || not_on_list(group, inode);
    let place = geometry.inode_location(number).ok_or_else(bad)?;
    let buffer = cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?;
    let bytes = buffer.bytes();
    let slot = bytes.get(place.offset_bytes as usize..).ok_or_else(bad)?;
    let (disk, _) = InodeDisk::ref_from_prefix(slot).map_err(|_| bad())?;
    let next = AgInode(disk.next_unlinked.get());
    if next.is_null() {
        return Ok(None);
    }
    let exists =
        xfs_format::Group::new(geometry, group).is_some_and(|group| group.contains_inode(next));
    if !exists || next == inode || bucket(next) != bucket(inode) {
        return Err(bad().into());
    }
    Ok(Some(next))
}

const fn bucket(inode: AgInode) -> usize {
    inode.0 as usize % UNLINKED_BUCKETS
}

#[cold]
fn not_on_list(group: AgNumber, inode: AgInode) -> Corruption {
    let check = AgiCheck::Unlinked { bucket: bucket(inode), inode: inode.0 };
    Corruption::new(Structure::Agi, StructureAddress::Group(group), check)
}
