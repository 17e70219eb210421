//! Changing parent pointers: each parent pointer is added, removed and changed together with its
//! link.
//!
//! **The short way.** If the attributes of the child are stored in its inode, this transaction
//! changes the pointer in the inode. The inode is logged with the change of the directory anyway.
//! So the operation needs as many transactions as on a volume without parent pointers.
//!
//! **The long way**, if the attributes have blocks of their own or the inode has no room: this
//! transaction logs an intent, and later transactions of its chain change the attributes.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_format::attr::{AttrEntry, AttrValue, Namespace, short_form};
use xfs_format::inode::ForkKind;
use xfs_format::parent::ParentDisk;
use xfs_format::{Geometry, InodeNumber};
use xfs_inode::{LiveInode, map_blocks};
use xfs_trans::Transaction;
use zerocopy::IntoBytes;

use super::ParentLink;
use crate::attributes::{
    AttributeChange, AttributeKey, AttributeWork, OwnedAttribute, attribute_blocks,
    attribute_quota_blocks,
};
use crate::store::live::LiveFork;

/// The way in which the code changes a parent pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParentPath {
    /// Changes the attributes in the inode if they fit there (the short way). Otherwise logs an
    /// intent and changes them in a later transaction (the long way).
    #[default]
    Direct,
    /// Always logs an intent and changes the attributes in a later transaction (the long way). For
    /// benchmarks and tests only.
    Intents,
}

/// Adds the parent pointer of a new link to an inode.
///
/// # Errors
///
/// Returns the device's error, or the check that failed: the transaction must be cancelled.
#[doc(alias = "xfs_parent_addname")]
pub fn add_parent(
    tx: &mut Transaction<'_>,
    child: &Arc<LiveInode>,
    link: &ParentLink,
    path: ParentPath,
) -> Result<()> {
    change(tx, child, None, Some(link), path)
}

/// Removes the parent pointer of a link that is removed from an inode.
///
/// # Errors
///
/// Returns the errors of [`add_parent`].
#[doc(alias = "xfs_parent_removename")]
pub fn remove_parent(
    tx: &mut Transaction<'_>,
    child: &Arc<LiveInode>,
    link: &ParentLink,
    path: ParentPath,
) -> Result<()> {
    change(tx, child, Some(link), None, path)
}

/// Replaces the parent pointer of one link of an inode with that of another link.
///
/// # Errors
///
/// Returns the errors of [`add_parent`].
#[doc(alias = "xfs_parent_replacename")]
pub fn replace_parent(
    tx: &mut Transaction<'_>,
    child: &Arc<LiveInode>,
    old: &ParentLink,
    new: &ParentLink,
    path: ParentPath,
) -> Result<()> {
    change(tx, child, Some(old), Some(new), path)
}

/// Encodes, in short form, this parent pointer as the only attribute of a new file. So one
/// transaction can create the file together with the pointer. Returns `None` if the encoded
/// attribute is longer than `room` bytes.
#[must_use]
pub fn first_parent(
    directory: InodeNumber,
    generation: u32,
    name: &[u8],
    room: usize,
) -> Option<Arc<[u8]>> {
    let value = ParentDisk { inode: directory.0.into(), generation: generation.into() };
    short_form::encode_first(Namespace::Parent, name, value.as_bytes(), room)
}

/// Returns the number of blocks to reserve for changing a parent pointer the long way: by an
/// intent, because the attributes do not fit in the inode.
#[must_use]
pub fn parent_blocks(geometry: &Geometry, name_bytes: usize) -> u64 {
    attribute_blocks(geometry, name_bytes, size_of::<ParentDisk>())
}

/// Returns the number of blocks that an owner must have left in its quota for a parent pointer. The
/// kernel demands the same number for names of up to 253 bytes. For longer names the kernel demands
/// a few blocks more.
#[doc(alias = "xfs_parent_calc_space_res")]
#[must_use]
pub fn parent_quota_blocks(geometry: &Geometry) -> u64 {
    attribute_quota_blocks(geometry, 0, size_of::<ParentDisk>())
        + map_blocks(geometry, ForkKind::Attr)
}

fn change(
    tx: &mut Transaction<'_>,
    child: &Arc<LiveInode>,
    old: Option<&ParentLink>,
    new: Option<&ParentLink>,
    path: ParentPath,
) -> Result<()> {
    if path == ParentPath::Direct {
        let mut store = LiveFork::new(tx, child, ForkKind::Attr);
        let values = (old.map(value), new.map(value));
        let key = old.zip(values.0.as_ref()).map(|(link, value)| AttributeKey {
            namespace: Namespace::Parent,
            name: &link.name,
            value: value.as_bytes(),
        });
        let entry = new.zip(values.1.as_ref()).map(|(link, value)| AttrEntry {
            namespace: Namespace::Parent,
            name: &link.name,
            value: AttrValue::Local(value.as_bytes()),
        });
        if AttributeChange::new(&mut store).change_short(key.as_ref(), entry.as_ref())? {
            return Ok(());
        }
    }
    tx.join(child.log_item());
    tx.defer(AttributeWork::new(child, old.map(attribute), new.map(attribute)));
    Ok(())
}

/// Returns the value of the attribute that stores a parent pointer.
fn value(link: &ParentLink) -> ParentDisk {
    ParentDisk { inode: link.inode.0.into(), generation: link.generation.into() }
}

/// Returns the attribute that stores a parent pointer.
fn attribute(link: &ParentLink) -> OwnedAttribute {
    OwnedAttribute {
        namespace: Namespace::Parent,
        name: link.name.clone(),
        value: value(link).as_bytes().into(),
    }
}
