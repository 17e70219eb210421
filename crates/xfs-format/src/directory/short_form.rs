//! The short form: a small directory inside its inode.
//!
//! Owns: decoding and iteration. `.` and `..` have no entries: `.` is the inode itself, and `..` is
//! the parent in the header.
//!
//! ```text
//! 0 count  1 wide count  2 parent (4 bytes, or 8 if the wide count is not 0)
//! then each: 0 name length  1 offset  3 name  .. type byte  .. inode (4 or 8)
//! ```
//!
//! Entries of a v4 volume may lack the type byte.
//!
//! # Invariants
//!
//! - **I1** The wide count is the number of inode numbers, including the parent's, that need more
//!   than 32 bits. If the count is not 0, all inode numbers are stored in 8 bytes.
//! - **I2** An entry stores the offset at which it will lie in a data block if the directory leaves
//!   the short form. The cookie of the entry therefore stays valid. The offsets of the entries
//!   ascend.

use alloc::vec;
use alloc::vec::Vec;

use zerocopy::big_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::leaf::HashEntryDisk;
use super::{
    ALIGNMENT, Cookie, DirectoryCheck, DirectoryForm, DuplicateName, Entry, EntryType, EntryTypes,
    find_duplicate_names, name_hash, name_is_sound,
};
use crate::addr::InodeNumber;
use crate::corruption::{Check, Corruption, Structure, StructureAddress};
use crate::geometry::Geometry;
use crate::short_form::short_form_iterator;

/// Length of the two counts before the parent, in bytes.
const COUNTS: usize = 2;

/// The lowest offset that an entry in short form can store on a v5 volume: the offset that the
/// entry would have in a data block.
pub const FIRST_OFFSET: usize = DirectoryForm::V5.first_offset();

/// The fields of an entry before its name.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EntryHeadDisk {
    name_length: u8,
    offset: [u8; 2],
}

/// A short form directory, borrowed from its inode.
#[doc(alias = "xfs_dir2_sf_hdr")]
#[derive(Clone, Copy, Debug)]
pub struct ShortForm<'a> {
    bytes: &'a [u8],
    place: StructureAddress,
    count: u8,
    wide_count: u8,
    parent: InodeNumber,
    form: DirectoryForm,
}

/// Encodes a directory without entries in short form.
#[must_use]
pub fn encode_empty(parent: InodeNumber) -> Vec<u8> {
    encode(parent, core::iter::empty())
}

/// Encodes a directory with these entries in short form. The entries must be sorted by cookie.
///
/// # Panics
///
/// Panics if there are more than 255 entries, or a cookie is past the first 64 KiB. Such
/// directories do not fit the short form.
#[must_use]
pub fn encode<'e>(
    parent: InodeNumber,
    entries: impl Iterator<Item = Entry<'e>> + Clone,
) -> Vec<u8> {
    let wide_entries = entries.clone().filter(|entry| is_wide(entry.inode)).count();
    let wide_count = wide_entries + usize::from(is_wide(parent));
    let byte = |number: usize| u8::try_from(number).expect("a short form has at most 255 entries");
    let push = |bytes: &mut Vec<u8>, inode: InodeNumber| {
        let wide = inode.0.to_be_bytes();
        let narrow = if wide_count == 0 { size_of::<u32>() } else { 0 };
        bytes.extend(wide.iter().skip(narrow));
    };
    let mut bytes = vec![byte(entries.clone().count()), byte(wide_count)];
    push(&mut bytes, parent);
    for Entry { name, inode, entry_type, cookie } in entries {
        let offset = u16::try_from(cookie.offset()).expect("the offset is below 64 KiB");
        let head = EntryHeadDisk { name_length: byte(name.len()), offset: offset.to_be_bytes() };
        bytes.extend(head.as_bytes());
        bytes.extend(name);
        bytes.push(entry_type.to_disk());
        push(&mut bytes, inode);
    }
    bytes
}

