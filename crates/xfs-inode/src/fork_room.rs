//! The division of the inode's literal area (all bytes after the core) between the two forks.
//!
//! Owns: the offsets at which the attribute fork may start, and the number of bytes that fit in
//! each fork. Does **not** own moving the attribute fork, which may change the form of either fork
//! ([`live`](crate::live)).
//!
//! ```text
//! 0            8·offset                          literal bytes
//! | data fork  |          attribute fork         |
//!   at least a root     at least a root
//!   of 3 children       of 2 children
//! ```
//!
//! The data fork keeps room for a root of three children, and the attribute fork for a root of two.
//! Each fork can therefore become a btree, whatever the other fork contains.

use xfs_format::Geometry;
use xfs_format::extent::{EXTENT_BYTES, EXTENT_ROOT_HEADER_BYTES};
use xfs_format::inode::{FORK_OFFSET_BYTES, ForkFormat, ForkKind, InodeCore};

/// The least number of children for which a data fork has room in the root of its btree.
#[doc(alias = "MINDBTPTRS")]
const DATA_ROOT_CHILDREN: usize = 3;
/// The least number of children for which an attribute fork has room in the root of its btree.
#[doc(alias = "MINABTPTRS")]
const ATTR_ROOT_CHILDREN: usize = 2;
/// The default size of the data fork in an inode that has an attribute fork. It is given as the
/// number of children for which a btree root of this size has room.
const USUAL_CHILDREN: usize = 6 * ATTR_ROOT_CHILDREN;
/// The smallest inode size, in bytes, at which a new attribute fork gets its default size. In
/// smaller inodes the fork is as small as possible: a root of two children.
const SMALL_INODE_BYTES: u32 = 512;
/// The offset, in units of 8 bytes, of the attribute fork of a device file. Its data fork is only a
/// device number.
const DEVICE_OFFSET: u8 = 1;

/// Returns the number of bytes that both forks have together in an inode.
#[doc(alias = "XFS_LITINO")]
pub(crate) fn literal_bytes(geometry: &Geometry) -> usize {
    (geometry.inode_size as usize).saturating_sub(geometry.inode_core_bytes())
}

/// Returns the number of bytes that a fork has in its inode.
#[doc(alias = "XFS_IFORK_SIZE")]
pub(crate) fn fork_bytes(core: &InodeCore, kind: ForkKind, geometry: &Geometry) -> usize {
    let (literal, offset) = (literal_bytes(geometry), offset_bytes(core.fork_offset));
    match kind {
        ForkKind::Data if core.has_attr_fork() => offset.min(literal),
        ForkKind::Data => literal,
        ForkKind::Attr if core.has_attr_fork() => literal.saturating_sub(offset),
        ForkKind::Attr => 0,
    }
}

/// Returns the number of children that a btree root of `bytes` bytes has room for.
pub(crate) const fn root_capacity(bytes: usize) -> usize {
    bytes.saturating_sub(EXTENT_ROOT_HEADER_BYTES) / EXTENT_BYTES
}

/// Returns the length in bytes of the root of an extent btree with `children` children, as the
/// inode stores it.
pub(crate) const fn root_bytes(children: usize) -> usize {
    EXTENT_ROOT_HEADER_BYTES + children * EXTENT_BYTES
}

const fn offset_bytes(offset: u8) -> usize {
    offset as usize * FORK_OFFSET_BYTES
}

/// Returns the offset, in units of 8 bytes, that a new attribute fork gets if the size of its
/// attributes is not known yet.
#[doc(alias = "xfs_default_attroffset")]
pub(crate) fn usual_offset(format: ForkFormat, geometry: &Geometry) -> u8 {
    let bytes = if format == ForkFormat::Device {
        offset_bytes(DEVICE_OFFSET)
    } else if geometry.inode_size < SMALL_INODE_BYTES {
        literal_bytes(geometry).saturating_sub(root_bytes(ATTR_ROOT_CHILDREN))
    } else {
        root_bytes(USUAL_CHILDREN)
    };
    (bytes / FORK_OFFSET_BYTES) as u8
}

/// The facts about a data fork that limit the offset of the attribute fork.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataUse {
    /// The form in which the data fork is stored.
    pub(crate) format: ForkFormat,
    /// Number of bytes that the data fork uses in the inode: for contents, records, or the used
    /// part of the root.
    pub(crate) bytes: usize,
}

/// Returns the lowest offset of the attribute fork, in units of 8 bytes, that leaves the data fork
/// enough room. Returns `None` if the attribute fork must stay where it is.
fn lowest_offset(core: &InodeCore, data: DataUse, geometry: &Geometry) -> Option<usize> {
    let needed = match data.format {
        ForkFormat::Device => return Some(usize::from(DEVICE_OFFSET)),
        ForkFormat::Btree if core.has_attr_fork() => return None,
        // Too many extents for this room become a btree, of which only the root stays.
        ForkFormat::Extents
            if !core.has_attr_fork()
                && data.bytes > offset_bytes(usual_offset(data.format, geometry)) =>
        {
            root_bytes(DATA_ROOT_CHILDREN)
        }
        _ => data.bytes,
    };
    Some(needed.max(root_bytes(DATA_ROOT_CHILDREN)).div_ceil(FORK_OFFSET_BYTES))
}

/// Returns the offset, in units of 8 bytes, at which the attribute fork has room for `attr_bytes`
/// bytes: the present offset if the bytes fit, or else the highest offset at which they fit.
/// Returns `None` if that offset leaves the data fork too little room. A device file has only one
/// offset.
#[doc(alias = "xfs_attr_shortform_bytesfit")]
pub(crate) fn offset_for(
    core: &InodeCore,
    data: DataUse,
    attr_bytes: usize,
    geometry: &Geometry,
) -> Option<u8> {
    let literal = literal_bytes(geometry);
    let highest = literal.saturating_sub(root_bytes(ATTR_ROOT_CHILDREN)) / FORK_OFFSET_BYTES;
    let fits = literal.checked_sub(attr_bytes)? / FORK_OFFSET_BYTES;
    if data.format != ForkFormat::Device
        && core.has_attr_fork()
        && attr_bytes <= fork_bytes(core, ForkKind::Attr, geometry)
    {
        return Some(core.fork_offset);
    }
    let lowest = lowest_offset(core, data, geometry)?;
    if data.format == ForkFormat::Device {
        return (fits >= lowest).then_some(DEVICE_OFFSET);
    }
    let offset = fits.min(highest);
    (offset >= lowest).then_some(offset as u8)
}

/// Returns the largest number of bytes that the attribute fork can have in the inode, if the fork
/// starts at the lowest offset that the data fork allows.
pub(crate) fn attr_room(core: &InodeCore, data: DataUse, geometry: &Geometry) -> usize {
    let now = fork_bytes(core, ForkKind::Attr, geometry);
    let most = lowest_offset(core, data, geometry)
        .map_or(0, |lowest| literal_bytes(geometry).saturating_sub(lowest * FORK_OFFSET_BYTES));
    now.max(most)
}

#[cfg(test)]
mod tests;
