//! The fuzz targets for the metadata of realtime sections: the superblock of the realtime device,
//! blocks of bitmaps and summaries, and the btrees of realtime groups with their roots.
//!
//! The golden image has no realtime section. The geometry and the seeds are those of the test image
//! with realtime groups.

use std::hint::black_box;
use std::sync::LazyLock;

use xfs_format::realtime::{
    MetadataRootLayout, RealtimeBlockKind, RealtimeGroup, RealtimeRefcountTree,
    RealtimeReverseMapTree, RealtimeSuperblock, RealtimeTree, RealtimeTreeBlock,
    RealtimeTreeEntries, SpaceBlock, SpaceBlockForm, decode_keys, verify_entries,
    verify_tree_block,
};
use xfs_format::{
    DiskAddr, Geometry, InodeNumber, Lsn, StructureAddress, Superblock, VerifyContext, crc,
};
use xfs_testkit::{Image, RealtimeSection};

use super::{exhaust, split};

/// Offset of the checksum in the superblock of the realtime device.
const SUPERBLOCK_CRC: usize = 4;
/// Values of `di_metatype` of the inodes with roots of btrees.
const METATYPES: [u16; 2] = [7, 8];
/// Offset of `di_metatype` in an inode, and of its data fork.
const METATYPE_OFFSET: usize = 6;
const FORK_START: usize = 176;
/// The bytes of a btree block with its level and the number of its entries.
const HEADER_COUNTS: std::ops::Range<usize> = 4..8;
/// Offset of the owner in a block of a bitmap or a summary.
const OWNER_OFFSET: usize = 8;
const SECTOR: usize = 512;

static DATA: LazyLock<Image> = LazyLock::new(|| RealtimeSection::Groups.data());

fn superblock() -> &'static Superblock {
    static SUPERBLOCK: LazyLock<Superblock> = LazyLock::new(|| {
        let sector = DATA.bytes(DiskAddr(0), SECTOR).unwrap_or_default();
        let place = StructureAddress::Disk(DiskAddr(0));
        Superblock::decode(&sector, place).expect("the test image has a superblock")
    });
    &SUPERBLOCK
}

fn geometry() -> &'static Geometry {
    &superblock().geometry
}

/// Fuzzes the superblock of the realtime device, with and without the right checksum.
pub fn realtime_superblock(input: &[u8]) {
    let mut resealed = input.to_vec();
    if resealed.len() >= SUPERBLOCK_CRC + 4 {
        crc::seal(&mut resealed, SUPERBLOCK_CRC);
    }
    for bytes in [input, &resealed] {
        let Ok(found) = RealtimeSuperblock::decode(bytes) else { continue };
        drop(black_box(found.verify_against(superblock())));
        black_box(format!("{found:?}"));
    }
}

pub(super) fn superblock_inputs() -> Vec<Vec<u8>> {
    let device = RealtimeSection::Groups.device();
    let block = geometry().block_size as usize;
    device.and_then(|device| device.bytes(DiskAddr(0), block)).into_iter().collect()
}

/// Fuzzes a block of a bitmap or a summary, in both forms.
pub fn realtime_space(input: &[u8]) {
    let Some((at, bytes)) = split(input) else { return };
    let context = VerifyContext { geometry: geometry(), log_head: None };
    for kind in [RealtimeBlockKind::Bitmap, RealtimeBlockKind::Summary] {
        let mut resealed = bytes.to_vec();
        if resealed.len() >= SECTOR {
            kind.seal(&mut resealed, Lsn(0));
        }
        for bytes in [bytes, &resealed] {
            let stored = bytes.get(OWNER_OFFSET..).and_then(<[u8]>::first_chunk::<8>);
            let owner = InodeNumber(stored.map_or(0, |bytes| u64::from_be_bytes(*bytes)));
            for form in [SpaceBlockForm::Classic, SpaceBlockForm::Groups] {
                let block = SpaceBlock { bytes, kind, owner, at };
                drop(black_box(form.verify(&block, &context)));
                black_box(form.decode(bytes).fold(0_u32, u32::wrapping_add));
            }
            black_box((RealtimeBlockKind::of(bytes), kind.find_lsn(bytes, &context)));
        }
    }
}

pub(super) fn space_inputs() -> Vec<Vec<u8>> {
    blocks_of(&[RealtimeBlockKind::Bitmap, RealtimeBlockKind::Summary])
}

