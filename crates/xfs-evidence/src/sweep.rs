//! The sweep: reads a part of the device in order, and reports every block and inode that names
//! itself, that is, states its own address or number.
//!
//! Owns: recognising blocks by magic number, UUID and own address. Does **not** own: the decision
//! whether a block is still in use. A block that was freed keeps its bytes and its checksum.

use std::ops::{ControlFlow, Range};

use xfs_format::attr::leaf::LEAF_MAGIC as ATTR_LEAF_MAGIC;
use xfs_format::attr::remote::{REMOTE_MAGIC, RemoteHeaderDisk};
use xfs_format::btree::{BtreeKind, LongHeaderDisk, PointerForm, ShortHeaderDisk};
use xfs_format::dabtree::{self, DaHeaderDisk};
use xfs_format::directory::data::{BLOCK_MAGIC, DATA_MAGIC, DataHeaderDisk};
use xfs_format::directory::free::FREE_MAGIC;
use xfs_format::directory::leaf::{LEAF1_MAGIC, LEAFN_MAGIC};
use xfs_format::inode::{INODE_MAGIC, InodeDisk};
use xfs_format::symlink::{SYMLINK_MAGIC, SymlinkDisk};
use xfs_format::{AgInode, BlockKind, DiskAddr, FsBlock, InodeNumber, Lsn, Uuid};
use zerocopy::FromBytes;

use crate::inode::InodeState;
use crate::volume::{Evidence, Trust};

/// Length of one read of the sweep, in bytes.
const READ_BYTES: usize = 1 << 20;

/// The kind of a structure that the sweep has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoundBlock {
    /// A block of a btree. The level of a leaf is 0.
    Btree {
        /// The kind of the btree.
        kind: BtreeKind,
        /// The level of the block.
        level: u16,
    },
    /// An inode that states the number of its own location.
    Inode {
        /// Whether the inode is free, which means that its mode is 0.
        is_free: bool,
    },
    /// A data block of a directory.
    DirectoryData,
    /// A leaf of a directory's hash index.
    DirectoryLeaf,
    /// A block of a directory's free-space index.
    DirectoryFree,
    /// A node of a directory's or attribute fork's btree.
    Node,
    /// A leaf of attributes.
    AttributeLeaf,
    /// A block of a remote attribute value.
    AttributeValue,
    /// A block of a symbolic link's target.
    Symlink,
}

/// A structure that the sweep has found. The structure states the address at which it was found,
/// and the UUID of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The address of the block or of the inode.
    pub at: DiskAddr,
    /// The kind of the structure.
    pub what: FoundBlock,
    /// The owner that the structure states: an inode number, or the number of a group. For an
    /// inode, this is the number of the inode itself.
    pub owner: u64,
    /// The LSN of the last logged change. Remote values have none.
    pub lsn: Lsn,
    /// Whether the structure passed all checks.
    pub trust: Trust,
}

/// Receives the progress of a sweep, and may end it.
pub trait SweepProgress {
    /// Reports that the sweep has read `done` of `all` bytes. If the method returns
    /// [`ControlFlow::Break`], the sweep ends.
    fn swept(&self, done: u64, all: u64) -> ControlFlow<()>;
}

