//! Computes the paths of inodes from their links: parent directory and name.
//!
//! Owns: the table of all directories, and the walk up through it. Does **not** own: the origin of
//! the links. Parent pointers and directory entries look the same here.
//!
//! A directory takes 32 bytes and its name. Its path length is computed once, from the path length
//! of its parent. This computation finds cycles and broken chains before any path is written. With
//! the length known, a path is written from its last name to its first into a buffer of the right
//! size. Files of one directory tend to have adjacent rows, so each worker caches the paths of
//! recent directories.
//!
//! # Invariants
//!
//! - Directories are sorted by inode number, and each is in the table once.
//! - **I2** A directory with a path length has a parent with a shorter path, so walks up end.

use crate::batch::Link;
use crate::row::ByteList;

/// The longest path of a directory, in bytes, that is shown. A longer path is a finding.
pub(crate) const MAX_PATH_BYTES: u32 = 64 << 10;

/// Number of directory paths that a worker caches.
const CACHED_PATHS: usize = 256;

const NO_PARENT: u32 = u32::MAX;
/// The first special value of the field `path_length`. Values from this one on are not lengths:
/// they say why the directory has no path.
const FIRST_BROKEN: u32 = u32::MAX - 4;
const UNKNOWN: u32 = u32::MAX - 4;
const IN_PROGRESS: u32 = u32::MAX - 3;
const CYCLE: u32 = u32::MAX - 2;
const TOO_LONG: u32 = u32::MAX - 1;
const UNREACHABLE: u32 = u32::MAX;

/// The directories of one unit of work, each with its first link: a parent directory and its name
/// there.
#[derive(Default)]
pub(crate) struct DirectoryPart {
    records: Vec<PartRecord>,
    names: Vec<u8>,
}

struct PartRecord {
    ino: u64,
    parent: u64,
    generation: u32,
    parent_generation: u32,
    name_start: usize,
    name_length: u8,
}

impl DirectoryPart {
    /// Returns the number of bytes of memory that the table of all directories needs for these
    /// directories, including the memory to construct it.
    pub(crate) fn memory_bytes(&self) -> usize {
        let each = size_of::<PartRecord>() + size_of::<Directory>() + size_of::<(u64, u32)>();
        self.records.len() * each + 2 * self.names.len()
    }

    /// Adds a directory. Directories must be added in ascending order of their inode numbers.
    pub(crate) fn push(&mut self, ino: u64, generation: u32, link: Option<Link<'_>>) {
        let link = link.unwrap_or(Link { parent: u64::MAX, parent_generation: 0, name: b"" });
        self.records.push(PartRecord {
            ino,
            parent: link.parent,
            generation,
            parent_generation: link.parent_generation,
            name_start: self.names.len(),
            name_length: u8::try_from(link.name.len()).unwrap_or(u8::MAX),
        });
        self.names.extend_from_slice(link.name);
    }
}

struct Directory {
    ino: u64,
    name_start: usize,
    /// Index of the parent directory in the table.
    parent: u32,
    generation: u32,
    /// Length of the path in bytes (0 for the root), or a value from `FIRST_BROKEN` on that gives
    /// the reason why the directory has no path.
    path_length: u32,
    name_length: u8,
}

/// All directories of a volume.
pub(crate) struct DirectoryTable {
    directories: Vec<Directory>,
    names: Vec<u8>,
}

/// The reason why a link leads to no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPath {
    /// The parent is not a directory of this volume.
    Missing,
    /// The parent's inode number now belongs to another directory, as its generation shows.
    Stale,
    /// The parent is its own ancestor.
    Cycle,
    /// The path is too long to show.
    TooLong,
    /// The parent itself has no path. Another finding gives the reason.
    Unreachable,
}

