//! Log reservations: the log bytes that each kind of transaction may write, and the shortest log
//! that follows from them.
//!
//! Owns: the largest number of log bytes of each kind of transaction, the overhead of the log
//! records around them, and the minimum log size. Does **not** own: granting log space, or the
//! transactions themselves.
//!
//! These numbers are part of the format, although no structure holds them. A kernel refuses to
//! mount a volume whose log is shorter than the kernel's own minimum. Therefore mkfs must count as
//! the kernel does, including the generous estimates of the kernel.
//!
//! # Counting a transaction
//!
//! A transaction reserves space for everything that it may log, in three kinds of units:
//!
//! - a buffer: its bytes, and 128 for the operation and the format structure before them;
//! - an inode: core, forks, a btree root of each fork, and four operations;
//! - a change of free space: both free-space btrees split from leaf to root, and the reverse map.
//!
//! If a transaction is a chain of deferred steps, the largest step decides the size of the
//! reservation. [`Reservation::steps`] of that size are granted at the start, so that a typical
//! chain does not wait for log space half way.

mod heights;
mod minimum;

pub use heights::BtreeHeights;
pub use minimum::{minimum_log_blocks, unit_bytes};

use crate::extent::MAX_EXTENT_BLOCKS;
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::geometry::Geometry;
use crate::realtime::SPACE_HEADER_BYTES;

/// The kinds of transactions that have a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionKind {
    /// Allocates or converts blocks of a file: an allocation, a mapping, and their completions.
    #[doc(alias = "tr_write")]
    Write,
    /// Removes mappings at the end of a fork, and frees their blocks.
    #[doc(alias = "tr_itruncate")]
    Truncate,
    /// Moves a name.
    #[doc(alias = "tr_rename")]
    Rename,
    /// Adds a name to an inode.
    #[doc(alias = "tr_link")]
    Link,
    /// Removes a name.
    #[doc(alias = "tr_remove")]
    Remove,
    /// Creates a symbolic link.
    #[doc(alias = "tr_symlink")]
    Symlink,
    /// Creates a file.
    #[doc(alias = "tr_create")]
    Create,
    /// Creates a file without a name.
    #[doc(alias = "tr_create_tmpfile")]
    CreateUnnamed,
    /// Creates a directory.
    #[doc(alias = "tr_mkdir")]
    MakeDirectory,
    /// Frees an inode, and possibly the chunk that holds it.
    #[doc(alias = "tr_ifree")]
    FreeInode,
    /// Changes fields of an inode.
    #[doc(alias = "tr_ichange")]
    ChangeInode,
    /// Grows the volume.
    #[doc(alias = "tr_growdata")]
    Grow,
    /// Adds an attribute fork to an inode.
    #[doc(alias = "tr_addafork")]
    AddAttrFork,
    /// Removes an attribute fork.
    #[doc(alias = "tr_attrinval")]
    InvalidateAttr,
    /// Sets an attribute. Each block of its value adds [`TransactionKind::SetAttrBlock`].
    #[doc(alias = "tr_attrsetm")]
    SetAttr,
    /// The log space that each block of an attribute's value adds to the transaction that sets it.
    #[doc(alias = "tr_attrsetrt")]
    SetAttrBlock,
    /// Removes an attribute.
    #[doc(alias = "tr_attrrm")]
    RemoveAttr,
    /// Clears the head of an unlinked list.
    #[doc(alias = "tr_clearagi")]
    ClearUnlinked,
    /// Allocates a block of a quota file.
    #[doc(alias = "tr_qm_dqalloc")]
    AllocateQuota,
    /// Writes the superblock.
    #[doc(alias = "tr_sb")]
    Superblock,
}

impl TransactionKind {
    /// All kinds of transactions.
    pub const ALL: [Self; 20] = [
        Self::Write,
        Self::Truncate,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::Symlink,
        Self::Create,
        Self::CreateUnnamed,
        Self::MakeDirectory,
        Self::FreeInode,
        Self::ChangeInode,
        Self::Grow,
        Self::AddAttrFork,
        Self::InvalidateAttr,
        Self::SetAttr,
        Self::SetAttrBlock,
        Self::RemoveAttr,
        Self::ClearUnlinked,
        Self::AllocateQuota,
        Self::Superblock,
    ];
}

