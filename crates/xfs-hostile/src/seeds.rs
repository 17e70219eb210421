//! Valid structures for fuzzers to mutate: all blocks of the golden image that verify.

use std::sync::LazyLock;

use xfs_format::btree::BtreeKind;
use xfs_format::{BlockKind, DiskAddr, Geometry, VerifyContext};
use xfs_testkit::{Image, golden};

/// A structure of the golden image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The disk address of the structure.
    pub at: DiskAddr,
    /// The kind of block.
    pub kind: BlockKind,
    /// The bytes of the block.
    pub bytes: Vec<u8>,
}

impl Seed {
    /// Returns the input of the fuzz target for this structure: the address in 8 bytes, then the
    /// bytes of the block.
    #[must_use]
    pub fn input(&self) -> Vec<u8> {
        let mut input = self.at.0.to_be_bytes().to_vec();
        input.extend(&self.bytes);
        input
    }
}

/// Every kind of block for which the golden image is searched.
const KINDS: [BlockKind; 18] = [
    BlockKind::Superblock,
    BlockKind::Agf,
    BlockKind::Agi,
    BlockKind::Agfl,
    BlockKind::Btree(BtreeKind::FreeSpaceByBlock),
    BlockKind::Btree(BtreeKind::FreeSpaceBySize),
    BlockKind::Btree(BtreeKind::Inode),
    BlockKind::Btree(BtreeKind::FreeInode),
    BlockKind::Btree(BtreeKind::ReverseMap),
    BlockKind::Btree(BtreeKind::Refcount),
    BlockKind::Btree(BtreeKind::Extent),
    BlockKind::InodeCluster,
    BlockKind::DirectoryData,
    BlockKind::DirectoryIndex,
    BlockKind::DirectoryFree,
    BlockKind::Attr,
    BlockKind::AttrRemote,
    BlockKind::Symlink,
];

/// "IN", the first bytes of an inode. Inode clusters have no verifier, so they are recognised by
/// these bytes.
const INODE_MAGIC: &[u8] = b"IN";

static ALL: LazyLock<Vec<Seed>> = LazyLock::new(|| find_all(&golden()));

/// Returns the structures of the golden image, in disk order.
#[must_use]
pub fn all() -> &'static [Seed] {
    &ALL
}

/// Returns the structures of one kind.
pub fn of(kind: BlockKind) -> impl Iterator<Item = &'static Seed> {
    all().iter().filter(move |seed| seed.kind == kind)
}

/// Returns the geometry of the golden image.
#[must_use]
pub fn geometry() -> &'static Geometry {
    static GEOMETRY: LazyLock<Geometry> = LazyLock::new(|| golden().geometry());
    &GEOMETRY
}

/// Returns the length of a buffer of this kind, in bytes.
#[must_use]
pub fn length_bytes(kind: BlockKind, geometry: &Geometry) -> usize {
    let length = match kind {
        BlockKind::Superblock | BlockKind::Agf | BlockKind::Agi | BlockKind::Agfl => {
            geometry.sector_size
        }
        BlockKind::DirectoryData | BlockKind::DirectoryIndex | BlockKind::DirectoryFree => {
            geometry.directory_block_size()
        }
        BlockKind::InodeCluster => geometry.inode_size,
        // The remote target in the golden image is longer than one of its small blocks.
        BlockKind::Symlink => 2 * geometry.block_size,
        _ => geometry.block_size,
    };
    length as usize
}

fn find_all(image: &Image) -> Vec<Seed> {
    let geometry = image.geometry();
    let sector_bytes = geometry.sector_size as usize;
    let sectors = (image.length_bytes() / sector_bytes) as u64;
    let is_used = |at: &DiskAddr| {
        let start = image.bytes(*at, 16).unwrap_or_default();
        start.iter().any(|byte| *byte != 0)
    };
    (0..sectors)
        .map(DiskAddr)
        .filter(is_used)
        .flat_map(|at| find_at(image, at, &geometry))
        .collect()
}

fn find_at(image: &Image, at: DiskAddr, geometry: &Geometry) -> Option<Seed> {
    let context = VerifyContext { geometry, log_head: None };
    KINDS.into_iter().find_map(|kind| {
        let bytes = image.bytes(at, length_bytes(kind, geometry))?;
        let is_sound = match kind {
            BlockKind::InodeCluster => bytes.starts_with(INODE_MAGIC),
            _ => kind.verify(&bytes, at, &context).is_ok(),
        };
        is_sound.then_some(Seed { at, kind, bytes })
    })
}