impl DirectoryTable {
    /// Joins `parts`, which must be in the order of inode numbers. Computes which directories have
    /// paths.
    pub(crate) fn new(parts: Vec<DirectoryPart>, root: u64) -> Self {
        let count = parts.iter().map(|part| part.records.len()).sum();
        let name_bytes = parts.iter().map(|part| part.names.len()).sum();
        let mut table =
            Self { directories: Vec::with_capacity(count), names: Vec::with_capacity(name_bytes) };
        let mut parents = Vec::with_capacity(count);
        for part in parts {
            let names_start = table.names.len();
            table.names.extend_from_slice(&part.names);
            for record in part.records {
                parents.push((record.parent, record.parent_generation));
                table.directories.push(Directory {
                    ino: record.ino,
                    name_start: names_start + record.name_start,
                    parent: NO_PARENT,
                    generation: record.generation,
                    path_length: if record.ino == root { 0 } else { UNKNOWN },
                    name_length: record.name_length,
                });
            }
        }
        table.find_parents(&parents);
        table.measure();
        table
    }

    /// Returns the number of directories.
    pub(crate) fn len(&self) -> usize {
        self.directories.len()
    }

    /// Returns the index of the directory `ino` in the table, or `None` if the table does not have
    /// it.
    pub(crate) fn position(&self, ino: u64) -> Option<usize> {
        self.directories.binary_search_by_key(&ino, |directory| directory.ino).ok()
    }

    /// Returns the index of a directory's parent, or `None` if it has none.
    pub(crate) fn parent(&self, position: usize) -> Option<usize> {
        let directory = self.directories.get(position)?;
        (directory.parent != NO_PARENT).then_some(directory.parent as usize)
    }

    /// Returns the inode number of the directory with this index, or `None` if the index is too
    /// large.
    pub(crate) fn ino(&self, position: usize) -> Option<u64> {
        self.directories.get(position).map(|directory| directory.ino)
    }

    /// Returns the indexes of all directories that have a path, the longest path first.
    pub(crate) fn by_descending_path_length(&self) -> Vec<usize> {
        let mut positions: Vec<usize> = (0..self.directories.len()).collect();
        positions.retain(|&position| self.path_length(position) < FIRST_BROKEN);
        positions.sort_unstable_by_key(|&position| std::cmp::Reverse(self.path_length(position)));
        positions
    }

    /// Returns the path of a directory, or an empty path if no path leads to it.
    pub(crate) fn path(&self, ino: u64) -> Vec<u8> {
        let mut path = Vec::new();
        let position = self.position(ino);
        let written = position.map(|position| self.write_prefix(position, &mut path));
        if written != Some(Ok(())) {
            return Vec::new();
        }
        if path.len() > 1 {
            path.pop();
        }
        path
    }

    fn path_length(&self, position: usize) -> u32 {
        self.directories.get(position).map_or(UNREACHABLE, |directory| directory.path_length)
    }

    fn find_parents(&mut self, parents: &[(u64, u32)]) {
        let mut last = (u64::MAX, NO_PARENT);
        for (index, &(parent, generation)) in parents.iter().enumerate() {
            // Neighbours often have the same parent.
            if last.0 != parent {
                let position = self.position(parent).and_then(|at| u32::try_from(at).ok());
                last = (parent, position.unwrap_or(NO_PARENT));
            }
            let found = self.directories.get(last.1 as usize);
            let is_current = found.is_some_and(|found| is_generation(generation, found.generation));
            if let Some(directory) = self.directories.get_mut(index)
                && is_current
            {
                directory.parent = last.1;
            }
        }
    }

    /// Computes the path length of every directory, or the reason why the directory has no path.
    fn measure(&mut self) {
        let mut chain = Vec::new();
        for index in 0..self.directories.len() {
            let mut at = index;
            while let Some(directory) = self.directories.get_mut(at)
                && directory.path_length == UNKNOWN
            {
                directory.path_length = IN_PROGRESS;
                chain.push(at);
                at = directory.parent as usize;
            }
            // The walk stopped at a measured directory, at a missing parent, or at a directory of
            // this chain.
            let mut length = self.directories.get(at).map_or(UNREACHABLE, |last| last.path_length);
            let mut in_cycle = length == IN_PROGRESS;
            while let Some(member) = chain.pop() {
                let Some(directory) = self.directories.get_mut(member) else { continue };
                length = if in_cycle { CYCLE } else { lengthen(length, directory.name_length) };
                directory.path_length = length;
                if in_cycle && member == at {
                    in_cycle = false;
                }
            }
        }
    }