impl<'a> ShortForm<'a> {
    /// The cookie of `.` on a v5 volume. The short form stores no entry for `.`.
    pub const DOT_COOKIE: Cookie = DirectoryForm::V5.dot_cookie();

    /// The cookie of `..` on a v5 volume. The short form stores no entry for `..`.
    pub const PARENT_COOKIE: Cookie = DirectoryForm::V5.parent_cookie();

    /// Decodes the header. `bytes` are the whole directory: the number of bytes that the inode
    /// states as its size.
    ///
    /// # Errors
    ///
    /// Returns an error if `bytes` are too few for the header.
    pub fn decode(
        bytes: &'a [u8],
        place: StructureAddress,
        form: DirectoryForm,
    ) -> Result<Self, Corruption> {
        let truncated = || {
            let check = Check::Truncated { available: bytes.len(), needed: COUNTS + 4 };
            Corruption::new(Structure::Directory, place, check)
        };
        let ([count, wide_count], rest) = match bytes.split_first_chunk() {
            Some((counts, rest)) => (*counts, rest),
            None => return Err(truncated()),
        };
        let (parent, _) = read_inode(rest, wide_count != 0).ok_or_else(truncated)?;
        Ok(Self { bytes, place, count, wide_count, parent, form })
    }

    /// Returns the parent directory.
    #[must_use]
    pub fn parent(&self) -> InodeNumber {
        self.parent
    }

    /// Returns the number of entries, without `.` and `..`.
    #[must_use]
    pub fn count(&self) -> u8 {
        self.count
    }

    /// Returns the entries in the order of their cookies, without `.` and `..`. Iteration ends
    /// after the first error.
    #[must_use]
    pub fn entries(&self) -> ShortFormEntries<'a> {
        let offset = COUNTS + inode_bytes(self.wide_count != 0);
        let rest = self.bytes.get(offset..).unwrap_or_default();
        ShortFormEntries { form: *self, rest, left: self.count, lowest: self.form.first_offset() }
    }

    /// Finds the entry with this name. The result is `None` if there is no such entry.
    ///
    /// # Errors
    ///
    /// Returns an error if an entry before the wanted one cannot be read.
    pub fn find(&self, name: &[u8]) -> Result<Option<Entry<'a>>, Corruption> {
        for entry in self.entries() {
            let entry = entry?;
            if self.form.names.matches(entry.name, name) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Returns the readable entries with the name of an earlier entry.
    ///
    /// A set of 1024 bits, indexed by hash, recognises most directories without duplicates. Names
    /// are compared only if two hashes agree in ten bits, and no memory is allocated before that.
    #[must_use]
    pub fn duplicate_names(&self) -> Vec<DuplicateName> {
        let mut seen = [0_u64; 16];
        let mut is_new = |entry: &Entry<'_>| {
            let hash = name_hash(entry.name);
            // The hashes of short names differ in the low bits, those of long names in any bits.
            let slot = (hash ^ (hash >> 10) ^ (hash >> 20)) as usize;
            let Some(word) = seen.get_mut(slot / 64 % 16) else { return false };
            let bit = 1 << (slot % 64);
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        };
        let mut entries = self.entries().map_while(Result::ok);
        if entries.all(|entry| is_new(&entry)) {
            return Vec::new();
        }
        let entries = self.entries().map_while(Result::ok);
        let mut doubled =
            find_duplicate_names(entries.map(|entry| (entry.name, entry.cookie)).collect());
        doubled.sort_unstable();
        doubled
    }

    /// Checks the whole directory and its wide count (I1), except for duplicate names.
    ///
    /// # Errors
    ///
    /// Returns the first check that failed.
    pub fn verify(&self, geometry: &Geometry) -> Result<(), Corruption> {
        let mut entries = self.entries();
        let mut wide_count = u32::from(is_wide(self.parent));
        if geometry.split_inode(self.parent).is_none() {
            let check = DirectoryCheck::EntryInode { offset: COUNTS, inode: self.parent.0 };
            return Err(self.corrupt(check));
        }
        loop {
            let offset = self.bytes.len() - entries.rest.len();
            let Some(entry) = entries.next() else { break };
            let entry = entry?;
            if geometry.split_inode(entry.inode).is_none() {
                let check = DirectoryCheck::EntryInode { offset, inode: entry.inode.0 };
                return Err(self.corrupt(check));
            }
            wide_count += u32::from(is_wide(entry.inode));
        }
        // The directory must fit one block, because the next change may convert it to block form.
        let index = (usize::from(self.count) + 2) * size_of::<HashEntryDisk>() + 8;
        let fits = entries.lowest + index <= geometry.directory_block_size() as usize;
        // I1: the wide count is that of the entries and the parent.
        if !fits || !entries.rest.is_empty() || wide_count != u32::from(self.wide_count) {
            let (count, wide, size) = (self.count, self.wide_count, self.bytes.len());
            return Err(self.corrupt(DirectoryCheck::ShortForm { count, wide, size }));
        }
        Ok(())
    }

    #[cold]
    fn corrupt(&self, check: DirectoryCheck) -> Corruption {
        Corruption::new(Structure::Directory, self.place, check)
    }
}

