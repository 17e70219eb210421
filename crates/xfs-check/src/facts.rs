//! The facts that the passes report: claims of blocks, records of the btrees, links and names.
//!
//! Owns: the facts and the trait of their receivers. The first pass over the volume adds up hashes
//! of facts ([`Sums`]). The second pass collects the facts themselves, where the sums of two
//! structures differ ([`Lists`]).
//!
//! [`Sums`]: crate::sums::Sums
//! [`Lists`]: crate::explain::Lists

use xfs_format::directory::EntryType;
use xfs_format::dquot::QuotaKind;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::refcount::Refcount;
use xfs_format::rmap::{RmapFlags, RmapOwner};
use xfs_format::{AgBlock, AgNumber, InodeNumber};

use crate::region::Region;

/// The owner of claimed blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// Free space, as the free-space btrees record it.
    Free,
    /// An owner that the reverse map knows.
    Used(RmapOwner),
}

/// Blocks of a region that a structure claims for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The region of the claimed blocks.
    pub(crate) region: Region,
    /// The first block.
    pub(crate) start: AgBlock,
    /// The number of blocks. All of them lie inside the region.
    pub(crate) count: u32,
    /// The owner.
    pub(crate) owner: Owner,
    /// The first block's offset in the fork, for contents of a fork.
    pub(crate) offset: u64,
    /// How the owner uses the blocks.
    pub(crate) flags: RmapFlags,
}

impl Claim {
    /// Creates a claim of an owner whose blocks have no offsets.
    pub(crate) const fn of(group: AgNumber, start: AgBlock, count: u32, owner: Owner) -> Self {
        Self::in_region(Region::Data(group), start, count, owner)
    }

    /// Creates a claim in a region, of an owner whose blocks have no offsets.
    pub(crate) const fn in_region(
        region: Region,
        start: AgBlock,
        count: u32,
        owner: Owner,
    ) -> Self {
        Self { region, start, count, owner, offset: 0, flags: RmapFlags::empty() }
    }

    /// Returns the block after the last claimed block.
    pub(crate) const fn end(&self) -> u32 {
        self.start.0 + self.count
    }

    /// Returns the owner's number: that of the reverse map, or 0 for free space.
    pub(crate) const fn owner_number(&self) -> u64 {
        match self.owner {
            Owner::Free => 0,
            Owner::Used(owner) => owner.to_raw(),
        }
    }

    /// Returns whether each block has an offset in a fork.
    pub(crate) const fn has_offsets(&self) -> bool {
        matches!(self.owner, Owner::Used(RmapOwner::Inode(_)))
            && !self.flags.contains(RmapFlags::FORK_BTREE)
    }

    /// Returns the offset of the first block in its fork minus its block number. The difference is
    /// the same for all parts of an extent. It is 0 for blocks that have no offset in a fork.
    pub(crate) const fn diagonal(&self) -> u64 {
        if self.has_offsets() { self.offset.wrapping_sub(self.start.0 as u64) } else { 0 }
    }
}

/// A name in a directory, other than `.` and `..`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    /// The directory that holds the name.
    pub(crate) directory: InodeNumber,
    /// The generation number of that directory, which a parent pointer repeats.
    pub(crate) generation: u32,
    /// The named inode.
    pub(crate) child: InodeNumber,
    /// The type byte of the entry.
    pub(crate) entry_type: EntryType,
    /// Whether the directory belongs to the metadata directory.
    pub(crate) is_metadata: bool,
    /// The name.
    pub(crate) name: &'a [u8],
}

/// The links of a directory to itself and to its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryLinks {
    /// The directory.
    pub(crate) directory: InodeNumber,
    /// The inode that `..` names.
    pub(crate) parent: InodeNumber,
    /// Whether the directory belongs to the metadata directory.
    pub(crate) is_metadata: bool,
}

/// A parent pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParentPointer<'a> {
    /// The inode that has the pointer.
    pub(crate) child: InodeNumber,
    /// The directory that the pointer names.
    pub(crate) directory: InodeNumber,
    /// The directory's generation, as the pointer states it.
    pub(crate) generation: u32,
    /// The name of the child in the directory, as the pointer states it.
    pub(crate) name: &'a [u8],
}

