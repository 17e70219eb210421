//! The space that the files of sources need in a volume, computed without writing the files.
//!
//! Owns: the sums of blocks and inodes. Does **not** own: the space that an empty volume of a given
//! size has, or the choice of a size (`volume::mkfs`).
//!
//! The sums are upper bounds of what the writer allocates. Contents count in whole blocks. A
//! directory counts by the bytes of its names. An attribute that does not fit into its inode counts
//! as a block. The btrees of free space, inodes and reverse map are not counted: a volume reserves
//! their space.
//!
//! If the sources are layers of a container image, later layers may remove files of earlier ones.
//! So the sums rise and fall, and the largest sums decide. They are reached at the end of a layer,
//! or before a whiteout in it, because the files of a layer are written in the order of the layer.

use std::collections::{BTreeMap, HashMap};

use xfs_format::{IncompatFeatures, Superblock};

use crate::failure::Failure;
use crate::file::facts::{Facts, FileKind};
use crate::file::source::{Source, names_of};
use crate::import::archive::{ArchiveReader, Member, MemberKind};
use crate::import::policy::Policy;
use crate::text::size;

/// The bytes that an entry takes in a directory in addition to its name. They include its hash in
/// the index.
const ENTRY_BYTES: u64 = 20;
/// The bytes of an extent in a map.
const EXTENT_BYTES: u64 = 16;
/// The size in bytes of the core of an inode. The rest of the inode is for its forks.
const INODE_CORE_BYTES: u64 = 176;
/// The bytes of an attribute without its name and its value.
const ATTRIBUTE_BYTES: u64 = 16;
/// The number of inodes that are allocated together.
const CHUNK_INODES: u64 = 64;

/// The sums of blocks and inodes over the files of all sources.
#[derive(Debug)]
pub(crate) struct Census {
    block_bytes: u64,
    directory_block_bytes: u64,
    inode_bytes: u64,
    groups: u64,
    has_parent_pointers: bool,
    /// The blocks of files: contents, maps, attributes, link targets.
    blocks: u64,
    inodes: u64,
    /// The count of the names in each directory, and their bytes, by the path of the directory.
    directories: HashMap<Vec<u8>, (u64, u64)>,
    /// The files by path, if the sources are layers.
    layered: Option<BTreeMap<Vec<u8>, LayeredFile>>,
    /// The number of layers that have ended.
    layer: u64,
    /// The largest sums so far: of blocks, and of inodes.
    peak: (u64, u64),
}

/// A file of a layer, which whiteouts of later layers may hide.
#[derive(Debug)]
struct LayeredFile {
    blocks: u64,
    /// The number of the last layer that has the file.
    layer: u64,
}

/// The space that files need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) blocks: u64,
    pub(crate) inodes: u64,
}

impl Census {
    /// Creates empty sums for a volume with the properties of `superblock`. `are_layers` says
    /// whether later sources may remove or replace files of earlier ones.
    pub(crate) fn new(superblock: &Superblock, are_layers: bool) -> Self {
        let geometry = &superblock.geometry;
        Self {
            block_bytes: geometry.block_size.into(),
            directory_block_bytes: u64::from(geometry.block_size) << geometry.directory_block_log,
            inode_bytes: geometry.inode_size.into(),
            groups: geometry.ag_count.into(),
            has_parent_pointers: superblock.incompat.contains(IncompatFeatures::PARENT),
            blocks: 0,
            inodes: 0,
            directories: HashMap::new(),
            layered: are_layers.then(BTreeMap::new),
            layer: 0,
            peak: (0, 0),
        }
    }

