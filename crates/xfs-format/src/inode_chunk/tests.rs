//! Tests of hand-made records of inode chunks, with the geometries of volumes that mkfs.xfs made.

use zerocopy::IntoBytes;

use super::{FreeInodeChunks, InodeChunk, InodeChunkCheck, InodeChunkDisk};
use crate::addr::{AgInode, AgNumber};
use crate::btree::BtreeFormat;
use crate::corruption::Check;
use crate::golden::{self, golden};
use crate::group::Group;

const SPARSE: &[u8] = golden!("plain.headers");
const FULL: &[u8] = golden!("few-features.headers");

fn sparse(start: u32, holes: u16, (count, free_count): (u8, u8), free: u64) -> InodeChunkDisk {
    InodeChunkDisk {
        start: start.into(),
        holes: holes.into(),
        count,
        free_count,
        free: free.into(),
    }
}

fn decode(headers: &[u8], disk: InodeChunkDisk) -> Result<InodeChunk, Check> {
    let geometry = golden::geometry(headers);
    let group = Group::new(&geometry, AgNumber(0)).unwrap();
    InodeChunk::decode(disk.as_bytes(), &group)
}

#[track_caller]
fn check_refused(disk: InodeChunkDisk, expected: InodeChunkCheck) {
    assert_eq!(decode(SPARSE, disk), Err(Check::InodeChunk(expected)));
}

#[test]
fn hole_mask_bit_covers_four_inodes() {
    for holes in 0..=u16::MAX {
        let chunk = InodeChunk { start: AgInode(128), holes, count: 0, free_count: 0, free: 0 };
        let mut present = 0_u64;
        for inode in 0..64 {
            present |= u64::from(holes >> (inode / 4) & 1 == 0) << inode;
        }
        assert_eq!(chunk.present(), present, "{holes:#x}");
    }
}

#[test]
fn sparse_records_decode() {
    let chunk = decode(SPARSE, sparse(128, 0xff00, (32, 3), 0xffff_ffff_0000_0111)).unwrap();
    assert_eq!(chunk.present(), 0xffff_ffff);
    assert_eq!(chunk.allocated(), 0xffff_feee);
    assert!(chunk.is_sparse());
    assert_eq!(chunk.position(AgInode(128)), Some(0));
    assert_eq!(chunk.position(AgInode(191)), Some(63));
    assert_eq!((chunk.position(AgInode(127)), chunk.position(AgInode(192))), (None, None));
}

#[test]
fn full_records_decode() {
    let chunk = decode(FULL, sparse(128, 0, (0, 2), 3)).unwrap();
    assert_eq!((chunk.count, chunk.free_count, chunk.present()), (64, 2, u64::MAX));
    // On a volume with sparse chunks the same bytes mean a chunk without inodes.
    assert!(decode(SPARSE, sparse(128, 0, (0, 2), 3)).is_err());
    let huge = decode(FULL, sparse(128, 1, (0, 2), 3));
    let expected = InodeChunkCheck::FreeCount { free_count: 0x1_0002, counted: 2 };
    assert_eq!(huge, Err(Check::InodeChunk(expected)));
}

#[test]
fn counts_must_match_the_masks() {
    use InodeChunkCheck::{Count, FreeCount};
    check_refused(sparse(128, 0, (63, 0), 0), Count { count: 63, holes: 0 });
    check_refused(sparse(128, 1, (64, 0), 0xf), Count { count: 64, holes: 1 });
    check_refused(sparse(128, 0xffff, (0, 0), u64::MAX), Count { count: 0, holes: 0xffff });
    check_refused(sparse(128, 0, (64, 2), 1), FreeCount { free_count: 2, counted: 1 });
    check_refused(sparse(128, 1, (60, 4), 0xf), FreeCount { free_count: 4, counted: 0 });
}

#[test]
fn inodes_must_lie_in_the_group() {
    use InodeChunkCheck::{Alignment, Range};
    check_refused(sparse(129, 0, (64, 0), 0), Alignment { start: 129 });
    check_refused(sparse(0, 0, (64, 0), 0), Range { start: 0 });
    let end = 19200 * 8;
    check_refused(sparse(end, 0, (64, 0), 0), Range { start: end });
    check_refused(sparse(end - 32, 0, (64, 0), 0), Range { start: end - 32 });
    check_refused(sparse(u32::MAX - 7, 0, (64, 0), 0), Range { start: u32::MAX - 7 });
    // Holes may lie outside the group.
    decode(SPARSE, sparse(end - 32, 0xff00, (32, 0), 0xffff_ffff << 32)).unwrap();
    decode(SPARSE, sparse(end - 64, 0, (64, 0), 0)).unwrap();
}

#[test]
fn free_inode_btree_refuses_a_chunk_without_free_inodes() {
    let geometry = golden::geometry(SPARSE);
    let group = Group::new(&geometry, AgNumber(0)).unwrap();
    let decode = |disk: InodeChunkDisk| FreeInodeChunks::decode_record(disk.as_bytes(), &group);
    decode(sparse(128, 0, (64, 1), 1)).unwrap();
    let expected = Check::InodeChunk(InodeChunkCheck::NoneFree { start: 128 });
    assert_eq!(decode(sparse(128, 0, (64, 0), 0)), Err(expected));
}

#[test]
fn chunks_must_not_overlap() {
    let chunk = |start| decode(SPARSE, sparse(start, 0, (64, 0), 0)).unwrap();
    assert!(FreeInodeChunks::may_follow(&chunk(192), &chunk(128)));
    assert!(!FreeInodeChunks::may_follow(&chunk(184), &chunk(128)));
    assert!(!FreeInodeChunks::may_follow(&chunk(128), &chunk(128)));
}

#[test]
fn merged_chunk_has_the_inodes_of_both() {
    let start = AgInode(128);
    for bits in 1..16_u32 {
        let (low, high) = (4 * bits, 64 - 4 * bits);
        let first = InodeChunk::of_free(start, 0, low);
        let second = InodeChunk::of_free(start, low, high);
        assert_eq!(first.present().count_ones(), low);
        assert_eq!(first.present() | second.present(), u64::MAX);
        let used = first.with_used(low - 1);
        let whole = used.merged(second).unwrap();
        assert_eq!(whole, InodeChunk::of_free(start, 0, 64).with_used(low - 1));
        assert_eq!(second.merged(used), Some(whole));
        assert_eq!(whole.merged(first), None);
        assert_eq!(first.merged(InodeChunk::of_free(AgInode(192), low, high)), None);
        for chunk in [first, second, used, whole] {
            assert_eq!(decode(SPARSE, encode(&chunk)), Ok(chunk));
        }
    }
}

fn encode(chunk: &InodeChunk) -> InodeChunkDisk {
    chunk.encode(&golden::geometry(SPARSE))
}

#[test]
fn first_free_is_the_lowest_free_inode() {
    // The second half is on disk.
    let mut chunk = InodeChunk::of_free(AgInode(128), 32, 32);
    for position in 32..64 {
        assert_eq!(chunk.first_free(), Some(position));
        chunk = chunk.with_used(position);
    }
    assert_eq!((chunk.first_free(), chunk.free_count), (None, 0));
    assert_eq!(chunk.with_freed(40).first_free(), Some(40));
}