/// The log space that a transaction reserves before it starts.
#[doc(alias = "xfs_trans_res")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Number of log bytes of one transaction (one step of a chain). The overhead of the log is not
    /// included ([`unit_bytes`] adds it).
    #[doc(alias = "tr_logres")]
    pub bytes: u64,
    /// Number of steps of a chain for which log space is granted when the chain starts.
    #[doc(alias = "tr_logcount")]
    pub steps: u32,
}

/// Length of an operation header in the log, in bytes.
const OPERATION_BYTES: u64 = 12;
/// Number of bytes before a logged buffer: an operation and a format structure, rounded up to a
/// chunk of the dirty bitmap.
const BUFFER_OVERHEAD: u64 = 128;
/// Length of the format structure of an inode item, in bytes.
const INODE_FORMAT_BYTES: u64 = 56;
/// Length of the header of a btree block, in bytes. The root of a fork's btree is logged with such
/// a header.
const BTREE_ROOT_HEADER: u64 = 72;
/// Number of bytes of quota records with their format structures: user, group and project, before
/// and after a change of owner.
const QUOTA_BYTES: u64 = 6 * (24 + 104);
/// Length of the format structure of an attribute intent, in bytes.
const ATTR_INTENT_BYTES: u64 = 40;
/// Number of bytes of a parent pointer with the longest name: 256 for the name, which the kernel
/// counts with a zero byte at its end, and 12 for the value.
const PARENT_NAME_BYTES: u64 = 256 + 12;
/// The largest number of levels of a btree of names or attributes.
#[doc(alias = "XFS_DA_NODE_MAXDEPTH")]
const DA_LEVELS: u64 = 5;
/// Length of the longest target of a symbolic link, in bytes.
const SYMLINK_BYTES: u64 = 1024;

/// The reservations of all kinds of transactions on a volume.
#[doc(alias = "xfs_trans_resv")]
#[derive(Clone, Debug)]
pub struct Reservations<'a> {
    geometry: &'a Geometry,
    heights: BtreeHeights,
    /// Whether a change of reference counts is counted in the same transaction as the change that
    /// causes it. Kernels did so before they deferred changes of reference counts.
    refcount_in_place: bool,
}

impl<'a> Reservations<'a> {
    /// Returns the reservations on a volume with this geometry.
    #[must_use]
    pub fn new(geometry: &'a Geometry) -> Self {
        Self { geometry, heights: BtreeHeights::new(geometry), refcount_in_place: false }
    }

    /// Returns the reservation of a transaction of this kind.
    #[must_use]
    pub fn of(&self, kind: TransactionKind) -> Reservation {
        Reservation { bytes: self.bytes(kind), steps: self.steps(kind) }
    }

    /// Returns the reservation of a chain that sets an attribute with a value of any length.
    ///
    /// The chain maps the blocks of a long value one extent per transaction, as a write does. It
    /// frees the blocks of an old value as a removal does. The kernel, in contrast, reserves for
    /// all blocks of the value in each transaction, which does not fit a small log.
    #[must_use]
    pub fn attribute_chain(&self) -> Reservation {
        let put =
            self.set_attr() + self.attr_tree_blocks() * self.bytes(TransactionKind::SetAttrBlock);
        let bytes = put.max(self.remove_attr()).max(self.write());
        Reservation { bytes, steps: self.steps(TransactionKind::SetAttr) }
    }

    fn has(&self, feature: RoCompatFeatures) -> bool {
        self.geometry.has_ro_compat(feature)
    }

    fn has_parents(&self) -> bool {
        self.geometry.has_incompat(IncompatFeatures::PARENT)
    }

