//! The first inodes of a volume, and the metadata directory.
//!
//! Owns: which inode has which slot of the first chunks, the names of the metadata directory, and
//! the order in which the files get their blocks. Does **not** own: the choice of the blocks
//! ([`crate::VolumeLayout`]), or the bytes of inodes and files.
//!
//! ```text
//! without metadata directory   root, realtime bitmap, realtime summary
//! with metadata directory      root, metadata root -- in group 0
//!                              rtgroups, then for each realtime group n:
//!                              n.bitmap, n.summary, n.rmap, n.refcount -- in the group of the log
//! ```
//!
//! mkfs.xfs puts the directory `rtgroups` into the group of the log, and into group 0 if the log is
//! external. Its chunk is that of the root directory if both lie in one group.

use xfs_format::directory::data::entry_length;
use xfs_format::directory::short_form;
use xfs_format::{AgInode, AgNumber, Geometry, IncompatFeatures, RoCompatFeatures};

use crate::layout::{FileBlocks, FirstInodes};
use crate::plan::{GeometryError, RealtimePlan};

/// The name of the directory of realtime groups in the metadata root.
pub(crate) const GROUPS_DIRECTORY: &str = "rtgroups";
/// The number of inodes of a chunk. All first inodes of a group lie in one chunk.
const CHUNK_INODES: u64 = 64;

/// A kind of file that describes a realtime group. The variants are in the order of the inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RealtimeFileKind {
    Bitmap,
    Summary,
    ReverseMap,
    Refcount,
}

/// A file that describes a realtime group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RealtimeFile {
    pub(crate) kind: RealtimeFileKind,
    pub(crate) group: u32,
    pub(crate) name: String,
}

/// The directory `rtgroups` and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupsDirectory {
    /// The allocation group of the directory and of its files.
    pub(crate) group: AgNumber,
    /// The slot of the directory in the chunk of first inodes. The files follow.
    pub(crate) slot: u32,
    pub(crate) files: Vec<RealtimeFile>,
    /// The number of entries that fit into the inode. `None` if all of them fit; otherwise the
    /// directory has a block.
    pub(crate) short_form_limit: Option<usize>,
}

impl GroupsDirectory {
    /// Returns the directory and its files for a volume whose log lies in group `log_group`.
    ///
    /// # Errors
    ///
    /// [`GeometryError::RealtimeGroups`] if the files of the groups need more than one chunk of
    /// inodes. The error is returned before any name is made: the options can ask for 2^32 groups.
    pub(crate) fn new(
        geometry: &Geometry,
        realtime: &RealtimePlan,
        log_group: AgNumber,
    ) -> Result<Self, GeometryError> {
        let slot = if log_group.0 == 0 { 2 } else { 0 };
        let kinds = kinds(geometry);
        let max = (CHUNK_INODES - slot - 1) / kinds.len() as u64;
        let count = u64::from(realtime.group_count);
        if count > max {
            return Err(GeometryError::RealtimeGroups { count, max });
        }
        let file = |group: u32, kind: &RealtimeFileKind| {
            let name = format!("{group}.{}", kind.suffix());
            RealtimeFile { kind: *kind, group, name }
        };
        let groups = 0..realtime.group_count;
        let files: Vec<_> =
            groups.flat_map(|group| kinds.iter().map(move |kind| file(group, kind))).collect();
        let slot = slot as u32;
        let directory = Self { group: log_group, slot, files, short_form_limit: None };
        Ok(Self { short_form_limit: directory.find_limit(geometry), ..directory })
    }

    /// Returns the index of the first file whose entry does not fit into the inode. `None` if all
    /// entries fit.
    fn find_limit(&self, geometry: &Geometry) -> Option<usize> {
        let is_wide = geometry.join_inode(self.group, AgInode(0)).0 > u64::from(u32::MAX);
        let inode_bytes = if is_wide { size_of::<u64>() } else { size_of::<u32>() };
        let room = data_fork_bytes(geometry);
        let mut used = 2 + inode_bytes;
        self.files.iter().position(|file| {
            used += ENTRY_BYTES + file.name.len() + inode_bytes;
            used > room
        })
    }