/// Iterator over the entries of a short form directory.
#[derive(Clone, Debug)]
pub struct ShortFormEntries<'a> {
    form: ShortForm<'a>,
    rest: &'a [u8],
    left: u8,
    lowest: usize,
}

impl<'a> ShortFormEntries<'a> {
    fn parse(&mut self) -> Result<Entry<'a>, DirectoryCheck> {
        let (offset, end) = (self.form.bytes.len() - self.rest.len(), self.form.bytes.len());
        let outside = DirectoryCheck::RecordEnd { offset, end };
        let (head, rest) = EntryHeadDisk::ref_from_prefix(self.rest).map_err(|_| outside)?;
        let (name, rest) = rest.split_at_checked(head.name_length.into()).ok_or(outside)?;
        let (type_byte, rest) = match self.form.form.types {
            EntryTypes::Stored => rest.split_first().ok_or(outside)?,
            EntryTypes::Absent => (&EntryType::Unknown.to_disk(), rest),
        };
        let (inode, rest) = read_inode(rest, self.form.wide_count != 0).ok_or(outside)?;
        if name.is_empty() {
            return Err(DirectoryCheck::NameEmpty { offset });
        }
        if !name_is_sound(name) {
            return Err(DirectoryCheck::NameBytes { offset });
        }
        let cookie_offset = u16::from_be_bytes(head.offset);
        // I2: offsets ascend.
        if usize::from(cookie_offset) < self.lowest || cookie_offset % ALIGNMENT as u16 != 0 {
            return Err(DirectoryCheck::ShortFormOrder { offset, cookie_offset });
        }
        let entry_type = EntryType::from_disk(*type_byte)
            .ok_or(DirectoryCheck::TypeByte { offset, type_byte: *type_byte })?;
        self.rest = rest;
        self.lowest = usize::from(cookie_offset) + self.form.form.entry_length(name.len());
        Ok(Entry { name, inode, entry_type, cookie: Cookie(u32::from(cookie_offset) >> 3) })
    }
}

short_form_iterator!(ShortFormEntries, Entry);

const fn inode_bytes(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

fn is_wide(inode: InodeNumber) -> bool {
    inode.0 > u64::from(u32::MAX)
}

fn read_inode(bytes: &[u8], wide: bool) -> Option<(InodeNumber, &[u8])> {
    if wide {
        let (inode, rest) = U64::ref_from_prefix(bytes).ok()?;
        // The highest of the 8 bytes is not part of the number.
        Some((InodeNumber(inode.get() & 0x00ff_ffff_ffff_ffff), rest))
    } else {
        let (inode, rest) = U32::ref_from_prefix(bytes).ok()?;
        Some((InodeNumber(inode.get().into()), rest))
    }
}

#[cfg(test)]
mod tests;
