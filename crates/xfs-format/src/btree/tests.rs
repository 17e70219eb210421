//! Tests of btree blocks that the kernel wrote (`testdata/groups`), and of copies of them with
//! changed bytes.

use std::vec;
use std::vec::Vec;

use super::{BtreeBlock, BtreeCheck, BtreeFormat, BtreeHeader, BtreeIdentity, BtreeKind, Extents};
use crate::addr::{DiskAddr, Lsn};
use crate::corruption::Check;
use crate::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use crate::geometry::Geometry;
use crate::golden::{self, golden};
use crate::group::Group;
use crate::inode_chunk::{FreeInodeChunks, InodeChunks};
use crate::kind::{BlockKind, VerifyContext};
use crate::realtime::{RealtimeRefcounts, RealtimeReverseMap};
use crate::refcount::Refcounts;
use crate::rmap::ReverseMap;

struct Golden {
    name: &'static str,
    kind: BtreeKind,
    bytes: &'static [u8],
}

macro_rules! block {
    ($name:literal, $kind:ident) => {
        Golden { name: $name, kind: BtreeKind::$kind, bytes: golden!(concat!($name, ".block")) }
    };
}

const BLOCKS: [Golden; 13] = [
    block!("by-block-node", FreeSpaceByBlock),
    block!("by-block-leaf", FreeSpaceByBlock),
    block!("by-size-node", FreeSpaceBySize),
    block!("by-size-leaf", FreeSpaceBySize),
    block!("inode-node", Inode),
    block!("inode-leaf", Inode),
    block!("free-inode-leaf", FreeInode),
    block!("reverse-map-node", ReverseMap),
    block!("reverse-map-leaf", ReverseMap),
    block!("refcount-node", Refcount),
    block!("refcount-leaf", Refcount),
    block!("extent-node", Extent),
    block!("extent-leaf", Extent),
];

/// A text with the disk address of each golden block.
const ADDRESSES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/groups/addresses"));

impl Golden {
    fn named(name: &str) -> &'static Self {
        const { &BLOCKS }.iter().find(|block| block.name == name).unwrap()
    }

    fn at(&self) -> DiskAddr {
        let address = |line: &'static str| line.strip_prefix(self.name)?.strip_prefix(' ');
        DiskAddr(ADDRESSES.lines().find_map(address).unwrap().parse().unwrap())
    }

    fn block_kind(&self) -> BlockKind {
        BlockKind::Btree(self.kind)
    }

    fn verify(&self, bytes: &[u8]) -> Result<(), Check> {
        let found = golden::verify(self.block_kind(), bytes, self.at(), &geometry());
        found.map_err(|error| error.check().clone())
    }

    /// Returns a copy of the block with the bytes `with` at `offset` and a recomputed checksum.
    fn changed(&self, offset: usize, with: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        bytes[offset..offset + with.len()].copy_from_slice(with);
        golden::reseal(self.block_kind(), &mut bytes);
        bytes
    }

    #[track_caller]
    fn check_refused(&self, offset: usize, with: &[u8], expected: BtreeCheck) {
        assert_eq!(self.verify(&self.changed(offset, with)), Err(Check::Btree(expected)));
    }
}

fn geometry() -> Geometry {
    golden::geometry(golden!("aged.headers"))
}

/// Decodes all entries of a block as a cursor would. Returns the number of entries that decode.
fn read_all<F: BtreeFormat>(bytes: &[u8], at: DiskAddr, geometry: &Geometry) -> usize {
    let block = BtreeBlock::decode(bytes, F::KIND, at).unwrap();
    let group = Group::new(geometry, geometry.split_disk_addr(at).unwrap().0).unwrap();
    let records = block.records().filter(|record| F::decode_record(record, &group).is_ok());
    let children = (0..block.count()).filter(|index| {
        block.pointer(*index).is_some() && block.key(*index).and_then(F::decode_key).is_some()
    });
    records.count() + children.count()
}

