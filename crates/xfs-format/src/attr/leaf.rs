//! Leaves: attributes ordered by the hash of their names.
//!
//! Owns: decoding, search and the checks of one leaf.
//!
//! ```text
//!  0 common header (see dabtree)  56 count  58 used bytes  60 first used  62 holes  63 pad
//! 64 free [3] { base, size }  76 pad  80 { hash, name offset (2), flags, pad } ...
//! v4: 0 links (see dabtree)  12 count .. 20 free [3]  32 { hash, name offset (2), flags, pad } ...
//! names, from the end of the block down:
//!    local:  0 value length (2)  2 name length  3 name .. value
//!    remote: 0 value block  4 value length  8 name length  9 name
//! ```
//!
//! # Invariants
//!
//! - **I1** Entries are sorted by hash.
//! - **I2** Names lie between "first used" and the end of the block and do not overlap. A "first
//!   used" of 0 means 65536, the end of the largest block.
//! - **I3** A name with a remote value takes two bytes more than its fields. These bytes are
//!   padding that became part of the format.
//!
//! The free ranges in the header are only a hint. Kernels before 2026 could leave overlapping or
//! stale ranges, so the only check is that the ranges lie inside the block.

use alloc::vec::Vec;
use core::mem::size_of;

use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::short_form::verify_flags;
use super::{ALIGNMENT, AttrCheck, AttrEntry, AttrFlags, AttrValue, MAX_VALUE, Namespace};
use crate::addr::{DiskAddr, FileBlock, InodeNumber};
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::dabtree::{self, DaHeaderDisk, DaLinksDisk};
use crate::directory::name_hash;
use crate::envelope;
use crate::verify_context::VerifyContext;

/// Magic number of a leaf.
#[doc(alias = "XFS_ATTR3_LEAF_MAGIC")]
pub const LEAF_MAGIC: u16 = 0x3bee;

/// Magic number of a leaf on a v4 volume.
#[doc(alias = "XFS_ATTR_LEAF_MAGIC")]
pub const LEAF_MAGIC_V4: u16 = 0xfbee;

/// The header of a leaf.
#[doc(alias = "xfs_attr3_leaf_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct AttrLeafHeaderDisk {
    pub header: DaHeaderDisk,
    pub count: U16,
    pub used_bytes: U16,
    pub first_used: U16,
    pub holes: u8,
    pub pad: u8,
    pub free: [AttrFreeDisk; 3],
    pub pad2: U32,
}

impl AttrLeafHeaderDisk {
    /// Turns a block of an attribute tree into an empty leaf without siblings. The owner and the
    /// address in its header stay.
    pub fn empty(block: &mut [u8]) {
        let length = block.len();
        let Ok((leaf, names)) = Self::mut_from_prefix(block) else {
            unreachable!("a block is longer than the header of a leaf");
        };
        names.fill(0);
        let base = size_of::<Self>() as u16;
        let free =
            AttrFreeDisk { base: base.into(), size: ((length - usize::from(base)) as u16).into() };
        let none = AttrFreeDisk { base: 0.into(), size: 0.into() };
        let mut header = leaf.header;
        (header.forward, header.back) = (0.into(), 0.into());
        header.magic = LEAF_MAGIC.into();
        *leaf = Self {
            header,
            count: 0.into(),
            used_bytes: 0.into(),
            // The end of the largest block does not fit 16 bits and becomes 0 (I2).
            first_used: (length as u16).into(),
            holes: 0,
            pad: 0,
            free: [free, none, none],
            pad2: 0.into(),
        };
    }
}

/// A free range of a leaf, as the leaf's header lists it.
#[doc(alias = "xfs_attr_leaf_map")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct AttrFreeDisk {
    pub base: U16,
    pub size: U16,
}

/// An entry of a leaf.
#[doc(alias = "xfs_attr_leaf_entry")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
#[allow(missing_docs, reason = "the module's diagram shows the layout")]
pub struct AttrLeafEntryDisk {
    pub hash: U32,
    pub name_offset: U16,
    pub flags: u8,
    pub pad: u8,
}

/// The fields before a name whose value is local.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LocalHeadDisk {
    value_length: U16,
    name_length: u8,
}

