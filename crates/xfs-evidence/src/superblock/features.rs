//! The features and sizes that inodes and directories show on a volume that has no superblock left.
//!
//! Owns: finding the features that the inodes of the volume use, the alignment of inode chunks, and
//! the size of directory blocks. Does **not** own: the log and the root directory.
//!
//! The new superblock has a feature only if a structure uses it. A feature that no structure uses
//! is lost, which does no harm.
//!
//! ```text
//! sparse chunks     a record of the inode btree has its count of inodes where the full form has 0
//! alignment         the starts of all chunks
//! directory block   the length for which the checksum of a directory's first block is right
//! BIGTIME, NREXT64  a flag in the inode
//! PARENT            a parent pointer among the attributes
//! ATTR              an inode with an attribute fork
//! ```

use xfs_format::inode::{FileType, ForkKind, InodeFlags2};
use xfs_format::inode_chunk::{InodeChunk, InodeChunks};
use xfs_format::{AgInode, AgNumber, Check, FileBlock, FsBlock, crc};

use crate::inode::{InodeEvidence, InodeState};
use crate::sweep::BlockIdentity;
use crate::volume::Evidence;

/// The largest number of inodes with a name that are examined for parent pointers. If none of them
/// has one, the volume does not have the feature.
const MOST_WITHOUT_PARENT: u32 = 1 << 10;
/// Base-2 logarithm of the longest directory block in bytes.
const MAX_DIRECTORY_BLOCK_LOG: u8 = 16;
/// Offset of the checksum in the data block of a directory.
const DIRECTORY_CRC: usize = 4;

/// The features and sizes that the inodes of a volume show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) has_big_times: bool,
    pub(super) has_large_counts: bool,
    pub(super) has_parents: bool,
    pub(super) has_attributes: bool,
    /// Whether an inode with the realtime flag was found.
    pub(super) has_realtime: bool,
    pub(super) has_metadata_directory: bool,
    /// Base-2 logarithm of the blocks in a directory block. `None` if no directory has blocks.
    pub(super) directory_block_log: Option<u8>,
    without_parent: u32,
}

impl Shown {
    /// Returns whether further inodes need not be read, because they cannot change the result. The
    /// realtime section and the metadata directory are not considered.
    const fn is_settled(&self) -> bool {
        self.has_big_times
            && self.has_large_counts
            && self.has_attributes
            && self.directory_block_log.is_some()
            && (self.has_parents || self.without_parent >= MOST_WITHOUT_PARENT)
    }

    fn add(&mut self, evidence: &Evidence<'_>, inode: &InodeEvidence) {
        // An inode of the metadata directory fails the checks of a volume without the feature.
        if let InodeState::Doubtful(core, failed) = &inode.state {
            let is_whole = !matches!(failed.check(), Check::Checksum { .. });
            self.has_metadata_directory |= is_whole && core.flags2.contains(InodeFlags2::METADATA);
        }
        let InodeState::Sound(core) = &inode.state else { return };
        self.has_big_times |= core.flags2.contains(InodeFlags2::BIGTIME);
        self.has_large_counts |= core.flags2.contains(InodeFlags2::NREXT64);
        self.has_realtime |= core.is_realtime();
        self.has_attributes |= core.has_attr_fork();
        let is_directory = core.file_type() == Some(FileType::Directory);
        if is_directory && self.directory_block_log.is_none() {
            self.directory_block_log = directory_block_log(evidence, inode);
        }
        // A file without contents can be an inode of the volume, which has no name.
        let is_named = is_directory || core.size > 0;
        if !self.has_parents && is_named && self.without_parent < MOST_WITHOUT_PARENT {
            let attributes = evidence.attributes(inode);
            self.has_parents = !attributes.parents.is_empty();
            self.without_parent += u32::from(attributes.is_whole());
        }
    }
}

/// The form and the alignment of the volume's inode chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    pub(super) is_sparse: bool,
    /// The largest power of two such that every chunk starts at a multiple of it, in blocks.
    pub(super) alignment_blocks: u32,
}

/// Reads the inode btrees, once with the feature of sparse chunks (`sparse`) and once without it
/// (`full`). The form counts in which more records pass their checks. Returns `None` if there is no
/// record.
pub(super) fn chunks(sparse: &Evidence<'_>, full: &Evidence<'_>) -> Option<Chunks> {
    let geometry = sparse.geometry();
    let count = |evidence: &Evidence<'_>| {
        let (mut count, mut places) = (0_u64, 0_u32);
        for group in geometry.groups() {
            evidence.group_records::<InodeChunks>(group, |chunk, _| {
                count += 1;
                places |= geometry.ag_inode_block(chunk.start).0;
            });
        }
        (count, places)
    };
    let (of_sparse, of_full) = (count(sparse), count(full));
    let is_sparse = of_sparse.0 >= of_full.0;
    let (found, places) = if is_sparse { of_sparse } else { of_full };
    let alignment_blocks = if places == 0 { u32::MAX } else { 1 << places.trailing_zeros() };
    (found > 0).then_some(Chunks { is_sparse, alignment_blocks })
}

/// Reads the inodes of the volume until further ones cannot change the result.
pub(super) fn of_inodes(evidence: &Evidence<'_>) -> Shown {
    let mut shown = Shown::default();
    for group in evidence.geometry().groups() {
        if shown.is_settled() {
            break;
        }
        of_group(evidence, group, &mut shown);
    }
    shown
}

fn of_group(evidence: &Evidence<'_>, group: AgNumber, shown: &mut Shown) {
    let geometry = evidence.geometry();
    let mut chunks: Vec<InodeChunk> = Vec::new();
    evidence.group_records::<InodeChunks>(group, |chunk, _| chunks.push(*chunk));
    for chunk in chunks {
        let allocated = chunk.allocated();
        for index in (0..64).filter(|index| allocated >> index & 1 == 1) {
            let number = geometry.join_inode(group, AgInode(chunk.start.0 + index));
            shown.add(evidence, &evidence.inode(number));
        }
        if shown.is_settled() {
            return;
        }
    }
}

/// Returns the length of a directory block, as the base-2 logarithm of its number of filesystem
/// blocks. It is the length with which the checksum of the directory's first block is right.
/// Returns `None` if the directory has no blocks or its first block is damaged.
fn directory_block_log(evidence: &Evidence<'_>, inode: &InodeEvidence) -> Option<u8> {
    let geometry = evidence.geometry();
    let map = evidence.extents(inode, ForkKind::Data);
    let mut bytes = Vec::new();
    for log in 0..=MAX_DIRECTORY_BLOCK_LOG.saturating_sub(geometry.block_log) {
        for block in (bytes.len() >> geometry.block_log)..(1 << log) {
            let extent = map.find(FileBlock(block as u64))?;
            let offset = block as u64 - extent.file_block.0;
            let (block, _) = evidence.read_block(FsBlock(extent.start.0 + offset)).ok()?;
            bytes.extend(block);
        }
        let is_right = crc::stored(&bytes, DIRECTORY_CRC) == crc::compute(&bytes, DIRECTORY_CRC);
        if is_right && BlockIdentity::of(&bytes).is_some() {
            return Some(log);
        }
    }
    None
}