/// Fuzzes a block of a btree of a realtime group, and the same bytes as the root of a btree in an
/// inode.
pub fn realtime_tree(input: &[u8]) {
    let Some((at, bytes)) = split(input) else { return };
    tree_of::<RealtimeReverseMapTree>(bytes, at);
    tree_of::<RealtimeRefcountTree>(bytes, at);
    for metatype in METATYPES {
        let Some(layout) = MetadataRootLayout::of_metatype(metatype, bytes.len()) else { continue };
        black_box(layout.parts(bytes).is_ok());
        let mut block = vec![0; geometry().block_size as usize];
        // The header of a block has the level and the count of the root.
        let header = block.get_mut(HEADER_COUNTS).zip(bytes.first_chunk::<4>());
        if let Some((place, counts)) = header {
            place.copy_from_slice(counts);
        }
        let is_unpacked = layout.header(bytes).is_ok() && bytes.len() <= SECTOR;
        if is_unpacked && layout.unpack(bytes, &mut block).is_ok() {
            drop(black_box(layout.verify(&block, geometry())));
        }
    }
}

fn tree_of<T: RealtimeTree>(bytes: &[u8], at: DiskAddr) {
    let context = VerifyContext { geometry: geometry(), log_head: None };
    let mut resealed = bytes.to_vec();
    if resealed.len() >= SECTOR {
        T::KIND.seal(&mut resealed, Lsn(0));
    }
    for number in [0, 1, u32::MAX] {
        let has_superblock = number == 0;
        let group = RealtimeGroup { geometry: geometry(), number, has_superblock };
        for bytes in [bytes, &resealed] {
            drop(black_box(verify_tree_block::<T>(bytes, at, &group, &context)));
            if let Ok(block) = RealtimeTreeBlock::decode::<T>(bytes, at) {
                black_box((block.left, block.right, block.owner));
                entries::<T>(&block.entries, &group);
            }
            if let Ok(root) = RealtimeTreeEntries::of_root::<T>(bytes) {
                entries::<T>(&root, &group);
            }
        }
    }
}

fn entries<T: RealtimeTree>(entries: &RealtimeTreeEntries<'_>, group: &RealtimeGroup<'_>) {
    drop(black_box(verify_entries::<T>(entries, group)));
    black_box((entries.level(), entries.count()));
    for record in entries.records() {
        drop(black_box(T::decode(record, group)));
    }
    exhaust(entries.children().map(|(keys, child)| {
        black_box(decode_keys::<T>(keys));
        child
    }));
}

/// Returns blocks of the btrees, and the roots of the test image.
pub(super) fn tree_inputs() -> Vec<Vec<u8>> {
    let mut inputs = blocks_of(&[RealtimeBlockKind::ReverseMap, RealtimeBlockKind::Refcount]);
    let sectors = (0..(DATA.length_bytes() / SECTOR) as u64).map(DiskAddr);
    let inodes = sectors.filter_map(|at| DATA.bytes(at, SECTOR).map(|bytes| (at, bytes)));
    for (at, inode) in inodes.filter(|(_, bytes)| bytes.starts_with(b"IN")) {
        let metatype = inode.get(METATYPE_OFFSET..).and_then(<[u8]>::first_chunk::<2>);
        if metatype.is_some_and(|raw| METATYPES.contains(&u16::from_be_bytes(*raw))) {
            let fork = inode.get(FORK_START..).unwrap_or_default();
            inputs.push([&at.0.to_be_bytes()[..], fork].concat());
        }
    }
    inputs
}

/// Returns the blocks of these kinds in the test image, as inputs.
fn blocks_of(kinds: &[RealtimeBlockKind]) -> Vec<Vec<u8>> {
    let block = geometry().block_size as usize;
    let all =
        (0..(DATA.length_bytes() / block) as u64).map(|index| index * (block / SECTOR) as u64);
    let found = all.filter_map(|at| DATA.bytes(DiskAddr(at), block).map(|bytes| (at, bytes)));
    let found = found.filter(|(_, bytes)| {
        RealtimeBlockKind::of(bytes).is_some_and(|kind| kinds.contains(&kind))
    });
    found.map(|(at, bytes)| [&at.to_be_bytes()[..], &bytes].concat()).take(MOST_BLOCKS).collect()
}

/// The largest number of blocks that are seeds.
const MOST_BLOCKS: usize = 12;
