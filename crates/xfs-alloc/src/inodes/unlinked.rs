//! The lists of unlinked inodes.
//!
//! An inode without a name that is not free yet stands on one of the 64 lists of its group, by the
//! remainder of its number. The AGI names the first one of each list; each inode names the next, in
//! a field of its own in the buffer of its cluster, which is logged through that buffer and not
//! with the inode. So the list can be changed without holding the inodes on it.
//!
//! ```text
//! AGI bucket 5 ──► inode 69 ──► inode 5 ──► inode 133 ──► null
//! ```
//!
//! The way back, which only memory has, saves a walk from the first one when an inode in the middle
//! leaves; where it is not known the walk is made.

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

/// Where in an inode the next one of its list is named, and the checksum behind that.
pub(super) const LINK_OFFSET: usize = core::mem::offset_of!(InodeDisk, next_unlinked);
const LINK_BYTES: usize = 8;

/// One list of unlinked inodes.
#[derive(Debug)]
pub struct UnlinkedList {
    /// Which of the lists of its group.
    pub bucket: usize,
    /// The inodes on it, as far as it can be followed.
    pub inodes: Vec<InodeNumber>,
    /// Why it cannot be followed further; `None` if it was followed to its end.
    pub damage: Option<xfs_buffer::Error>,
}

/// Puts an inode that is joined on the unlinked list where it belongs: its last name goes in this
/// transaction, behind this call (see the lock order of the module).
///
/// # Errors
///
/// What reading meets; a list that does not start with an inode that could be on it.
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

/// Takes an inode that is joined off its unlinked list, because it gets a name: behind this call.
///
/// # Errors
///
/// What reading meets; a list that does not have the inode.
#[doc(alias = "xfs_iunlink_remove")]
pub fn remove_unlinked(tx: &mut Transaction<'_>, record: &Arc<InodeRecord>) -> Result<()> {
    let (group, inode) = GroupInodes::of_inode(tx, record.number())?;
    group.unlink(tx, inode)?;
    group.close(tx);
    Ok(())
}

/// The unlinked lists of a group that are not empty. What is damaged ends its list.
///
/// # Errors
///
/// An AGI that cannot be read or believed.
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
        // A list cannot be longer than there are inodes; one that is goes round in circles.
        if inodes.len() >= agi.count as usize {
            return Err(not_on_list(agi.group, inode).into());
        }
        next = next_of(cache, agi.group, inode)?;
        inodes.push(cache.geometry().join_inode(agi.group, inode));
    }
    Ok(())
}

/// Empties a list that is damaged. What is on it stays unused until the volume is repaired.
///
/// # Errors
///
/// What reading meets.
#[doc(alias = "xlog_recover_clear_agi_bucket")]
pub fn clear_unlinked_list(tx: &mut Transaction<'_>, group: AgNumber, bucket: usize) -> Result<()> {
    let Some(group) = GroupInodes::open(tx, group)? else {
        unreachable!("the transaction has latched no other group")
    };
    if bucket < UNLINKED_BUCKETS {
        group.set_unlinked_head(tx, bucket, None);
    }
    group.close(tx);
    Ok(())
}

impl<'journal> GroupInodes<'journal> {
    /// Takes an inode off its list.
    pub(super) fn unlink(&self, tx: &mut Transaction<'journal>, inode: AgInode) -> Result<()> {
        let next = next_of(tx.cache(), self.number, inode)?;
        let known = self.state.take_before(inode);
        let first = self.unlinked_head(bucket(inode));
        let before = if first == Some(inode) {
            None
        } else {
            let before = self.find_before(tx, (first, known), inode)?;
            self.set_next(tx, before, next)?;
            Some(before)
        };
        if let Some(next) = next {
            // The first of a list has none before it.
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

    /// The inode that names `inode` as the next one.
    fn find_before(
        &self,
        tx: &Transaction<'_>,
        (first, known): (Option<AgInode>, Option<AgInode>),
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

    /// Makes `inode` name `next` as the next one of its list, in the buffer of its cluster.
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
        // What is in place must pass as an inode even if only this is written.
        seal(&mut slot, lsn);
        let link = slot.get(LINK_OFFSET..LINK_OFFSET + LINK_BYTES).unwrap_or_default();
        let range = start + LINK_OFFSET..start + LINK_OFFSET + LINK_BYTES;
        tx.change(&buffer, range, |bytes| bytes.copy_from_slice(link));
        Ok(())
    }
}

/// The inode that comes after `inode` on its list.
fn next_of(cache: &BufferCache, group: AgNumber, inode: AgInode) -> Result<Option<AgInode>> {
    let geometry = cache.geometry();
    let number = geometry.join_inode(group, inode);
    let bad = || not_on_list(group, inode);
    let place = geometry.inode_location(number).ok_or_else(bad)?;
    let buffer = cache.read(place.cluster, place.cluster_bytes, BlockKind::InodeCluster)?;
    let bytes = buffer.bytes();
    let slot = bytes.get(place.offset_bytes as usize..).unwrap_or_default();
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
