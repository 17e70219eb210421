//! Parent pointers: one attribute per link of an inode, with the directory of the link.
//!
//! Owns: the value of such an attribute, and the hash by which these attributes are sorted. The
//! attribute's name is the name of the directory entry.
//!
//! ```text
//! 0 inode of the directory (8)  8 its generation (4)
//! ```

use core::mem::size_of;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::InodeNumber;
use crate::attr::{AttrEntry, AttrValue, Namespace};
pub use crate::checks::parent::ParentCheck;
use crate::corruption::{Corruption, Structure, StructureAddress};
use crate::directory::{MAX_NAME, name_hash, name_is_sound};

/// The value of a parent pointer.
#[doc(alias = "xfs_parent_rec")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct ParentDisk {
    pub inode: U64,
    pub generation: U32,
}

const _: () = assert!(size_of::<ParentDisk>() == 12);

/// A parent pointer. Its name is borrowed from the attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent<'a> {
    /// The inode number of the directory that has the link.
    pub inode: InodeNumber,
    /// The generation of the directory's inode.
    pub generation: u32,
    /// The name of the file in the directory that has the link.
    pub name: &'a [u8],
}

impl<'a> Parent<'a> {
    /// Decodes an attribute as a parent pointer. The result is `None` if the attribute is in
    /// another namespace.
    ///
    /// # Errors
    ///
    /// Returns an error if the attribute's value or name is not valid for a parent pointer.
    #[inline]
    pub fn decode(
        entry: &AttrEntry<'a>,
        place: StructureAddress,
    ) -> Result<Option<Self>, Corruption> {
        if entry.namespace != Namespace::Parent {
            return Ok(None);
        }
        let record = match entry.value {
            AttrValue::Local(value) => ParentDisk::ref_from_bytes(value).ok(),
            AttrValue::Remote { .. } => None,
        };
        let corrupt = |check: ParentCheck| Corruption::new(Structure::Parent, place, check);
        let Some(record) = record else {
            let length = entry.value.length_bytes();
            return Err(corrupt(ParentCheck::Length { length }));
        };
        let name = entry.name;
        if name.len() > MAX_NAME || !name_is_sound(name) {
            return Err(corrupt(ParentCheck::Name { length: name.len() }));
        }
        let inode = InodeNumber(record.inode.get());
        Ok(Some(Self { inode, generation: record.generation.get(), name }))
    }

    /// Returns the hash by which this parent pointer is sorted among the attributes.
    #[doc(alias = "xfs_parent_hashval")]
    #[must_use]
    pub fn hash(&self) -> u32 {
        let inode = self.inode.0;
        name_hash(self.name) ^ (inode >> 32) as u32 ^ inode as u32
    }
}

#[cfg(test)]
mod tests;
