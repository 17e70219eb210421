//! Changing a directory in a transaction: the functions that other crates call.
//!
//! The caller joins the directory to the transaction, changes link counts and time stamps,
//! maintains parent pointers, and reserves the blocks ([`blocks_to_add`], [`blocks_to_remove`]).

use std::sync::Arc;

use xfs_buffer::{Buffer, Result};
use xfs_format::directory::EntryType;
use xfs_format::inode::ForkKind;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::{LiveInode, map_blocks};
use xfs_trans::Transaction;

use super::change::{DirectoryChange, EntrySearch, NewEntry};
use crate::store::live::LiveFork;

/// The maximum number of levels of the hash btree. A change may need one new block on each level.
#[doc(alias = "XFS_DA_NODE_MAXDEPTH")]
const TREE_BLOCKS: u64 = 5;

/// Initializes a new directory. The contents of a new directory are only the inode number of its
/// parent.
///
/// # Errors
///
/// Returns the errors of changing the inode's fork.
#[doc(alias = "xfs_dir_init")]
pub fn init_directory(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    parent: InodeNumber,
) -> Result<()> {
    DirectoryChange::new(&mut fork(tx, directory)).initialise(parent)
}

/// Adds an entry to a directory.
///
/// # Errors
///
/// Returns [`Exists`](xfs_buffer::PosixError::Exists) if the name exists, and
/// [`NameTooLong`](xfs_buffer::PosixError::NameTooLong) or
/// [`InvalidArgument`](xfs_buffer::PosixError::InvalidArgument) for an invalid name. Nothing is
/// changed then. Otherwise returns the device's error, or the check that failed; the transaction
/// must then be cancelled.
#[doc(alias = "xfs_dir_createname")]
pub fn add_entry(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    entry: &NewEntry<'_>,
) -> Result<()> {
    DirectoryChange::new(&mut fork(tx, directory)).add(entry)
}

/// Removes an entry from a directory. Returns the inode number and the file type that the entry
/// had.
///
/// # Errors
///
/// Returns [`NotFound`](xfs_buffer::PosixError::NotFound) if the name does not exist, or the errors
/// of [`add_entry`].
#[doc(alias = "xfs_dir_removename")]
pub fn remove_entry(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    name: &[u8],
) -> Result<(InodeNumber, EntryType)> {
    DirectoryChange::new(&mut fork(tx, directory)).remove(name)
}

/// The result of a search for a name in a transaction: the inode that the name stands for, and the
/// blocks where the entry of the name is or belongs. With this result, adding or removing the entry
/// needs no second search.
pub struct EntryLocation<'n> {
    name: &'n [u8],
    meaning: Option<(InodeNumber, EntryType)>,
    /// The number of the transaction in its chain (a series of rolled transactions) when the search
    /// was made. A roll releases the blocks that the search has read.
    step: u64,
    search: EntrySearch<Buffer>,
}

impl EntryLocation<'_> {
    /// Returns the inode number and the file type of the name; `None` if the name does not exist.
    #[must_use]
    pub const fn meaning(&self) -> Option<(InodeNumber, EntryType)> {
        self.meaning
    }
}

/// Searches for a name that the same transaction may add or remove next. No other code may change
/// the directory between the search and that change.
///
/// # Errors
///
/// Returns the errors of [`find_entry`].
pub fn seek_entry<'n>(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    name: &'n [u8],
) -> Result<EntryLocation<'n>> {
    let search = DirectoryChange::new(&mut fork(tx, directory)).seek(name)?;
    let meaning = search.meaning(directory.number(), name);
    Ok(EntryLocation { name, meaning, step: tx.step(), search })
}

/// Adds an entry as [`add_entry`] does, without a second search. `place` is the result of
/// `seek_entry` for the name of the entry.
///
/// # Errors
///
/// Returns the errors of [`add_entry`].
pub fn add_entry_at(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    place: EntryLocation<'_>,
    inode: InodeNumber,
    entry_type: EntryType,
) -> Result<()> {
    let EntryLocation { name, step, search, .. } = place;
    let entry = NewEntry { name, inode, entry_type };
    let is_valid = step == tx.step();
    let mut fork = fork(tx, directory);
    let mut change = DirectoryChange::new(&mut fork);
    if is_valid { change.add_at(search, &entry) } else { change.add(&entry) }
}