    /// Returns the files that get blocks, in the order of their allocation. The files of a realtime
    /// group follow the inodes of that group. The directory gets a block when its entries no longer
    /// fit into the inode.
    fn blocks(&self, geometry: &Geometry, realtime: &RealtimePlan) -> Vec<FileBlocks> {
        let first = self.short_form_limit.and_then(|index| self.files.get(index));
        let limit_group = first.map(|file| file.group);
        let directory = FileBlocks { slot: self.slot, blocks: 1 << geometry.directory_block_log };
        let mut blocks = Vec::new();
        for (slot, file) in (self.slot + 1..).zip(&self.files) {
            let is_first = self.files.first().is_some_and(|first| first.kind == file.kind);
            if is_first && limit_group == Some(file.group) {
                blocks.push(directory);
            }
            match file.kind {
                RealtimeFileKind::Bitmap => {
                    blocks.push(FileBlocks { slot, blocks: realtime.bitmap_blocks });
                }
                RealtimeFileKind::Summary => {
                    blocks.push(FileBlocks { slot, blocks: realtime.summary_blocks });
                }
                RealtimeFileKind::ReverseMap | RealtimeFileKind::Refcount => {}
            }
        }
        blocks
    }
}

impl RealtimeFileKind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Bitmap => "bitmap",
            Self::Summary => "summary",
            Self::ReverseMap => "rmap",
            Self::Refcount => "refcount",
        }
    }
}

/// Number of bytes of a short form entry apart from its name and inode number: the bytes of the
/// name's length, of an offset and of the type.
const ENTRY_BYTES: usize = 4;
/// Start of the attribute fork of an inode that is made with an attribute, in units of 8 bytes.
#[doc(alias = "xfs_default_attroffset")]
pub(crate) const DEFAULT_FORK_OFFSET: u8 = 24;

/// Returns the number of bytes of the data fork of a metadata inode.
fn data_fork_bytes(geometry: &Geometry) -> usize {
    match geometry.incompat.contains(IncompatFeatures::PARENT) {
        true => usize::from(DEFAULT_FORK_OFFSET) * 8,
        false => geometry.inode_size as usize - xfs_format::inode::CORE_BYTES,
    }
}

fn kinds(geometry: &Geometry) -> Vec<RealtimeFileKind> {
    let optional = [
        (RoCompatFeatures::RMAPBT, RealtimeFileKind::ReverseMap),
        (RoCompatFeatures::REFLINK, RealtimeFileKind::Refcount),
    ];
    let optional = optional.iter().filter(|(feature, _)| geometry.has_ro_compat(*feature));
    let mut kinds = match geometry.has_incompat(IncompatFeatures::ZONED) {
        true => Vec::new(),
        false => vec![RealtimeFileKind::Bitmap, RealtimeFileKind::Summary],
    };
    kinds.extend(optional.map(|(_, kind)| *kind));
    kinds
}

/// Returns the first inodes of a volume without a metadata directory.
pub(crate) fn classic_inodes(realtime: &RealtimePlan) -> Vec<FirstInodes> {
    let files = [
        FileBlocks { slot: 1, blocks: realtime.bitmap_blocks },
        FileBlocks { slot: 2, blocks: realtime.summary_blocks },
    ];
    let files = files.into_iter().filter(|file| file.blocks != 0).collect();
    vec![FirstInodes { group: AgNumber(0), used: 3, files }]
}

/// Returns the first inodes of a volume with a metadata directory.
pub(crate) fn metadata_inodes(
    geometry: &Geometry,
    realtime: &RealtimePlan,
    directory: &GroupsDirectory,
) -> Vec<FirstInodes> {
    let used = directory.slot + 1 + directory.files.len() as u32;
    let groups =
        FirstInodes { group: directory.group, used, files: directory.blocks(geometry, realtime) };
    if directory.group.0 == 0 {
        return vec![groups];
    }
    vec![FirstInodes { group: AgNumber(0), used: 2, files: Vec::new() }, groups]
}

/// Returns the offsets in the directory block at which entries with these names lie.
pub(crate) fn entry_offsets<'a>(
    names: impl Iterator<Item = &'a str>,
) -> impl Iterator<Item = usize> {
    names.scan(short_form::FIRST_OFFSET, |next, name| {
        let offset = *next;
        *next += entry_length(name.len());
        Some(offset)
    })
}
