//! Changing extended attributes in a transaction: the functions that other crates call.

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::Geometry;
use xfs_format::attr::leaf::is_local;
use xfs_format::attr::{MAX_VALUE, Namespace};
use xfs_format::directory::MAX_NAME;
use xfs_format::inode::{ForkKind, InodeCore};
use xfs_inode::LiveInode;
use xfs_trans::Transaction;

use super::change::{AttributeChange, AttributeKey};
use super::work::{AttributeWork, OwnedAttribute, value_blocks};
use crate::store::live::LiveFork;

/// Whether an attribute must exist, or must not exist, before it is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetMode {
    /// The attribute may exist or not.
    #[default]
    Either,
    /// The attribute must not exist.
    #[doc(alias = "XATTR_CREATE")]
    Create,
    /// The attribute must exist.
    #[doc(alias = "XATTR_REPLACE")]
    Replace,
}

/// An attribute to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAttribute<'a> {
    /// The namespace; not the namespace of parent pointers.
    pub namespace: Namespace,
    /// The name without a prefix: 1 to 255 bytes, none of them NUL.
    pub name: &'a [u8],
    /// The value: at most 64 KiB.
    pub value: &'a [u8],
}

/// The maximum number of levels of the attribute btree. A change may need one new block on each
/// level.
const TREE_BLOCKS: u64 = 5;

/// Sets an attribute. If the attribute fits in the inode or in a leaf with room, this transaction
/// does all of the work. Otherwise further transactions of the chain (a series of rolled
/// transactions, each one a step) do the rest, at the latest when the caller commits `tx`.
///
/// The transaction must be of the kind
/// [`SetAttr`](xfs_format::reservation::TransactionKind::SetAttr), or come from
/// [`Journal::begin_with_attributes`](xfs_trans::Journal::begin_with_attributes). It must have
/// reserved [`attribute_blocks`].
///
/// # Errors
///
/// Returns the following errors before anything is changed: [`Exists`](PosixError::Exists) and
/// [`NoAttribute`](PosixError::NoAttribute) if `mode` forbids the change;
/// [`OutOfRange`](PosixError::OutOfRange) for a name and [`ValueTooLong`](PosixError::ValueTooLong)
/// for a value that is too long; [`FileTooLarge`](PosixError::FileTooLarge) if the inode could not
/// count the extents of the attributes; [`InvalidArgument`](PosixError::InvalidArgument) for an
/// invalid name. Returns the device's error or the failed check at any time; the transaction must
/// then be cancelled.
#[doc(alias = "xfs_attr_set")]
pub fn set_attribute(
    tx: &mut Transaction<'_>,
    file: &Arc<LiveInode>,
    attribute: &NewAttribute<'_>,
    mode: SetMode,
) -> Result<()> {
    set_attribute_along(tx, file, attribute, mode, |_| {})
}

/// Sets an attribute as [`set_attribute`] does, and applies `change` to the inode's core in the
/// transaction that changes the attribute. After a crash either both changes are present or neither
/// is. `change` must not touch the fields of the core that depend on the forks: see
/// [`LiveInode::change`].
///
/// # Errors
///
/// Returns the errors of [`set_attribute`].
pub fn set_attribute_along(
    tx: &mut Transaction<'_>,
    file: &Arc<LiveInode>,
    attribute: &NewAttribute<'_>,
    mode: SetMode,
    change: impl FnOnce(&mut InodeCore) + Send + 'static,
) -> Result<()> {
    let NewAttribute { namespace, name, value } = *attribute;
    verify_name(namespace, name)?;
    if value.len() > MAX_VALUE as usize {
        return Err(PosixError::ValueTooLong.into());
    }
    let is_there = is_there(tx, file, &AttributeKey { namespace, name, value })?;
    match mode {
        SetMode::Create if is_there => return Err(PosixError::Exists.into()),
        SetMode::Replace if !is_there => return Err(PosixError::NoAttribute.into()),
        _ => {}
    }
    let geometry = tx.geometry();
    let value_blocks = attribute_value_blocks(geometry, name.len(), value.len());
    file.check_growth(ForkKind::Attr, 2 * TREE_BLOCKS as i64 + i64::from(value_blocks))?;
    let new = OwnedAttribute { namespace, name: name.into(), value: value.into() };
    let old = is_there.then(|| new.clone());
    AttributeWork::new(file, old, Some(new)).along(Box::new(change)).begin(tx)
}