    fn steps(&self, kind: TransactionKind) -> u32 {
        use TransactionKind as Kind;
        let parents = |steps: u32| steps + if self.has_parents() { 3 } else { 0 };
        match kind {
            // The intents that may follow: for the mapping (if there are other intents at all), for
            // reference counts, and for the reverse map.
            Kind::Write | Kind::Truncate | Kind::AllocateQuota => {
                let reflink = u32::from(self.has(RoCompatFeatures::REFLINK));
                let reverse_map = u32::from(self.has(RoCompatFeatures::RMAPBT));
                2 + (reflink | reverse_map) + reflink + reverse_map
            }
            // A parent pointer is set or removed in the steps of an attribute.
            Kind::Rename | Kind::Link | Kind::Remove | Kind::Create => parents(2),
            Kind::Symlink | Kind::MakeDirectory => parents(3),
            Kind::SetAttr | Kind::RemoveAttr => 3,
            Kind::CreateUnnamed | Kind::FreeInode | Kind::Grow | Kind::AddAttrFork => 2,
            Kind::ChangeInode
            | Kind::InvalidateAttr
            | Kind::SetAttrBlock
            | Kind::ClearUnlinked
            | Kind::Superblock => 1,
        }
    }

    fn bytes(&self, kind: TransactionKind) -> u64 {
        use TransactionKind as Kind;
        match kind {
            Kind::Write => self.write(),
            Kind::Truncate => self.truncate(),
            Kind::Rename | Kind::Link | Kind::Remove => self.change_names(kind),
            Kind::Create | Kind::MakeDirectory => self.create(),
            Kind::Symlink => self.create() + self.buffers(1, SYMLINK_BYTES),
            Kind::CreateUnnamed => QUOTA_BYTES + self.allocate_inode() + self.add_unlinked(),
            Kind::FreeInode => self.free_inode(),
            Kind::ChangeInode => QUOTA_BYTES + self.inodes(1) + self.sectors(1),
            Kind::Grow => self.sectors(3) + self.space_changes(1),
            Kind::AddAttrFork => self.add_attr_fork(),
            Kind::InvalidateAttr => self.invalidate_attr(),
            Kind::SetAttr => {
                QUOTA_BYTES + self.inodes(1) + self.sectors(1) + self.blocks(DA_LEVELS)
            }
            Kind::SetAttrBlock => self.sectors(1) + self.blocks(self.heights.attr_extents.into()),
            Kind::RemoveAttr => self.remove_attr(),
            Kind::ClearUnlinked | Kind::Superblock => self.sectors(1),
            Kind::AllocateQuota => self.write() + self.buffers(1, self.block_bytes() - 1),
        }
    }

    fn block_bytes(&self) -> u64 {
        self.geometry.block_size.into()
    }

    fn buffers(&self, count: u64, bytes: u64) -> u64 {
        count * (bytes + BUFFER_OVERHEAD)
    }

    fn blocks(&self, count: u64) -> u64 {
        self.buffers(count, self.block_bytes())
    }

    fn sectors(&self, count: u64) -> u64 {
        self.buffers(count, self.geometry.sector_size.into())
    }

    fn inodes(&self, count: u64) -> u64 {
        let size = u64::from(self.geometry.inode_size);
        count * (4 * OPERATION_BYTES + INODE_FORMAT_BYTES + size + 2 * BTREE_ROOT_HEADER)
    }

    /// Returns the number of log bytes for the btree blocks that change when space is allocated or
    /// freed `count` times.
    #[doc(alias = "xfs_allocfree_block_count")]
    fn space_changes(&self, count: u64) -> u64 {
        // A split adds a second block on each level below the root.
        let free_space = 2 * whole_split(self.heights.free_space);
        let reverse_map = match self.has(RoCompatFeatures::RMAPBT) {
            true => whole_split(self.heights.reverse_map),
            false => 0,
        };
        self.blocks(count * (free_space + reverse_map))
    }

    fn refcount_changes(&self, count: u64) -> u64 {
        match self.has(RoCompatFeatures::REFLINK) {
            true => self.blocks(count * whole_split(self.heights.refcount)),
            false => 0,
        }
    }

    /// Returns the number of log bytes of a transaction that changes reference counts `count` times
    /// and does nothing else.
    fn refcount_step(&self, count: u64) -> u64 {
        match self.has(RoCompatFeatures::REFLINK) {
            true => self.sectors(count) + self.refcount_changes(count),
            false => 0,
        }
    }

