//! Changing attributes in a transaction: what the layers above call.

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

/// Whether an attribute must be there, or must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetMode {
    /// Either will do.
    #[default]
    Either,
    /// It must not be there.
    #[doc(alias = "XATTR_CREATE")]
    Create,
    /// It must be there.
    #[doc(alias = "XATTR_REPLACE")]
    Replace,
}

/// An attribute to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewAttribute<'a> {
    /// The namespace; not that of parent pointers.
    pub namespace: Namespace,
    /// The name without a prefix: 1 to 255 bytes, none of them NUL.
    pub name: &'a [u8],
    /// The value: at most 64 KiB.
    pub value: &'a [u8],
}

/// The most levels that the tree of attributes has, each of which may get a block.
const TREE_BLOCKS: u64 = 5;

/// Sets an attribute. What does not go into the inode, or a leaf that has room, is done in further
/// steps of this transaction's chain, at the latest by its commit.
///
/// The transaction is of the kind [`SetAttr`](xfs_format::reservation::TransactionKind::SetAttr), or one of
/// [`Journal::begin_with_attributes`](xfs_trans::Journal::begin_with_attributes), with [`attribute_blocks`].
///
/// # Errors
///
/// [`Exists`](PosixError::Exists) and [`NoAttribute`](PosixError::NoAttribute) as the mode has it,
/// [`OutOfRange`](PosixError::OutOfRange) for a name and [`ValueTooLong`](PosixError::ValueTooLong)
/// for a value that is too long, [`FileTooLarge`](PosixError::FileTooLarge) where the extents of the attributes
/// could become more than the inode can count, [`InvalidArgument`](PosixError::InvalidArgument) for what can be no
/// attribute: with nothing changed. Else the device's error, or the check that failed: the
/// transaction must be cancelled.
#[doc(alias = "xfs_attr_set")]
pub fn set_attribute(
    tx: &mut Transaction<'_>,
    file: &Arc<LiveInode>,
    attribute: &NewAttribute<'_>,
    mode: SetMode,
) -> Result<()> {
    set_attribute_along(tx, file, attribute, mode, |_| {})
}

/// The same, and `change` of the inode's core in the one step of the chain that puts the attribute: after
/// a crash both are there, or neither. The forks' own fields are not the caller's ([`LiveInode::change`]).
///
/// # Errors
///
/// The errors of [`set_attribute`].
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

/// Sets an attribute of a file that is made in this step, which has none of that name. What does not go into
/// the inode is left to further steps of the chain altogether, so that this one reserves for making the
/// file alone: a crash may leave the file without the attribute.
///
/// # Errors
///
/// The errors of [`set_attribute`].
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

/// Removes an attribute. The blocks of a long value are given back in further steps of this
/// transaction's chain.
///
/// # Errors
///
/// [`NoAttribute`](PosixError::NoAttribute); else as [`set_attribute`].
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

/// Blocks to reserve for an attribute that is set: the tree from leaf to root twice, the fork that
/// may have to be made, the value if it lies in blocks of its own.
#[doc(alias = "xfs_attr_calc_size")]
#[must_use]
pub fn attribute_blocks(geometry: &Geometry, name_bytes: usize, value_bytes: usize) -> u64 {
    let one = LiveInode::grow_blocks(geometry, ForkKind::Attr, 1);
    let value = u64::from(attribute_value_blocks(geometry, name_bytes, value_bytes));
    // A btree block of the map holds far more than 16 extents, if each block were one.
    let maps = if value == 0 { 0 } else { one * (2 + value / 16) };
    // To make room for the fork, a short directory moves to a block.
    let fork = LiveInode::grow_blocks(geometry, ForkKind::Data, 1 << geometry.directory_block_log);
    2 * TREE_BLOCKS * one + fork + value + maps
}

/// Blocks of its own that the value of an attribute takes.
fn attribute_value_blocks(geometry: &Geometry, name_bytes: usize, value_bytes: usize) -> u32 {
    let block_size = geometry.block_size;
    if is_local(name_bytes, value_bytes, block_size as usize) {
        return 0;
    }
    value_blocks(block_size, u32::try_from(value_bytes).unwrap_or(u32::MAX))
}

/// Blocks to reserve for an attribute that is removed: what is given back may split the map.
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

/// Parent pointers follow their directory entries, and nobody sets one.
fn verify_name(namespace: Namespace, name: &[u8]) -> Result<()> {
    if name.len() > MAX_NAME {
        return Err(PosixError::OutOfRange.into());
    }
    if namespace == Namespace::Parent || name.is_empty() || name.contains(&0) {
        return Err(PosixError::InvalidArgument.into());
    }
    Ok(())
}