    /// Adds the tree below the directory `source`, whose path in the image is `top`.
    ///
    /// # Errors
    ///
    /// None: a file that cannot be read is left out here, and reported when it is copied.
    pub(crate) fn add_tree<S: Source>(&mut self, top: &[u8], source: &S, policy: &Policy) {
        let Ok(entries) = source.entries() else { return };
        let mut levels = vec![(top.to_vec(), entries)];
        while let Some((path, entries)) = levels.last_mut() {
            let Some(entry) = entries.next() else {
                levels.pop();
                continue;
            };
            let Ok((name, source)) = entry else { continue };
            let path = [path.as_slice(), b"/", &name].concat();
            let is_directory = source.facts().kind() == FileKind::Directory;
            let below = path.get(top.len()..).unwrap_or_default();
            if !policy.filter.takes(below, is_directory) {
                continue;
            }
            self.add_file(&path, &source);
            if is_directory && let Ok(entries) = source.entries() {
                levels.push((path, entries));
            }
        }
    }

    /// Adds the members of an archive. With `has_whiteouts`, it is a layer of a container image.
    ///
    /// # Errors
    ///
    /// An archive that cannot be read.
    pub(crate) fn add_archive(
        &mut self,
        top: &[u8],
        archive: &mut ArchiveReader,
        policy: &Policy,
        has_whiteouts: bool,
    ) -> Result<(), Failure> {
        while let Some(member) = archive.next()? {
            crate::interrupt::check()?;
            if matches!(member.kind, MemberKind::LeftOut(_)) {
                continue;
            }
            if has_whiteouts && self.hide(&path_below(top, &member.path)) {
                continue;
            }
            if !policy.filter.takes(&member.path, member.kind == MemberKind::Directory) {
                continue;
            }
            let path = path_below(top, &member.path);
            match &member.kind {
                MemberKind::HardLink(_) => self.add_name(&path, 0),
                _ => self.add_file::<Member<'_>>(&path, &member),
            }
        }
        Ok(())
    }

    /// Removes the files of lower layers that a whiteout at `path` hides. Returns false if the path
    /// is not that of a whiteout.
    fn hide(&mut self, path: &[u8]) -> bool {
        let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        let (above, name) = path.split_at(at);
        let Some(hidden) = name.strip_prefix(b".wh.") else { return false };
        self.note_peak();
        match hidden {
            b".wh..opq" => self.remove_below(above),
            hidden => {
                let path = [above, hidden].concat();
                self.remove(&path);
            }
        }
        true
    }

    /// Removes the file of a lower layer at `path`, and those below it.
    fn remove(&mut self, path: &[u8]) {
        self.remove_one(path);
        self.remove_below(&[path, b"/"].concat());
    }