/// The fields before a name whose value is remote.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RemoteHeadDisk {
    value_block: U32,
    value_length: U32,
    name_length: u8,
}

/// The fields that follow the common header in leaves of both versions.
#[doc(alias = "xfs_attr_leaf_hdr")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AttrLeafFieldsDisk {
    count: U16,
    used_bytes: U16,
    first_used: U16,
    holes: u8,
    pad: u8,
    free: [AttrFreeDisk; 3],
}

const _: () = assert!(size_of::<AttrLeafFieldsDisk>() == 20);
const _: () = assert!(size_of::<AttrLeafHeaderDisk>() == 80);
const _: () = assert!(size_of::<AttrLeafEntryDisk>() == 8);
/// Length of the header of a leaf on a v4 volume, in bytes.
const HEADER_BYTES_V4: usize = size_of::<DaLinksDisk>() + size_of::<AttrLeafFieldsDisk>();
const LOCAL_HEAD: usize = size_of::<LocalHeadDisk>();
const REMOTE_HEAD: usize = size_of::<RemoteHeadDisk>();
/// Number of bytes that a name with a remote value takes beyond its fields (I3).
const REMOTE_PADDING: usize = 2;

/// A leaf of attributes, borrowed from its buffer.
#[doc(alias = "xfs_attr3_leafblock")]
#[derive(Clone, Copy, Debug)]
pub struct AttrLeaf<'a> {
    bytes: &'a [u8],
    magic: u16,
    fields: &'a AttrLeafFieldsDisk,
    /// Length of the header in bytes.
    header_bytes: usize,
    entries: &'a [AttrLeafEntryDisk],
    place: StructureAddress,
}

impl<'a> AttrLeaf<'a> {
    /// Decodes the leaf in `bytes`, which are the whole block.
    ///
    /// # Errors
    ///
    /// Returns an error if the magic number is wrong or the count does not fit the block.
    pub fn decode(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Corruption> {
        Self::parse(bytes, place).map_err(|check| Corruption::new(Structure::Attr, place, check))
    }

    fn parse(bytes: &'a [u8], place: StructureAddress) -> Result<Self, Check> {
        let needed = size_of::<AttrLeafHeaderDisk>();
        let truncated = || Check::Truncated { available: bytes.len(), needed };
        let magic = dabtree::magic(bytes).ok_or_else(truncated)?;
        let (common_bytes, header_bytes) = match magic {
            LEAF_MAGIC => (size_of::<DaHeaderDisk>(), needed),
            LEAF_MAGIC_V4 => (size_of::<DaLinksDisk>(), HEADER_BYTES_V4),
            found => {
                return Err(Check::Magic { found: found.into(), expected: LEAF_MAGIC.into() });
            }
        };
        let fields = bytes.get(common_bytes..).and_then(|rest| {
            AttrLeafFieldsDisk::ref_from_prefix(rest).ok().map(|(fields, _)| fields)
        });
        let (Some(fields), Some(rest)) = (fields, bytes.get(header_bytes..)) else {
            return Err(truncated());
        };
        let count = fields.count.get();
        match <[AttrLeafEntryDisk]>::ref_from_prefix_with_elems(rest, count.into()) {
            Ok((entries, _)) => Ok(Self { bytes, magic, fields, header_bytes, entries, place }),
            Err(_) => Err(AttrCheck::Count { count, first_used: first_used(fields) }.into()),
        }
    }

    /// Returns the owner inode in the header. A leaf of a v4 volume names no owner.
    #[must_use]
    pub fn owner(&self) -> Option<InodeNumber> {
        dabtree::owner(self.bytes)
    }

    /// Returns the next leaf in the order of hashes, or `None` for the last leaf.
    #[must_use]
    pub fn forward(&self) -> Option<FileBlock> {
        dabtree::forward(self.bytes)
    }

    /// Returns the hashes of the first and the last entry, or `None` if there are no entries.
    #[must_use]
    pub fn hash_range(&self) -> Option<(u32, u32)> {
        Some((self.entries.first()?.hash.get(), self.entries.last()?.hash.get()))
    }

    /// Returns the attributes in the order of their hashes, without incomplete ones. An entry that
    /// cannot be read yields an error, and iteration continues after it.
    pub fn entries(&self) -> impl Iterator<Item = Result<AttrEntry<'a>, Corruption>> + use<'a> {
        self.select(0..self.entries.len()).map(|(_, entry)| entry)
    }

    /// Returns the attributes with this hash. See [`entries`](Self::entries) for errors.
    pub fn find(
        &self,
        hash: u32,
    ) -> impl Iterator<Item = Result<AttrEntry<'a>, Corruption>> + use<'a> {
        self.find_indexed(hash).map(|(_, entry)| entry)
    }

    /// Returns the attributes with this hash, each with its index among the entries.
    pub fn find_indexed(
        &self,
        hash: u32,
    ) -> impl Iterator<Item = (usize, Result<AttrEntry<'a>, Corruption>)> + use<'a> {
        let start = self.entries.partition_point(|entry| entry.hash.get() < hash);
        let end = self.entries.partition_point(|entry| entry.hash.get() <= hash);
        self.select(start..end)
    }

    /// Returns the attribute to which a table entry of this leaf points. `entry` may also be a
    /// corrected copy of a table entry.
    ///
    /// # Errors
    ///
    /// Returns an error if the entry's flags or the attribute are invalid.
    pub fn attribute(&self, entry: &AttrLeafEntryDisk) -> Result<AttrEntry<'a>, Corruption> {
        let parsed = self.parse_entry(0, entry).map(|(attribute, _)| attribute);
        parsed.map_err(|check| Corruption::new(Structure::Attr, self.place, check))
    }

    /// Returns the length of the header in bytes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        self.header_bytes
    }