    /// Returns the number of log bytes for the blocks of bitmaps and summaries that change when
    /// realtime extents are allocated or freed `count` times. 0 on a volume without a realtime
    /// section.
    #[doc(alias = "xfs_rtalloc_block_count")]
    fn realtime_changes(&self, count: u64) -> u64 {
        let unit = u64::from(self.geometry.realtime_extent_blocks).max(1);
        let header = match self.geometry.has_incompat(IncompatFeatures::METADIR) {
            true => SPACE_HEADER_BYTES as u64,
            false => 0,
        };
        let longest = u64::from(MAX_EXTENT_BLOCKS) / unit;
        let bitmap = longest.div_ceil((self.block_bytes() - header) * 8);
        // The counters of the summary are in one block.
        if self.geometry.realtime.is_present() { self.blocks(count * (bitmap + 1)) } else { 0 }
    }

    /// Returns the number of log bytes of the largest transaction in the chain of a write. A
    /// transaction of the chain maps an extent, frees up to two extents, or changes reference
    /// counts.
    fn write(&self) -> u64 {
        let (map, free, refcount) = (
            self.inodes(1)
                + self.blocks(self.heights.data_extents.into())
                + self.sectors(3)
                + self.space_changes(2),
            self.sectors(5) + self.space_changes(2),
            self.refcount_changes(2),
        );
        let realtime = match self.realtime_changes(1) {
            0 => 0,
            changes => {
                let map = self.inodes(1) + self.blocks(self.heights.data_extents.into());
                map + self.sectors(3) + changes + self.space_changes(1)
            }
        };
        QUOTA_BYTES
            + match self.refcount_in_place {
                true => map.max(free).max(realtime) + refcount,
                false => map.max(free).max(realtime).max(self.refcount_step(1)),
            }
    }

    /// Returns the number of log bytes of the largest transaction in the chain of a truncation. A
    /// transaction of the chain unmaps up to two extents, frees up to four extents, or changes
    /// reference counts.
    fn truncate(&self) -> u64 {
        let unmap = self.inodes(1) + self.blocks(u64::from(self.heights.data_extents) + 1);
        let free = self.sectors(9) + self.space_changes(4);
        let realtime = match self.realtime_changes(2) {
            0 => 0,
            changes => self.sectors(5) + changes + self.space_changes(2),
        };
        QUOTA_BYTES
            + match self.refcount_in_place {
                true => unmap.max(free + self.refcount_changes(4)).max(realtime),
                false => unmap.max(free).max(realtime).max(self.refcount_step(2)),
            }
    }

    /// Returns the number of log bytes for the blocks that one change of a directory may touch.
    #[doc(alias = "XFS_DIROP_LOG_COUNT")]
    fn directory_change(&self) -> u64 {
        // The hash btree split up to its root, a data block and a block of the free-space index. A
        // new extent for each of these, with a split of the extent btree. The directory's first
        // block.
        let blocks = DA_LEVELS + 2;
        (blocks << self.geometry.directory_block_log) + blocks * self.directory_block_extents() + 1
    }

    /// Returns the number of blocks by which the extent btree may grow for one more directory
    /// block, if each filesystem block of the directory block is a separate extent.
    fn directory_block_extents(&self) -> u64 {
        self.map_blocks(1 << self.geometry.directory_block_log, self.heights.data_extents)
    }

    /// Returns the number of blocks by which an extent btree of `levels` levels may grow when
    /// `count` new blocks are mapped. Each leaf that the new records fill costs one split up to the
    /// root.
    #[doc(alias = "XFS_NEXTENTADD_SPACE_RES")]
    fn map_blocks(&self, count: u64, levels: u32) -> u64 {
        let layout = crate::btree::BtreeKind::FreeSpaceByBlock.layout();
        let records = layout.max_records(self.geometry.block_size) as u64;
        count.div_ceil(records - records / 2) * u64::from(levels - 1)
    }