    fn remove_below(&mut self, start: &[u8]) {
        let Some(layered) = &self.layered else { return };
        let below = layered.range(start.to_vec()..).take_while(|(path, _)| path.starts_with(start));
        for path in below.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.remove_one(&path);
        }
    }

    /// Removes the file at `path`, unless it belongs to the current layer: the writer keeps such a
    /// file too.
    fn remove_one(&mut self, path: &[u8]) {
        let Some(layered) = &mut self.layered else { return };
        if layered.get(path).is_some_and(|file| file.layer < self.layer)
            && let Some(file) = layered.remove(path)
        {
            self.blocks -= file.blocks;
            self.inodes -= 1;
        }
    }

    /// Ends a layer. The sums at its end are compared with the largest ones so far.
    pub(crate) fn end_layer(&mut self) {
        self.note_peak();
        self.layer += 1;
    }

    fn note_peak(&mut self) {
        self.peak = (self.peak.0.max(self.blocks), self.peak.1.max(self.inodes));
    }

    /// Adds one file at `path`.
    pub(crate) fn add_file<S: Source>(&mut self, path: &[u8], source: &S) {
        let facts = source.facts();
        let blocks = self.contents(&facts, source) + self.attributes(&facts, source);
        self.add_name(path, blocks);
    }

    /// Adds a file with the name `path` and this number of blocks. A hard link counts like a file
    /// of its own, with an inode.
    fn add_name(&mut self, path: &[u8], blocks: u64) {
        let file = LayeredFile { blocks, layer: self.layer };
        let old = self.layered.as_mut().and_then(|layered| layered.insert(path.to_vec(), file));
        self.blocks += blocks;
        match old {
            Some(old) => self.blocks -= old.blocks,
            None => {
                self.inodes += 1;
                let at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                let (above, name) = path.split_at(at);
                let sum = self.directories.entry(above.to_vec()).or_default();
                sum.0 += 1;
                sum.1 += name.len() as u64;
            }
        }
    }

    /// Returns the blocks for the contents of a file, or the target of a link.
    fn contents<S: Source>(&self, facts: &Facts, source: &S) -> u64 {
        let room = self.inode_bytes - INODE_CORE_BYTES;
        match facts.kind() {
            // The inode may hold attributes beside the target.
            FileKind::Symlink => {
                facts.size.max(1).div_ceil(self.block_bytes) * u64::from(facts.size > room / 2)
            }
            FileKind::Regular => {
                let is_dense = facts.blocks * 512 >= facts.size && facts.blocks > 0;
                if is_dense {
                    return facts.size.div_ceil(self.block_bytes);
                }
                let (mut blocks, mut extents, mut offset) = (0, 0_u64, 0);
                let end = source.length().unwrap_or(facts.size);
                while let Ok(Some(range)) = source.data_after(offset) {
                    let (first, last) = (range.start, range.end.min(end));
                    if first >= last {
                        break;
                    }
                    blocks += last.div_ceil(self.block_bytes) - first / self.block_bytes;
                    extents += 1;
                    offset = last;
                }
                let map = if extents > 8 { extents * 2 * EXTENT_BYTES } else { 0 };
                blocks + map.div_ceil(self.block_bytes)
            }
            _ => 0,
        }
    }

    /// Returns the blocks for attributes that do not fit into the inode.
    fn attributes<S: Source>(&self, facts: &Facts, source: &S) -> u64 {
        let values = source.attributes();
        let sizes = values.iter().flatten().map(|attribute| {
            attribute.name.len() as u64 + attribute.value.len() as u64 + ATTRIBUTE_BYTES
        });
        let total: u64 = sizes.sum();
        let room = (self.inode_bytes - INODE_CORE_BYTES) / 3;
        match (facts.kind(), total) {
            (_, total) if total <= room => 0,
            (_, total) => total.div_ceil(self.block_bytes) + 1,
        }
    }

    /// Adds to a failure for lack of space how much space all files need.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        let bytes = self.need().blocks.saturating_mul(self.block_bytes);
        failure.more(&format!("; all files need about {}", size::human(bytes)))
    }

    /// Returns the space that all files need.
    pub(crate) fn need(&self) -> Need {
        let (files, inodes) = (self.peak.0.max(self.blocks), self.peak.1.max(self.inodes) + 1);
        let room = (self.inode_bytes - INODE_CORE_BYTES) / 2;
        let directories: u64 = self
            .directories
            .values()
            .map(|(count, bytes)| {
                let total = count * ENTRY_BYTES + bytes;
                match total <= room {
                    true => 0,
                    // Blocks of the index may be half full.
                    false => {
                        let index = count * 16 / self.directory_block_bytes;
                        let blocks = total.div_ceil(self.directory_block_bytes) + index + 1;
                        blocks * (self.directory_block_bytes / self.block_bytes)
                    }
                }
            })
            .sum();
        let parents = if self.has_parent_pointers { inodes / 64 } else { 0 };
        let chunk = CHUNK_INODES * self.inode_bytes / self.block_bytes;
        let chunks = inodes.div_ceil(CHUNK_INODES) * chunk + self.groups * chunk;
        let blocks = files + directories + parents + chunks;
        // Freed and free inodes are in btrees, whose space is small but not reserved everywhere.
        Need { blocks: blocks + blocks / 128 + 64, inodes }
    }
}

/// Returns the path that a member of an archive gets in the image. `top` is the directory that the
/// archive goes into.
fn path_below(top: &[u8], path: &[u8]) -> Vec<u8> {
    let mut whole = top.to_vec();
    for part in names_of(path) {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    whole
}

#[cfg(test)]
mod tests;