    /// Returns the free ranges that the header lists.
    #[must_use]
    pub const fn free_ranges(&self) -> &'a [AttrFreeDisk; 3] {
        &self.fields.free
    }

    /// Returns the entries on disk, including incomplete ones.
    #[must_use]
    pub fn table(&self) -> &'a [AttrLeafEntryDisk] {
        self.entries
    }

    /// Returns the range of bytes in the block that holds the name of entry `index`, together with
    /// its value or the location of its value.
    ///
    /// # Errors
    ///
    /// Returns an error if the range does not lie inside the block.
    pub fn name_range(&self, index: usize) -> Result<core::ops::Range<usize>, Corruption> {
        let offset = self.entries.get(index).map_or(0, |entry| entry.name_offset.get());
        let outside = AttrCheck::NamePlace { index, offset };
        let parsed = match self.entries.get(index) {
            Some(entry) => self.parse_entry(index, entry).map(|(_, length)| length),
            None => Err(outside),
        };
        let range = parsed.map(|length| offset.into()..usize::from(offset) + length);
        range
            .and_then(|range| if range.end <= self.bytes.len() { Ok(range) } else { Err(outside) })
            .map_err(|check| Corruption::new(Structure::Attr, self.place, check))
    }

    fn select(
        &self,
        range: core::ops::Range<usize>,
    ) -> impl Iterator<Item = (usize, Result<AttrEntry<'a>, Corruption>)> + use<'a> {
        let leaf = *self;
        let selected = self.entries.get(range.clone()).expect("the range lies in the table");
        range.zip(selected).filter(|(_, entry)| !is_incomplete(entry)).map(move |(index, entry)| {
            let parsed = leaf.parse_entry(index, entry);
            let entry = parsed
                .map(|(entry, _)| entry)
                .map_err(|check| Corruption::new(Structure::Attr, leaf.place, check));
            (index, entry)
        })
    }

    /// Parses the attribute of an entry. Returns the attribute, and the number of bytes in the
    /// block that hold its name together with its value or the location of its value.
    fn parse_entry(
        &self,
        index: usize,
        entry: &AttrLeafEntryDisk,
    ) -> Result<(AttrEntry<'a>, usize), AttrCheck> {
        let offset = entry.name_offset.get();
        let outside = AttrCheck::NamePlace { index, offset };
        let allowed = AttrFlags::LOCAL | AttrFlags::INCOMPLETE;
        let namespace = verify_flags(entry.flags, allowed)
            .ok_or(AttrCheck::Flags { index, flags: entry.flags })?;
        let rest = self.bytes.get(offset.into()..).ok_or(outside)?;
        let (name, value, length) = if entry.flags & AttrFlags::LOCAL.bits() != 0 {
            split_local(rest).ok_or(outside)?
        } else {
            split_remote(rest).ok_or(outside)?
        };
        if name.is_empty() {
            return Err(AttrCheck::NameEmpty { index });
        }
        // The name of a parent pointer is the name of a directory entry. Other names must not hold
        // a NUL either, because they are passed on as C strings.
        if name.contains(&0) {
            return Err(AttrCheck::NameBytes { index });
        }
        if let AttrValue::Remote { first_block, length_bytes } = value {
            // An attribute that is being created has no blocks yet.
            let unset = first_block.0 == 0 && !is_incomplete(entry);
            if unset || length_bytes > MAX_VALUE || namespace == Namespace::Parent {
                let block = first_block.0 as u32;
                return Err(AttrCheck::RemoteValue { index, block, length: length_bytes });
            }
        }
        Ok((AttrEntry { namespace, name, value }, length))
    }
}