impl SweepProgress for () {
    fn swept(&self, _done: u64, _all: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The outcome of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Number of bytes that were read.
    pub read_bytes: u64,
    /// Number of structures that were found and reported.
    pub sightings: u64,
    /// Whether the progress receiver ended the sweep.
    pub is_stopped: bool,
}

/// Reads all blocks of the groups `groups` in order. Passes to `on_sighting` every structure that
/// states its own address, with the bytes from its start to the end of its block.
///
/// Headers of groups are not reported, because their places are known.
pub fn sweep(
    evidence: &Evidence<'_>,
    groups: Range<u32>,
    progress: &dyn SweepProgress,
    on_sighting: &mut dyn FnMut(&Sighting, &[u8]),
) -> Sweep {
    let geometry = evidence.geometry();
    let end = groups.end.min(geometry.ag_count);
    let group_bytes = u64::from(geometry.ag_blocks) << geometry.block_log;
    let first = u64::from(groups.start) * group_bytes;
    let last = (u64::from(end) * group_bytes)
        .min(geometry.data_bytes())
        .min(evidence.device().length_bytes());
    let mut outcome = Sweep { read_bytes: 0, sightings: 0, is_stopped: false };
    let mut buffer = vec![0; READ_BYTES];
    let mut at = first;
    while at < last {
        let count = usize::try_from(last - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        let piece = buffer.get_mut(..count).expect("a piece is no longer than the buffer");
        if evidence.device().read_at(piece, at).is_err() {
            read_blocks(evidence, at, piece);
        }
        scan(evidence, at, piece, &mut |sighting, bytes| {
            outcome.sightings += 1;
            on_sighting(sighting, bytes);
        });
        at += count as u64;
        outcome.read_bytes += count as u64;
        if progress.swept(at - first, last - first).is_break() {
            outcome.is_stopped = true;
            break;
        }
    }
    outcome
}

/// Fills `piece` with the bytes of the device from byte `start` on, sector by sector. Sectors that
/// cannot be read become zeros, in which no structure is recognised.
fn read_blocks(evidence: &Evidence<'_>, start: u64, piece: &mut [u8]) {
    for (sector, at) in piece.chunks_mut(512).zip((start / 512)..) {
        if evidence.read(DiskAddr(at), sector).is_err() {
            sector.fill(0);
        }
    }
}

fn scan(
    evidence: &Evidence<'_>,
    start: u64,
    piece: &[u8],
    on_sighting: &mut dyn FnMut(&Sighting, &[u8]),
) {
    let geometry = evidence.geometry();
    for (block, at) in piece
        .chunks_exact(geometry.block_size as usize)
        .zip((start / 512..).step_by(geometry.block_basic_blocks() as usize))
    {
        let at = DiskAddr(at);
        if let Some(sighting) = identify(evidence, block, at) {
            on_sighting(&sighting, block);
            continue;
        }
        let inodes = block.chunks_exact(geometry.inode_size as usize);
        for (index, bytes) in (0..).zip(inodes) {
            if bytes.starts_with(&INODE_MAGIC.to_be_bytes())
                && let Some(sighting) = identify_inode(evidence, bytes, at, index)
            {
                on_sighting(&sighting, bytes);
            }
        }
    }
}

/// The header fields that identify a block: kind, owner, own address, UUID and LSN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockIdentity {
    what: FoundBlock,
    owner: u64,
    at: DiskAddr,
    uuid: Uuid,
    lsn: Lsn,
}

impl BlockIdentity {
    /// Reads the identity of a block, or returns `None` if it has no known magic number.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let magic = u32::from_be_bytes(*bytes.first_chunk()?);
        if let Some(kind) = BtreeKind::of_magic(magic) {
            return Self::of_btree(bytes, kind);
        }
        match magic {
            BLOCK_MAGIC | DATA_MAGIC => Self::of_directory(bytes, FoundBlock::DirectoryData),
            FREE_MAGIC => Self::of_directory(bytes, FoundBlock::DirectoryFree),
            SYMLINK_MAGIC => {
                let (disk, _) = SymlinkDisk::ref_from_prefix(bytes).ok()?;
                let (owner, at, lsn) = (disk.owner.get(), disk.disk_addr.get(), disk.lsn.get());
                Some(Self::new(FoundBlock::Symlink, owner, at, disk.uuid, lsn))
            }
            REMOTE_MAGIC => {
                let (disk, _) = RemoteHeaderDisk::ref_from_prefix(bytes).ok()?;
                let (owner, at, lsn) = (disk.owner.get(), disk.block.get(), disk.lsn.get());
                Some(Self::new(FoundBlock::AttributeValue, owner, at, disk.uuid, lsn))
            }
            _ => Self::of_index(bytes),
        }
    }

    const fn new(what: FoundBlock, owner: u64, at: u64, uuid: [u8; 16], lsn: u64) -> Self {
        Self { what, owner, at: DiskAddr(at), uuid: Uuid::from_bytes(uuid), lsn: Lsn(lsn) }
    }

    fn of_btree(bytes: &[u8], kind: BtreeKind) -> Option<Self> {
        let (short, _) = ShortHeaderDisk::ref_from_prefix(bytes).ok()?;
        let what = FoundBlock::Btree { kind, level: short.level.get() };
        if kind.layout().form == PointerForm::Short {
            let (owner, at) = (short.owner.get().into(), short.address.get());
            return Some(Self::new(what, owner, at, short.uuid, short.lsn.get()));
        }
        let (long, _) = LongHeaderDisk::ref_from_prefix(bytes).ok()?;
        let (owner, at) = (long.owner.get(), long.address.get());
        Some(Self::new(what, owner, at, long.uuid, long.lsn.get()))
    }

    fn of_directory(bytes: &[u8], what: FoundBlock) -> Option<Self> {
        let (disk, _) = DataHeaderDisk::ref_from_prefix(bytes).ok()?;
        let (owner, at, lsn) = (disk.owner.get(), disk.block.get(), disk.lsn.get());
        Some(Self::new(what, owner, at, disk.uuid, lsn))
    }

    fn of_index(bytes: &[u8]) -> Option<Self> {
        let what = match dabtree::magic(bytes)? {
            dabtree::NODE_MAGIC => FoundBlock::Node,
            LEAF1_MAGIC | LEAFN_MAGIC => FoundBlock::DirectoryLeaf,
            ATTR_LEAF_MAGIC => FoundBlock::AttributeLeaf,
            _ => return None,
        };
        let (disk, _) = DaHeaderDisk::ref_from_prefix(bytes).ok()?;
        let (owner, at, lsn) = (disk.owner.get(), disk.block.get(), disk.lsn.get());
        Some(Self::new(what, owner, at, disk.uuid, lsn))
    }