fn read_all_of(kind: BtreeKind, bytes: &[u8], at: DiskAddr, geometry: &Geometry) -> usize {
    match kind {
        BtreeKind::FreeSpaceByBlock => read_all::<FreeSpaceByBlock>(bytes, at, geometry),
        BtreeKind::FreeSpaceBySize => read_all::<FreeSpaceBySize>(bytes, at, geometry),
        BtreeKind::Inode => read_all::<InodeChunks>(bytes, at, geometry),
        BtreeKind::FreeInode => read_all::<FreeInodeChunks>(bytes, at, geometry),
        BtreeKind::ReverseMap => read_all::<ReverseMap>(bytes, at, geometry),
        BtreeKind::Refcount => read_all::<Refcounts>(bytes, at, geometry),
        BtreeKind::Extent => read_all::<Extents>(bytes, at, geometry),
        BtreeKind::RealtimeReverseMap => read_all::<RealtimeReverseMap>(bytes, at, geometry),
        BtreeKind::RealtimeRefcount => read_all::<RealtimeRefcounts>(bytes, at, geometry),
    }
}

#[test]
fn golden_blocks_verify_and_decode() {
    for golden in &BLOCKS {
        golden.verify(golden.bytes).unwrap_or_else(|error| panic!("{}: {error}", golden.name));
        let block = BtreeBlock::decode(golden.bytes, golden.kind, golden.at()).unwrap();
        assert_eq!(block.is_leaf(), golden.name.ends_with("leaf"), "{}", golden.name);
        assert!(block.count() > 1, "{}", golden.name);
        let read = read_all_of(golden.kind, golden.bytes, golden.at(), &geometry());
        assert_eq!(read, block.count(), "{}", golden.name);
        assert_eq!(block.owner() != Some(0), golden.kind == BtreeKind::Extent, "{}", golden.name);
    }
}

/// Encodes all records of a leaf and compares the bytes with those of the kernel. Returns the
/// number of records.
fn write_all<F: BtreeFormat>(bytes: &[u8], at: DiskAddr, geometry: &Geometry) -> usize {
    let block = BtreeBlock::decode(bytes, F::KIND, at).unwrap();
    let group = Group::new(geometry, geometry.split_disk_addr(at).unwrap().0).unwrap();
    let layout = F::KIND.layout();
    for stored in block.records() {
        let record = F::decode_record(stored, &group).unwrap();
        let mut encoded = vec![0xaa; layout.record_bytes];
        F::encode_record(&record, geometry, &mut encoded);
        assert_eq!(encoded, stored, "{record:?}");
        assert_eq!(F::decode_record_key(stored, &group).unwrap(), F::key(&record));
        let mut keys = vec![0xaa; layout.node_key_bytes()];
        F::encode_key(&record, &mut keys);
        assert_eq!(F::decode_key(&keys[..layout.key_bytes]), Some(F::key(&record)));
        if layout.has_high_keys {
            assert_eq!(F::decode_key(&keys[layout.key_bytes..]), Some(F::high_key(&record)));
        }
    }
    block.records().count()
}

#[test]
fn records_and_keys_encode_to_the_bytes_of_the_kernel() {
    let (mut written, geometry) = (0, geometry());
    for golden in &BLOCKS {
        let (bytes, at) = (golden.bytes, golden.at());
        written += match golden.kind {
            BtreeKind::FreeSpaceByBlock => write_all::<FreeSpaceByBlock>(bytes, at, &geometry),
            BtreeKind::FreeSpaceBySize => write_all::<FreeSpaceBySize>(bytes, at, &geometry),
            BtreeKind::Inode => write_all::<InodeChunks>(bytes, at, &geometry),
            BtreeKind::FreeInode => write_all::<FreeInodeChunks>(bytes, at, &geometry),
            BtreeKind::ReverseMap => write_all::<ReverseMap>(bytes, at, &geometry),
            BtreeKind::Refcount => write_all::<Refcounts>(bytes, at, &geometry),
            BtreeKind::Extent => write_all::<Extents>(bytes, at, &geometry),
            BtreeKind::RealtimeReverseMap => write_all::<RealtimeReverseMap>(bytes, at, &geometry),
            BtreeKind::RealtimeRefcount => write_all::<RealtimeRefcounts>(bytes, at, &geometry),
        };
    }
    assert!(written > 100, "only {written} records");
}