fn is_incomplete(entry: &AttrLeafEntryDisk) -> bool {
    entry.flags & AttrFlags::INCOMPLETE.bits() != 0
}

fn first_used(fields: &AttrLeafFieldsDisk) -> u32 {
    match fields.first_used.get() {
        0 => 1 << 16,
        offset => offset.into(),
    }
}

/// Encodes a name together with its value, or with the location of its value, and adds padding.
/// [`AttrLeaf::name_range`] finds these bytes again. Returns the bytes and the flags of the entry.
///
/// # Panics
///
/// Panics if the length of name or value does not fit its field.
#[must_use]
pub fn encode_name(entry: &AttrEntry<'_>) -> (Vec<u8>, AttrFlags) {
    let name_length = u8::try_from(entry.name.len()).expect("a name has at most 255 bytes");
    let flags = entry.namespace.flags();
    let mut bytes = Vec::new();
    match entry.value {
        AttrValue::Local(value) => {
            let length = u16::try_from(value.len()).expect("a local value lies in a block");
            let head = LocalHeadDisk { value_length: length.into(), name_length };
            bytes.extend(head.as_bytes());
            bytes.extend(entry.name);
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
            (bytes, flags | AttrFlags::LOCAL)
        }
        AttrValue::Remote { first_block, length_bytes } => {
            let block = u32::try_from(first_block.0).expect("a block of the fork has 32 bits");
            let head = RemoteHeadDisk {
                value_block: block.into(),
                value_length: length_bytes.into(),
                name_length,
            };
            bytes.extend(head.as_bytes());
            bytes.extend(entry.name);
            bytes.resize((bytes.len() + REMOTE_PADDING).next_multiple_of(ALIGNMENT), 0);
            (bytes, flags)
        }
    }
}

/// Returns whether a value of this length is stored next to a name of this length in a block of
/// `block_bytes`.
#[doc(alias = "xfs_attr_leaf_entsize_local_max")]
#[must_use]
pub const fn is_local(name_bytes: usize, value_bytes: usize, block_bytes: usize) -> bool {
    let length = (LOCAL_HEAD + name_bytes + value_bytes).next_multiple_of(ALIGNMENT);
    length < block_bytes / 2 + block_bytes / 4
}

/// A name, its value, and the number of bytes that both occupy in the block.
type NameAndValue<'a> = (&'a [u8], AttrValue<'a>, usize);

fn split_local(rest: &[u8]) -> Option<NameAndValue<'_>> {
    let (head, rest) = LocalHeadDisk::ref_from_prefix(rest).ok()?;
    let (name, rest) = rest.split_at_checked(head.name_length.into())?;
    let (value, _) = rest.split_at_checked(head.value_length.get().into())?;
    let length = LOCAL_HEAD + name.len() + value.len();
    Some((name, AttrValue::Local(value), length.next_multiple_of(ALIGNMENT)))
}

