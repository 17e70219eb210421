//! The model of a volume: its inodes, forks, names and parent pointers, as far as these can be
//! read.
//!
//! Owns: one pass over all inodes. Does **not** own: decisions about what is right.
//!
//! The model is in memory. Its size grows with the number of inodes and names, unlike the memory of
//! the checker.

use std::collections::BTreeMap;

use xfs_evidence::{Damage, Evidence, ForkEvidence, InodeEvidence, RealtimeTreeBlocks};
use xfs_format::extent::Extent;
use xfs_format::geometry::INODES_PER_CHUNK;
use xfs_format::inode::{FileType, ForkFormat, ForkKind, InodeCore};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{
    AgInode, AgNumber, BASIC_BLOCK_BYTES, DiskAddr, FsBlock, Geometry, Group, InodeNumber,
    StructureAddress,
};

use crate::error::RepairError;
use crate::patient::Patient;

/// The state of an inode that belongs to a known chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InodeState {
    /// The inode passes its checks.
    Sound,
    /// The bytes decode as an inode with the right inode number, but a check fails.
    Doubtful,
    /// The bytes are not an inode, or have the number of another inode.
    Gone,
}

/// Returns whether an inode without a mode has links, blocks or extents. A freed inode has none.
pub(crate) const fn holds_something(core: &InodeCore) -> bool {
    core.nlink != 0 || core.blocks != 0 || core.extents != 0 || core.attr_extents != 0
}

/// A fork of an inode, as far as it could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelFork {
    /// The extents in the order of the file.
    pub(crate) extents: Vec<Extent>,
    /// The blocks of the fork's btree.
    pub(crate) btree_blocks: Vec<FsBlock>,
    /// The blocks in which damage of the fork's extent map was found: damaged blocks to which the
    /// btree points, and blocks that do not belong to the btree.
    pub(crate) damaged_blocks: Vec<FsBlock>,
    /// Whether all extents of the fork are known.
    pub(crate) is_whole: bool,
}

impl ModelFork {
    fn of(found: ForkEvidence, geometry: &Geometry) -> Self {
        let is_whole = found.missing.is_empty() && found.doubtful.is_empty();
        let damages = found.damages.iter();
        let damaged_blocks = damages.filter_map(|damage| damaged_block(damage, geometry)).collect();
        Self { extents: found.extents, btree_blocks: found.tree_blocks, damaged_blocks, is_whole }
    }

    /// Returns the fork of a metadata inode that holds a btree of other records than extents.
    fn of_records(found: RealtimeTreeBlocks) -> Self {
        let RealtimeTreeBlocks { tree_blocks, damaged_blocks, is_whole } = found;
        Self { extents: Vec::new(), btree_blocks: tree_blocks, damaged_blocks, is_whole }
    }
}

/// Returns the block in which a damage of an extent map was found. `None` if it was found in the
/// root of the btree, which lies in the inode.
fn damaged_block(damage: &Damage, geometry: &Geometry) -> Option<FsBlock> {
    let at = match damage {
        Damage::Corrupt(corruption) => match corruption.address() {
            StructureAddress::Disk(at) => at,
            _ => return None,
        },
        Damage::Unread { range, .. } => DiskAddr(range.start / u64::from(BASIC_BLOCK_BYTES)),
        _ => return None,
    };
    let (group, block) = geometry.split_disk_addr(at)?;
    Some(geometry.join_block(group, block))
}

/// An inode in use, or one that cannot be read.
#[derive(Clone, Debug)]
pub(crate) struct ModelInode {
    /// The state of the inode: sound, doubtful or gone.
    pub(crate) state: InodeState,
    /// The core; `None` if the inode is gone.
    pub(crate) core: Option<InodeCore>,
    /// The data fork.
    pub(crate) data: ModelFork,
    /// The attribute fork.
    pub(crate) attr: ModelFork,
}

impl ModelInode {
    /// Returns whether the data fork maps blocks of the realtime section.
    pub(crate) fn is_realtime(&self) -> bool {
        self.core.as_ref().is_some_and(InodeCore::is_realtime)
    }
}

/// A name in a directory, other than `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModelName {
    /// The directory that contains the name.
    pub(crate) directory: InodeNumber,
    /// The name.
    pub(crate) name: Vec<u8>,
    /// The inode that the entry names.
    pub(crate) child: InodeNumber,
    /// The raw type byte of the entry.
    pub(crate) entry_type: u8,
}

/// A parent pointer of an inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ModelParent {
    /// The inode that has the pointer.
    pub(crate) child: InodeNumber,
    /// The directory to which the pointer leads.
    pub(crate) directory: InodeNumber,
    /// The generation of the parent directory, according to the pointer.
    pub(crate) generation: u32,
    /// The name of the inode in that directory, according to the pointer.
    pub(crate) name: Vec<u8>,
}