#[test]
fn headers_encode_to_the_bytes_of_the_kernel() {
    let geometry = geometry();
    for golden in &BLOCKS {
        let (bytes, at) = (golden.bytes, golden.at());
        let block = BtreeBlock::decode(bytes, golden.kind, at).unwrap();
        let identity =
            BtreeIdentity { kind: golden.kind, owner: block.owner().unwrap(), address: at };
        let header = BtreeHeader {
            identity,
            level: block.level() as u16,
            count: block.count() as u16,
            left: block.left_sibling(),
            right: block.right_sibling(),
        };
        // The bytes after the header are kept, for the checksum.
        let mut encoded = bytes.to_vec();
        let header_bytes = golden.kind.layout().header_bytes();
        header.encode(&geometry, &mut encoded[..header_bytes]);
        golden.block_kind().seal(&mut encoded, block.lsn());
        assert_eq!(encoded, bytes, "{}", golden.name);
    }
}

#[test]
fn pointers_encode_to_the_bytes_of_the_kernel() {
    for golden in &BLOCKS {
        let block = BtreeBlock::decode(golden.bytes, golden.kind, golden.at()).unwrap();
        let layout = golden.kind.layout();
        let stored = |range: core::ops::Range<usize>| &golden.bytes[range];
        let width = layout.pointer_bytes();
        let left = layout.encode_pointer(block.left_sibling());
        assert_eq!(stored(layout.left_sibling_range()), &left[..width]);
        let right = layout.encode_pointer(block.right_sibling());
        assert_eq!(stored(layout.right_sibling_range()), &right[..width]);
        if let Some(child) = block.pointer(0) {
            let start = layout.pointers_offset(golden.bytes.len() as u32);
            let encoded = layout.encode_pointer(Some(child));
            assert_eq!(stored(start..start + width), &encoded[..width]);
            assert_eq!(layout.decode_pointer(&encoded), Some(child));
        }
    }
}

#[test]
fn flipped_bit_that_passes_still_decodes() {
    let geometry = geometry();
    for golden in &BLOCKS {
        golden::for_each_flip(golden.block_kind(), golden.bytes, 1024, |_, flipped| {
            if golden.verify(flipped).is_ok() {
                let block = BtreeBlock::decode(flipped, golden.kind, golden.at()).unwrap();
                let read = read_all_of(golden.kind, flipped, golden.at(), &geometry);
                assert_eq!(read, block.count(), "{}", golden.name);
            }
        });
    }
}

#[test]
fn common_fields_are_checked() {
    let leaf = Golden::named("by-block-leaf");
    let check = |offset: usize, with: &[u8]| leaf.verify(&leaf.changed(offset, with)).unwrap_err();
    assert!(matches!(check(0, b"AB3C"), Check::Magic { .. }));
    assert_eq!(check(16, &[0; 8]), Check::MisplacedBlock { found: DiskAddr(0) });
    assert!(matches!(check(32, &[7; 16]), Check::ForeignUuid { .. }));
    let mut torn = leaf.bytes.to_vec();
    torn[1000] ^= 1;
    assert!(matches!(leaf.verify(&torn), Err(Check::Checksum { .. })));
    assert!(matches!(leaf.verify(&leaf.bytes[..40]), Err(Check::Truncated { .. })));
    let geometry = geometry();
    let context = VerifyContext { geometry: &geometry, log_head: Some(Lsn::new(1, 0)) };
    let sealed = |lsn| {
        let mut bytes = leaf.bytes.to_vec();
        leaf.block_kind().seal(&mut bytes, lsn);
        leaf.block_kind().verify(&bytes, leaf.at(), &context).map_err(|error| error.check().clone())
    };
    let (found, log_head) = (Lsn::new(1, 1), Lsn::new(1, 0));
    assert_eq!(sealed(found), Err(Check::LsnAheadOfLog { found, log_head }));
    assert_eq!(sealed(log_head), Ok(()));
    assert_eq!(sealed(Lsn::NULL), Ok(()));
}