/// Returns whether a directory has room for an entry without a new block. `place` is the result of
/// [`seek_entry`] for the name of the entry in this step of the transaction. The name must not
/// exist.
///
/// # Errors
///
/// Returns the errors of [`find_entry`].
pub fn has_room_for_entry(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    place: &EntryLocation<'_>,
    inode: InodeNumber,
) -> Result<bool> {
    assert!(place.step == tx.step(), "the search belongs to this step");
    let entry = NewEntry { name: place.name, inode, entry_type: EntryType::Unknown };
    DirectoryChange::new(&mut fork(tx, directory)).has_room(&place.search, &entry)
}

/// Removes an entry as [`remove_entry`] does, without a second search. `place` is the result of
/// `seek_entry` for the name of the entry.
///
/// # Errors
///
/// Returns the errors of [`remove_entry`].
pub fn remove_entry_at(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    place: EntryLocation<'_>,
) -> Result<(InodeNumber, EntryType)> {
    let EntryLocation { name, step, search, .. } = place;
    let is_valid = step == tx.step();
    let mut fork = fork(tx, directory);
    let mut change = DirectoryChange::new(&mut fork);
    if is_valid { change.remove_at(name, search) } else { change.remove(name) }
}

/// Changes the inode that an entry names, and returns the old inode number. For the name `..` this
/// changes the parent.
///
/// # Errors
///
/// Returns [`NotFound`](xfs_buffer::PosixError::NotFound) if the name does not exist, or the errors
/// of [`add_entry`].
#[doc(alias = "xfs_dir_replace")]
pub fn replace_entry(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    entry: &NewEntry<'_>,
) -> Result<InodeNumber> {
    DirectoryChange::new(&mut fork(tx, directory)).replace(entry)
}

/// Returns the inode number and the file type of a name, including changes of this transaction.
/// Returns `None` if the name does not exist.
///
/// # Errors
///
/// Returns [`NameTooLong`](xfs_buffer::PosixError::NameTooLong), the device's error, or the check
/// that failed.
pub fn find_entry(
    tx: &mut Transaction<'_>,
    directory: &Arc<LiveInode>,
    name: &[u8],
) -> Result<Option<(InodeNumber, EntryType)>> {
    DirectoryChange::new(&mut fork(tx, directory)).find(name)
}

/// Returns whether a directory holds no entries except `.` and `..`.
///
/// # Errors
///
/// Returns the device's error, or the check that failed.
#[doc(alias = "xfs_dir_isempty")]
pub fn directory_is_empty(tx: &mut Transaction<'_>, directory: &Arc<LiveInode>) -> Result<bool> {
    DirectoryChange::new(&mut fork(tx, directory)).is_empty()
}

/// Returns the number of blocks to reserve for adding an entry: a data block, a block of the
/// free-space index, and a split of the btree from leaf to root. Each of these may also make the
/// extent map grow.
#[doc(alias = "XFS_DIRENTER_SPACE_RES")]
#[must_use]
pub fn blocks_to_add(geometry: &Geometry) -> u64 {
    let length = 1 << geometry.directory_block_log;
    (TREE_BLOCKS + 2) * LiveInode::grow_blocks(geometry, ForkKind::Data, length)
}

/// Returns the number of blocks to reserve for removing an entry. Freeing blocks may split the
/// btree of the extent map.
#[doc(alias = "XFS_DIRREMOVE_SPACE_RES")]
#[must_use]
pub fn blocks_to_remove(geometry: &Geometry) -> u64 {
    LiveInode::grow_blocks(geometry, ForkKind::Data, 1)
}

/// Returns the number of blocks that an owner must have left in its quota for the removal of an
/// entry by a rename, as in the kernel. The removal may free several blocks, and freeing a block
/// may split the btree of the extent map.
#[doc(alias = "XFS_DIRREMOVE_SPACE_RES")]
#[must_use]
pub fn blocks_to_remove_quota(geometry: &Geometry) -> u64 {
    let blocks = u64::from(1_u32 << geometry.directory_block_log);
    (TREE_BLOCKS + 2) * blocks * map_blocks(geometry, ForkKind::Data)
}

fn fork<'a, 'journal>(
    tx: &'a mut Transaction<'journal>,
    directory: &'a Arc<LiveInode>,
) -> LiveFork<'a, 'journal> {
    LiveFork::new(tx, directory, ForkKind::Data)
}