    fn change_names(&self, kind: TransactionKind) -> u64 {
        let (inodes, directories, sectors, frees) = match kind {
            TransactionKind::Rename => (5, 2, 7, 3),
            TransactionKind::Link => (2, 1, 3, 1),
            _ => (2, 1, 4, 2),
        };
        let entries = self.inodes(inodes) + self.blocks(directories * self.directory_change());
        let space = self.sectors(sectors) + self.space_changes(frees);
        let unlinked = match kind {
            TransactionKind::Link => self.remove_unlinked(),
            TransactionKind::Remove => self.add_unlinked(),
            _ => 0,
        };
        let step = entries.max(space);
        if !self.has_parents() {
            return QUOTA_BYTES + unlinked + step;
        }
        let intent = ATTR_INTENT_BYTES + PARENT_NAME_BYTES;
        let (parents, intents) = match kind {
            // Replace one parent pointer, remove one, and add one for a whiteout in the old place.
            TransactionKind::Rename => (self.set_attr().max(self.remove_attr()), {
                let replace = intent + PARENT_NAME_BYTES;
                (replace + 2 * intent).max(2 * replace)
            }),
            TransactionKind::Link => (self.set_attr(), intent),
            _ => (self.remove_attr(), intent),
        };
        QUOTA_BYTES + unlinked + intents + step.max(parents)
    }

    fn create(&self) -> u64 {
        let entry = self.inodes(2)
            + self.sectors(1)
            + self.block_bytes()
            + self.blocks(self.directory_change());
        let step = self.allocate_inode().max(entry);
        if !self.has_parents() {
            return QUOTA_BYTES + step;
        }
        QUOTA_BYTES + ATTR_INTENT_BYTES + PARENT_NAME_BYTES + step.max(self.set_attr())
    }

    /// Returns the number of log bytes for allocating an inode chunk and its records. The inodes
    /// themselves are not counted, because they are ordered buffers and not logged.
    fn allocate_inode(&self) -> u64 {
        let sector = u64::from(self.geometry.sector_size);
        self.sectors(2) + sector + self.space_changes(1) + self.inode_btrees()
    }

    fn inode_btrees(&self) -> u64 {
        let one = self.blocks(self.heights.inode.into()) + self.space_changes(1);
        if self.has(RoCompatFeatures::FINOBT) { 2 * one } else { one }
    }

    fn free_inode(&self) -> u64 {
        QUOTA_BYTES
            + self.inodes(1)
            + self.sectors(3)
            + self.remove_unlinked()
            + self.space_changes(1)
            + self.buffers(self.geometry.chunk_blocks().into(), 0)
            + self.inode_btrees()
    }

    fn cluster_bytes(&self) -> u64 {
        u64::from(self.geometry.cluster_blocks()) * self.block_bytes()
    }

    fn add_unlinked(&self) -> u64 {
        self.sectors(2) + self.cluster_bytes()
    }

    fn remove_unlinked(&self) -> u64 {
        self.sectors(1) + 2 * self.cluster_bytes()
    }

    fn add_attr_fork(&self) -> u64 {
        QUOTA_BYTES
            + self.inodes(1)
            + self.sectors(2)
            + self.buffers(1, self.geometry.directory_block_size().into())
            + self.blocks(self.directory_block_extents() + 1)
            + self.space_changes(1)
    }

    fn invalidate_attr(&self) -> u64 {
        let unmap = self.inodes(1) + self.blocks(self.heights.attr_extents.into());
        unmap.max(self.sectors(9) + self.space_changes(4))
    }

    /// Returns the number of blocks by which the attribute tree may grow, including the extent
    /// btree blocks to map them.
    #[doc(alias = "XFS_DAENTER_SPACE_RES")]
    fn attr_tree_blocks(&self) -> u64 {
        DA_LEVELS * (1 + self.map_blocks(1, self.heights.attr_extents))
    }

    fn set_attr(&self) -> u64 {
        self.bytes(TransactionKind::SetAttr)
    }

    fn remove_attr(&self) -> u64 {
        let change = self.inodes(1)
            + self.blocks(DA_LEVELS)
            + u64::from(self.heights.attr_extents) * self.block_bytes()
            + self.buffers(self.heights.data_extents.into(), 0);
        QUOTA_BYTES + change.max(self.sectors(5) + self.space_changes(2))
    }
}

/// Returns the number of blocks that a split from leaf to root changes: two per level, and a new
/// root.
const fn whole_split(levels: u32) -> u64 {
    2 * levels as u64 - 1
}

#[cfg(test)]
mod tests;