    /// Writes the path of a directory into `prefix`, followed by a slash. Returns the reason if the
    /// directory has no path.
    fn write_prefix(&self, position: usize, prefix: &mut Vec<u8>) -> Result<(), NoPath> {
        let Some(directory) = self.directories.get(position) else { return Err(NoPath::Missing) };
        match directory.path_length {
            CYCLE => return Err(NoPath::Cycle),
            TOO_LONG => return Err(NoPath::TooLong),
            FIRST_BROKEN.. => return Err(NoPath::Unreachable),
            _ => {}
        }
        prefix.clear();
        prefix.resize(directory.path_length as usize + 1, b'/');
        let mut end = directory.path_length as usize;
        let mut at = directory;
        while end != 0 {
            let name_end = at.name_start + usize::from(at.name_length);
            let name = self.names.get(at.name_start..name_end).unwrap_or_default();
            let start = end.saturating_sub(name.len());
            if let Some(place) = prefix.get_mut(start..end)
                && place.len() == name.len()
            {
                place.copy_from_slice(name);
            }
            // The slash before the name is already there.
            end = start.saturating_sub(1);
            match self.directories.get(at.parent as usize) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        Ok(())
    }
}

/// Computes the path length of a directory from that of its parent, which is smaller (I2), and from
/// the length of the directory's name. If the directory has no path, returns the value from
/// `FIRST_BROKEN` on that says why.
fn lengthen(parent_length: u32, name_length: u8) -> u32 {
    if parent_length == CYCLE {
        return UNREACHABLE;
    }
    if parent_length >= FIRST_BROKEN {
        return parent_length;
    }
    let length = parent_length + 1 + u32::from(name_length);
    if length > MAX_PATH_BYTES { TOO_LONG } else { length }
}

/// Returns whether a link with the parent generation `stated` refers to a directory of generation
/// `actual`. A stated generation of 0 matches any.
fn is_generation(stated: u32, actual: u32) -> bool {
    stated == 0 || stated == actual
}

/// Writes the paths of inodes for one worker thread, and caches the paths of recent directories.
pub(crate) struct PathWriter<'a> {
    table: &'a DirectoryTable,
    cached: Vec<CachedPath>,
}

#[derive(Clone)]
struct CachedPath {
    ino: u64,
    generation: u32,
    result: Result<(), NoPath>,
    prefix: Vec<u8>,
}

impl<'a> PathWriter<'a> {
    pub(crate) fn new(table: &'a DirectoryTable) -> Self {
        let empty = CachedPath {
            ino: u64::MAX,
            generation: 0,
            result: Err(NoPath::Missing),
            prefix: Vec::new(),
        };
        Self { table, cached: vec![empty; CACHED_PATHS] }
    }

    /// Appends to `paths` the path of the link: that of its parent directory, and its name. Returns
    /// the generation of the parent directory, or the reason why the link has no path.
    #[inline]
    pub(crate) fn push_path(
        &mut self,
        link: &Link<'_>,
        paths: &mut ByteList,
    ) -> Result<u32, NoPath> {
        // Inode numbers of directories are often multiples of 32 or 64, so mix the bits.
        let mixed = link.parent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        let Some(slot) = self.cached.get_mut(mixed as usize) else {
            return Err(NoPath::Missing);
        };
        if slot.ino != link.parent {
            fill(slot, self.table, link.parent);
        }
        slot.result?;
        if !is_generation(link.parent_generation, slot.generation) {
            return Err(NoPath::Stale);
        }
        paths.push_with(|bytes| {
            bytes.extend_from_slice(&slot.prefix);
            bytes.extend_from_slice(link.name);
        });
        Ok(slot.generation)
    }
}

fn fill(slot: &mut CachedPath, table: &DirectoryTable, ino: u64) {
    slot.ino = ino;
    let position = table.position(ino);
    slot.generation = position
        .and_then(|position| table.directories.get(position))
        .map_or(0, |directory| directory.generation);
    slot.result = match position {
        Some(position) => table.write_prefix(position, &mut slot.prefix),
        None => Err(NoPath::Missing),
    };
}

#[cfg(test)]
mod tests;