/// Sets an attribute of a file that this transaction creates and that has no attribute of this
/// name. If the attribute does not fit in the inode, later transactions of the chain do all of the
/// work, because this one has reserved log space only for creating the file. A crash may then leave
/// the file without the attribute.
///
/// # Errors
///
/// Returns the errors of [`set_attribute`].
pub fn set_attribute_on_new(
    tx: &mut Transaction<'_>,
    file: &Arc<LiveInode>,
    attribute: &NewAttribute<'_>,
) -> Result<()> {
    let NewAttribute { namespace, name, value } = *attribute;
    verify_name(namespace, name)?;
    if value.len() > MAX_VALUE as usize {
        return Err(PosixError::ValueTooLong.into());
    }
    let new = OwnedAttribute { namespace, name: name.into(), value: value.into() };
    AttributeWork::new(file, None, Some(new)).begin_on_new(tx)
}

/// Removes an attribute. The blocks of a long value are freed in later transactions of the same
/// chain (a series of rolled transactions).
///
/// # Errors
///
/// Returns [`NoAttribute`](PosixError::NoAttribute) if the attribute does not exist, or the errors
/// of [`set_attribute`].
#[doc(alias = "XFS_ATTRUPDATE_REMOVE")]
pub fn remove_attribute(
    tx: &mut Transaction<'_>,
    file: &Arc<LiveInode>,
    namespace: Namespace,
    name: &[u8],
) -> Result<()> {
    verify_name(namespace, name)?;
    if !is_there(tx, file, &AttributeKey { namespace, name, value: &[] })? {
        return Err(PosixError::NoAttribute.into());
    }
    let old = OwnedAttribute { namespace, name: name.into(), value: Box::default() };
    AttributeWork::new(file, Some(old), None).begin(tx)
}

/// Returns the number of blocks to reserve for setting an attribute. The number suffices for two
/// splits of the btree from leaf to root, the creation of the fork, and a remote value.
#[doc(alias = "xfs_attr_calc_size")]
#[must_use]
pub fn attribute_blocks(geometry: &Geometry, name_bytes: usize, value_bytes: usize) -> u64 {
    let one = LiveInode::grow_blocks(geometry, ForkKind::Attr, 1);
    let value = u64::from(attribute_value_blocks(geometry, name_bytes, value_bytes));
    // A btree block of the map holds far more than 16 extents, if each block were an extent.
    let maps = if value == 0 { 0 } else { one * (2 + value / 16) };
    // A short directory moves to a block to make room for the fork.
    let fork = LiveInode::grow_blocks(geometry, ForkKind::Data, 1 << geometry.directory_block_log);
    2 * TREE_BLOCKS * one + fork + value + maps
}

/// Returns the number of blocks that the owners of a file must have left in their quota for setting
/// an attribute, as in the kernel. The number covers a remote value and one split of the btree from
/// leaf to root. For an attribute that takes more than half a block, it covers two splits.
#[must_use]
pub fn attribute_quota_blocks(geometry: &Geometry, name_bytes: usize, value_bytes: usize) -> u64 {
    let split = TREE_BLOCKS * LiveInode::grow_blocks(geometry, ForkKind::Attr, 1);
    let value = u64::from(attribute_value_blocks(geometry, name_bytes, value_bytes));
    let is_large = value == 0 && 2 * (name_bytes + value_bytes) > geometry.block_size as usize;
    let splits = if is_large { 2 * split } else { split };
    let maps = if value == 0 { 0 } else { LiveInode::grow_blocks(geometry, ForkKind::Attr, 1) };
    splits + value + maps
}

/// Returns the number of blocks of an attribute's remote value; 0 if the value is stored beside its
/// name.
fn attribute_value_blocks(geometry: &Geometry, name_bytes: usize, value_bytes: usize) -> u32 {
    let block_size = geometry.block_size;
    if is_local(name_bytes, value_bytes, block_size as usize) {
        return 0;
    }
    value_blocks(geometry, u32::try_from(value_bytes).unwrap_or(u32::MAX))
}

/// Returns the number of blocks to reserve for removing an attribute. Freeing blocks may split the
/// btree of the extent map.
#[must_use]
pub fn attribute_removal_blocks(geometry: &Geometry) -> u64 {
    LiveInode::grow_blocks(geometry, ForkKind::Attr, 1)
}

fn is_there(
    tx: &mut Transaction<'_>,
    file: &Arc<LiveInode>,
    key: &AttributeKey<'_>,
) -> Result<bool> {
    let mut store = LiveFork::new(tx, file, ForkKind::Attr);
    Ok(AttributeChange::new(&mut store).find(key)?.is_some())
}

/// Returns an error for an invalid name, and for the namespace of parent pointers. Parent pointers
/// cannot be set directly: they follow directory entries.
fn verify_name(namespace: Namespace, name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME {
        return Err(PosixError::OutOfRange.into());
    }
    if namespace == Namespace::Parent || name.is_empty() || name.contains(&0) {
        return Err(PosixError::InvalidArgument.into());
    }
    Ok(())
}
