//! The short form of a directory. Each change rewrites the whole directory, which is a few hundred
//! bytes.
//!
//! Owns: the cookies of entries, which are the offsets that the entries would have in a data block.
//! Does **not** own the bytes (`xfs_format::directory::short_form`).

use xfs_format::directory::short_form::{FIRST_OFFSET, encode};
use xfs_format::directory::{Cookie, DirectoryForm, Entry, EntryType, ShortForm};
use xfs_format::{Geometry, InodeNumber, StructureAddress};

use super::{NewEntry, data, index};

/// Number of bytes at the end of a block in block form, after its index.
const TAIL: usize = 8;

/// An entry of the short form that owns its name.
#[derive(Clone, Debug)]
pub(crate) struct ShortEntry {
    pub(super) name: Box<[u8]>,
    pub(super) inode: InodeNumber,
    pub(super) entry_type: EntryType,
    pub(super) cookie: Cookie,
}

impl ShortEntry {
    fn as_entry(&self) -> Entry<'_> {
        let Self { name, inode, entry_type, cookie } = self;
        Entry { name, inode: *inode, entry_type: *entry_type, cookie: *cookie }
    }

    pub(super) fn as_new(&self) -> NewEntry<'_> {
        NewEntry { name: &self.name, inode: self.inode, entry_type: self.entry_type }
    }

    fn end(&self) -> usize {
        self.cookie.offset() as usize + data::length_of(&self.name)
    }
}

impl From<Entry<'_>> for ShortEntry {
    fn from(entry: Entry<'_>) -> Self {
        let Entry { name, inode, entry_type, cookie } = entry;
        Self { name: name.into(), inode, entry_type, cookie }
    }
}

/// A decoded directory in short form.
#[derive(Clone, Debug)]
pub(crate) struct Short {
    pub(super) parent: InodeNumber,
    pub(super) entries: Vec<ShortEntry>,
}

impl Short {
    pub(super) fn decode(
        bytes: &[u8],
        place: StructureAddress,
        geometry: &Geometry,
    ) -> xfs_buffer::Result<Self> {
        let form = ShortForm::decode(bytes, place, DirectoryForm::V5)?;
        form.verify(geometry)?;
        let mut entries = Vec::with_capacity(usize::from(form.count()) + 1);
        for entry in form.entries() {
            entries.push(ShortEntry::from(entry?));
        }
        Ok(Self { parent: form.parent(), entries })
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        encode(self.parent, self.entries.iter().map(ShortEntry::as_entry))
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        self.entries.iter().position(|entry| *entry.name == *name)
    }

    /// Adds an entry after the other entries, or in the first sufficiently long gap between the
    /// cookies of other entries. Returns `false` if a block of `block_bytes` bytes would not have
    /// room for all entries.
    pub(super) fn insert(&mut self, entry: &NewEntry<'_>, block_bytes: usize) -> bool {
        let length = data::length_of(entry.name);
        let end = self.entries.last().map_or(FIRST_OFFSET, ShortEntry::end);
        let room = block_bytes - TAIL - index::ENTRY * (self.entries.len() + 3);
        let (position, offset) = if end + length <= room {
            (self.entries.len(), end)
        } else {
            match self.first_gap(length) {
                Some(gap) if end <= room => gap,
                _ => return false,
            }
        };
        let NewEntry { name, inode, entry_type } = *entry;
        let cookie = Cookie((offset >> 3) as u32);
        let entry = ShortEntry { name: name.into(), inode, entry_type, cookie };
        self.entries.insert(position, entry);
        true
    }

    fn first_gap(&self, length: usize) -> Option<(usize, usize)> {
        let mut end = FIRST_OFFSET;
        for (position, entry) in self.entries.iter().enumerate() {
            if end + length <= entry.cookie.offset() as usize {
                return Some((position, end));
            }
            end = entry.end();
        }
        None
    }
}