fn split_remote(rest: &[u8]) -> Option<NameAndValue<'_>> {
    let (head, rest) = RemoteHeadDisk::ref_from_prefix(rest).ok()?;
    let (name, _) = rest.split_at_checked(head.name_length.into())?;
    let first_block = FileBlock(head.value_block.get().into());
    let value = AttrValue::Remote { first_block, length_bytes: head.value_length.get() };
    let length = REMOTE_HEAD + name.len() + REMOTE_PADDING;
    Some((name, value, length.next_multiple_of(ALIGNMENT)))
}

/// Checks a leaf that was read from `at`.
pub(crate) fn verify(bytes: &[u8], at: DiskAddr, context: &VerifyContext<'_>) -> Result<(), Check> {
    let leaf = AttrLeaf::parse(bytes, StructureAddress::Disk(at))?;
    envelope::verify_version(dabtree::version_of(leaf.magic), context)?;
    dabtree::ENVELOPE.verify(bytes, at, context)?;
    verify_header(&leaf)?;
    Ok(verify_entries(&leaf)?)
}

fn verify_header(leaf: &AttrLeaf<'_>) -> Result<(), AttrCheck> {
    let block_size = leaf.bytes.len();
    let first_used = first_used(leaf.fields);
    let table_end = leaf.header_bytes + size_of_val(leaf.entries);
    if first_used as usize > block_size {
        return Err(AttrCheck::FirstUsed { first_used, block_size });
    }
    if (first_used as usize) < table_end {
        return Err(AttrCheck::Count { count: leaf.fields.count.get(), first_used });
    }
    for (index, free) in leaf.fields.free.iter().enumerate() {
        let (base, size) = (free.base.get(), free.size.get());
        let inside = usize::from(base) + usize::from(size) <= block_size;
        let aligned =
            base.is_multiple_of(ALIGNMENT as u16) && size.is_multiple_of(ALIGNMENT as u16);
        if !inside || !aligned {
            return Err(AttrCheck::FreeRange { index, base, size });
        }
    }
    Ok(())
}

/// Checks that the entries are sorted by hash (I1) and that their names do not overlap (I2).
fn verify_entries(leaf: &AttrLeaf<'_>) -> Result<(), AttrCheck> {
    let first_used = first_used(leaf.fields) as usize;
    let mut taken = TakenCells::default();
    let (mut previous, mut found) = (0, 0);
    for (index, entry) in leaf.entries.iter().enumerate() {
        let (hash, offset) = (entry.hash.get(), entry.name_offset.get());
        // I1: entries are sorted by hash.
        if hash < previous {
            return Err(AttrCheck::HashOrder { index, hash, previous });
        }
        previous = hash;
        let start = usize::from(offset);
        if start < first_used || !start.is_multiple_of(ALIGNMENT) {
            return Err(AttrCheck::NamePlace { index, offset });
        }
        let (parsed, length) = leaf.parse_entry(index, entry)?;
        if start + length > leaf.bytes.len() {
            return Err(AttrCheck::NamePlace { index, offset });
        }
        // I2: names do not overlap.
        if !taken.take(start / ALIGNMENT, length / ALIGNMENT) {
            return Err(AttrCheck::NameOverlap { index, offset });
        }
        found += length;
        if parsed.namespace != Namespace::Parent && name_hash(parsed.name) != hash {
            let computed = name_hash(parsed.name);
            return Err(AttrCheck::Hash { index, hash, computed });
        }
    }
    let used = leaf.fields.used_bytes.get();
    if usize::from(used) != found {
        return Err(AttrCheck::UsedBytes { used, found });
    }
    Ok(())
}

/// The 4-byte cells of a block that belong to a name, one bit for each cell. There are enough bits
/// for the largest block, 64 KiB.
struct TakenCells([u64; 256]);

impl Default for TakenCells {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl TakenCells {
    /// Marks `count` cells from cell `first` on as taken. Returns `false` if one of them was taken
    /// before or lies outside the largest block.
    fn take(&mut self, first: usize, count: usize) -> bool {
        (first..first + count).all(|cell| {
            let Some(word) = self.0.get_mut(cell / 64) else { return false };
            let bit = 1 << (cell % 64);
            let was_free = *word & bit == 0;
            *word |= bit;
            was_free
        })
    }
}