/// An inode in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedInode {
    /// The inode number.
    pub(crate) number: InodeNumber,
    /// The type of the inode, as a directory entry stores it.
    pub(crate) entry_type: EntryType,
    /// The link count of the inode.
    pub(crate) links: u32,
    /// Whether the inode belongs to the metadata directory.
    pub(crate) is_metadata: bool,
}

/// An owner of files: a user, a group or a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QuotaOwner {
    /// The type of the owner.
    pub(crate) kind: QuotaKind,
    /// The ID of the owner.
    pub(crate) id: u32,
}

/// The usage that an inode adds to an owner, or the usage that a dquot states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The number of inodes.
    pub(crate) inodes: u64,
    /// The number of blocks of the data device.
    pub(crate) blocks: u64,
    /// The number of realtime blocks.
    pub(crate) realtime_blocks: u64,
}

/// Blocks or inodes about which nothing can be said because a structure could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gap {
    /// An inode may have claimed blocks in any group, and the check does not know which.
    Claims,
    /// The blocks that a region's own structures claim, such as the blocks of its btrees or its
    /// free space, are not known.
    GroupClaims(Region),
    /// The free space of a group is not known.
    FreeSpace(AgNumber),
    /// The records of the reverse map of a region are not known.
    ReverseMap(Region),
    /// The reference counts of a region are not known.
    Refcounts(Region),
    /// The free-inode btree of a group is not known.
    FreeInodes(AgNumber),
    /// Some or all inodes of a group are not known.
    Inodes(AgNumber),
    /// Any directory may have names that are not known.
    Names,
    /// Any inode may have parent pointers that are not known.
    Parents,
    /// The members of an unlinked list of a group are not known.
    Unlinked(AgNumber),
    /// The usage of owners is not known, or their dquots are not.
    Usage,
    /// The files of the metadata directory are not known.
    MetadataFiles,
    /// The counts of the superblock are not known, because the first superblock is damaged.
    Superblock,
}

/// A receiver of facts.
pub(crate) trait Facts {
    /// Receives a claim: blocks and their owner.
    fn claim(&mut self, claim: &Claim);
    /// Receives a record of the reverse map, in the form of a claim.
    fn mapping(&mut self, record: &Claim);
    /// Receives a reference count record: blocks that are recorded as shared.
    fn shared(&mut self, region: Region, record: &Refcount);
    /// Receives a record of the btree of free space by size.
    fn free_by_size(&mut self, group: AgNumber, start: AgBlock, count: u32);
    /// Receives a chunk with a free inode, from the inode btree.
    fn chunk_with_free(&mut self, group: AgNumber, chunk: &InodeChunk);
    /// Receives a chunk from the free-inode btree.
    fn free_chunk(&mut self, group: AgNumber, chunk: &InodeChunk);
    /// Receives a name in a directory.
    fn name(&mut self, name: &Name<'_>);
    /// Receives the links of a directory: to itself by `.`, and to its parent by `..`.
    fn directory(&mut self, directory: &DirectoryLinks);
    /// Receives an inode that the superblock names and no directory names.
    fn superblock_link(&mut self, inode: InodeNumber, entry_type: EntryType);
    /// Receives an inode in use.
    fn inode(&mut self, inode: &UsedInode);
    /// Receives a parent pointer of an inode.
    fn parent(&mut self, pointer: &ParentPointer<'_>);
    /// Receives an inode to which an unlinked list leads.
    fn on_unlinked_list(&mut self, inode: InodeNumber);
    /// Receives the usage that an inode adds to one of its owners.
    fn usage(&mut self, owner: QuotaOwner, usage: &Usage);
    /// Receives the usage of an owner, as its dquot states it.
    fn dquot(&mut self, owner: QuotaOwner, usage: &Usage);
    /// Receives a gap: a structure that could not be read.
    fn gap(&mut self, gap: Gap);
}