#[test]
fn counts_and_levels_are_bounded() {
    let leaf = Golden::named("by-block-leaf");
    let count = |count, max, level| BtreeCheck::Count { count, max, level };
    leaf.check_refused(6, &122_u16.to_be_bytes(), count(122, 121, 0));
    let node = Golden::named("reverse-map-node");
    node.check_refused(6, &u16::MAX.to_be_bytes(), count(65535, 22, 3));
    node.check_refused(6, &[0; 2], BtreeCheck::EmptyNode);
    let max = BtreeKind::ReverseMap.max_levels(&geometry()) - 1;
    node.check_refused(4, &[0, 200], BtreeCheck::Level { level: 200, max });
}

#[test]
fn siblings_and_pointers_must_exist() {
    let leaf = Golden::named("by-block-leaf");
    let sibling = |sibling| BtreeCheck::Sibling { sibling };
    leaf.check_refused(8, &[0; 4], sibling(0));
    leaf.check_refused(12, &[0x7f; 4], sibling(0x7f7f_7f7f));
    let own = u32::try_from(leaf.at().0 / 2).unwrap();
    leaf.check_refused(12, &own.to_be_bytes(), sibling(own.into()));
    let node = Golden::named("by-block-node");
    let pointers = 56 + 80 * 8;
    let index = 1;
    node.check_refused(
        pointers + 4,
        &[0xff; 4],
        BtreeCheck::Pointer { index, pointer: 0xffff_ffff },
    );
    node.check_refused(pointers + 4, &[0; 4], BtreeCheck::Pointer { index, pointer: 0 });
    let node = Golden::named("extent-node");
    let pointers = 72 + 59 * 8;
    let pointer = u64::MAX >> 1;
    node.check_refused(
        pointers + 8,
        &pointer.to_be_bytes(),
        BtreeCheck::Pointer { index, pointer },
    );
}

#[test]
fn entries_must_ascend() {
    for golden in &BLOCKS {
        let layout = golden.kind.layout();
        let is_leaf = golden.name.ends_with("leaf");
        let entry = if is_leaf { layout.record_bytes } else { layout.node_key_bytes() };
        let start = layout.header_bytes();
        let first = golden.bytes[start..start + entry].to_vec();
        golden.check_refused(start + entry, &first, BtreeCheck::Order { index: 1 });
    }
}

#[test]
fn high_keys_must_not_be_below_low_ones() {
    let node = Golden::named("reverse-map-node");
    node.check_refused(56 + 40 + 20, &[0; 20], BtreeCheck::HighKey { index: 1 });
}

#[test]
fn touching_free_extents_are_refused() {
    let leaf = Golden::named("by-block-leaf");
    let word =
        |offset: usize| u32::from_be_bytes(leaf.bytes[offset..offset + 4].try_into().unwrap());
    let gap = word(56 + 8) - word(56);
    leaf.check_refused(56 + 4, &gap.to_be_bytes(), BtreeCheck::Order { index: 1 });
}

#[test]
fn layouts_have_the_capacity_of_the_kernel() {
    let counts = |kind: BtreeKind, size| {
        let layout = kind.layout();
        (layout.max_records(size), layout.max_pointers(size))
    };
    assert_eq!(counts(BtreeKind::FreeSpaceByBlock, 4096), (505, 336));
    assert_eq!(counts(BtreeKind::Inode, 4096), (252, 505));
    assert_eq!(counts(BtreeKind::ReverseMap, 4096), (168, 91));
    assert_eq!(counts(BtreeKind::Refcount, 4096), (336, 505));
    assert_eq!(counts(BtreeKind::Extent, 4096), (251, 251));
    assert_eq!(counts(BtreeKind::Extent, 65536), (4091, 4091));
}

#[test]
fn views_of_short_bytes_fail() {
    for length in 0..72 {
        for golden in &BLOCKS {
            let bytes = &golden.bytes[..length];
            assert!(BtreeBlock::decode(bytes, golden.kind, golden.at()).is_err());
        }
    }
}