    /// Returns the owner that the block states: the number of an inode, or the number of the group
    /// for a btree block of a group.
    pub(crate) const fn owner(&self) -> u64 {
        self.owner
    }

    /// Returns whether the block states its own address or the volume's UUID. One of the two is
    /// enough, because damage may have changed the other.
    pub(crate) fn is_plausible(&self, at: DiskAddr, uuid: Uuid) -> bool {
        self.at == at || self.uuid == uuid
    }

    pub(crate) const fn kind(&self) -> BlockKind {
        match self.what {
            FoundBlock::Btree { kind, .. } => BlockKind::Btree(kind),
            FoundBlock::Inode { .. } => BlockKind::InodeCluster,
            FoundBlock::DirectoryData => BlockKind::DirectoryData,
            FoundBlock::DirectoryLeaf => BlockKind::DirectoryIndex,
            FoundBlock::DirectoryFree => BlockKind::DirectoryFree,
            FoundBlock::Node | FoundBlock::AttributeLeaf => BlockKind::Attr,
            FoundBlock::AttributeValue => BlockKind::AttrRemote,
            FoundBlock::Symlink => BlockKind::Symlink,
        }
    }
}

impl Evidence<'_> {
    /// Returns the inode that a block names in its own header as its owner. `None` if the block has
    /// no such header, or fails a check.
    #[must_use]
    pub fn owner_in_header(&self, block: FsBlock) -> Option<InodeNumber> {
        let (bytes, at) = self.read_block(block).ok()?;
        let found = identify(self, &bytes, at).filter(|found| found.trust == Trust::Sound)?;
        let is_of_group = match found.what {
            FoundBlock::Btree { kind, .. } => kind.layout().form == PointerForm::Short,
            _ => false,
        };
        (!is_of_group).then_some(InodeNumber(found.owner))
    }
}

impl Evidence<'_> {
    /// Returns whether a block is a sound block of metadata that states its own address and owner,
    /// such as a block of a btree or of a directory.
    #[must_use]
    pub fn names_itself(&self, block: FsBlock) -> bool {
        let read = self.read_block(block).ok();
        let found = read.and_then(|(bytes, at)| identify(self, &bytes, at));
        found.is_some_and(|found| found.trust == Trust::Sound)
    }
}

fn identify(evidence: &Evidence<'_>, block: &[u8], at: DiskAddr) -> Option<Sighting> {
    let identity = BlockIdentity::of(block)?;
    let geometry = evidence.geometry();
    if identity.at != at || identity.uuid != geometry.meta_uuid {
        return None;
    }
    // Directory blocks may be longer than a filesystem block, and link blocks cover an extent.
    let is_long = matches!(
        identity.what,
        FoundBlock::DirectoryData | FoundBlock::DirectoryLeaf | FoundBlock::DirectoryFree
    );
    let mut whole = Vec::new();
    let mut bytes = block;
    if is_long && geometry.directory_block_log != 0 {
        whole.resize(geometry.directory_block_size() as usize, 0);
        if evidence.read(at, &mut whole).is_ok() {
            bytes = &whole;
        }
    }
    let is_sound = identity.kind().verify(bytes, at, &evidence.context()).is_ok();
    Some(Sighting {
        at,
        what: identity.what,
        owner: identity.owner,
        lsn: identity.lsn,
        trust: if is_sound { Trust::Sound } else { Trust::Doubtful },
    })
}

/// Identifies inode `index` of the block at `at`. Returns `None` if the inode states the UUID of
/// another volume, or a number that does not belong to this location.
fn identify_inode(
    evidence: &Evidence<'_>,
    bytes: &[u8],
    at: DiskAddr,
    index: u32,
) -> Option<Sighting> {
    let geometry = evidence.geometry();
    let (disk, _) = InodeDisk::ref_from_prefix(bytes).ok()?;
    let (group, block) = geometry.split_disk_addr(at)?;
    let first = block.0.checked_mul(1 << geometry.inodes_per_block_log)?;
    let number = geometry.join_inode(group, AgInode(first.checked_add(index)?));
    if disk.number.get() != number.0 || Uuid::from_bytes(disk.uuid) != geometry.meta_uuid {
        return None;
    }
    let judged = evidence.judge_inode(number, bytes.to_vec());
    let core = judged.any_core()?;
    let trust = match judged.state {
        InodeState::Sound(_) | InodeState::Free(_) => Trust::Sound,
        _ => Trust::Doubtful,
    };
    let sectors = u64::from(index) * u64::from(geometry.inode_size) / 512;
    Some(Sighting {
        at: DiskAddr(at.0 + sectors),
        what: FoundBlock::Inode { is_free: core.is_free() },
        owner: number.0,
        lsn: core.lsn,
        trust,
    })
}