/// The volume, as far as it can be read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// The inodes of all known chunks that are in use or cannot be read.
    pub(crate) inodes: BTreeMap<InodeNumber, ModelInode>,
    /// The known inode chunks of each group.
    pub(crate) chunks: BTreeMap<AgNumber, Vec<InodeChunk>>,
    /// The names of all directories, sorted by directory and name.
    pub(crate) names: Vec<ModelName>,
    /// The inode to which `..` leads, for each directory whose `..` can be read.
    pub(crate) dotdots: BTreeMap<InodeNumber, InodeNumber>,
    /// The parent pointers of all inodes, sorted by child.
    pub(crate) parents: Vec<ModelParent>,
}

impl Model {
    /// Reads all inodes of `chunks` with their forks, names and parent pointers.
    ///
    /// # Errors
    ///
    /// [`RepairError::Stopped`] if the caller stops the repair.
    pub(crate) fn read(
        patient: &Patient,
        chunks: BTreeMap<AgNumber, Vec<InodeChunk>>,
    ) -> Result<Self, RepairError> {
        let evidence = patient.evidence();
        let mut model = Self::default();
        for (number, chunks) in &chunks {
            let group = Group::new(patient.geometry(), *number).expect("a group of the volume");
            for chunk in chunks {
                patient.poll()?;
                model.read_chunk(&evidence, &group, chunk);
            }
        }
        model.chunks = chunks;
        model.names.sort();
        model.parents.sort();
        Ok(model)
    }

    fn read_chunk(&mut self, evidence: &Evidence<'_>, group: &Group<'_>, chunk: &InodeChunk) {
        let geometry = group.geometry();
        for position in 0..INODES_PER_CHUNK {
            if chunk.present() >> position & 1 == 0 {
                continue;
            }
            let in_group = AgInode(chunk.start.0 + position);
            let number = geometry.join_inode(group.number(), in_group);
            let found = evidence.inode(number);
            let is_free = chunk.free >> position & 1 != 0;
            match &found.state {
                // An inode in use that has lost its mode keeps its blocks and its pointers.
                xfs_evidence::InodeState::Free(core) if !is_free && holds_something(core) => {
                    self.take(evidence, &found, InodeState::Doubtful);
                }
                xfs_evidence::InodeState::Free(_) => {}
                xfs_evidence::InodeState::Sound(_) => {
                    self.take(evidence, &found, InodeState::Sound);
                }
                _ if is_free => {}
                xfs_evidence::InodeState::Doubtful(..) => {
                    self.take(evidence, &found, InodeState::Doubtful);
                }
                xfs_evidence::InodeState::Gone(_) => {
                    self.take(evidence, &found, InodeState::Gone);
                }
            }
        }
    }

    fn take(&mut self, evidence: &Evidence<'_>, found: &InodeEvidence, state: InodeState) {
        let core = found.any_core().cloned();
        let file_type = core.as_ref().and_then(InodeCore::file_type);
        if state != InodeState::Gone {
            if file_type == Some(FileType::Directory) {
                self.take_names(evidence, found);
            }
            self.take_parents(evidence, found);
        }
        let fork = |kind| ModelFork::of(evidence.extents(found, kind), evidence.geometry());
        let is_tree =
            core.as_ref().is_some_and(|core| core.data_format == ForkFormat::MetadataBtree);
        let data = match is_tree {
            true => ModelFork::of_records(evidence.realtime_tree_blocks(found)),
            false => fork(ForkKind::Data),
        };
        let inode = ModelInode { state, core, data, attr: fork(ForkKind::Attr) };
        self.inodes.insert(found.number, inode);
    }

    fn take_names(&mut self, evidence: &Evidence<'_>, found: &InodeEvidence) {
        let entries = evidence.entries(found);
        if let Some(parent) = entries.parent {
            self.dotdots.insert(found.number, parent);
        }
        self.names.extend(entries.names.into_iter().map(|name| ModelName {
            directory: found.number,
            name: name.name.into(),
            child: name.child,
            entry_type: name.entry_type.to_disk(),
        }));
    }

    fn take_parents(&mut self, evidence: &Evidence<'_>, found: &InodeEvidence) {
        let attributes = evidence.attributes(found);
        self.parents.extend(attributes.parents.into_iter().map(|parent| ModelParent {
            child: found.number,
            directory: parent.parent,
            generation: parent.generation,
            name: parent.name.into(),
        }));
    }

    /// Returns the known chunk whose 64 inode numbers include this one, or `None` if no known chunk
    /// includes the number. The inode may lie in a hole of a sparse chunk.
    pub(crate) fn chunk_of(&self, group: AgNumber, inode: AgInode) -> Option<&InodeChunk> {
        let chunks = self.chunks.get(&group)?;
        let after = chunks.partition_point(|chunk| chunk.start <= inode);
        let chunk = chunks.get(after.checked_sub(1)?)?;
        chunk.position(inode).map(|_| chunk)
    }

    /// Returns the core of an inode, or `None` if the inode is free, unknown or cannot be read.
    pub(crate) fn core(&self, inode: InodeNumber) -> Option<&InodeCore> {
        self.inodes.get(&inode).and_then(|inode| inode.core.as_ref())
    }
}
