//! Tests that change one field of one structure, and correct the checksum. The checker must report
//! the damage by its code.

use xfs_check::{CheckOptions, Code, Report, check};
use xfs_device::BlockDevice;
use xfs_format::acl;
use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::attr::leaf::LEAF_MAGIC;
use xfs_format::directory::name_hash;
use xfs_format::{
    AgBlock, AgInode, AgNumber, BlockKind, DiskAddr, Geometry, StructureAddress, Superblock,
    btree::BtreeKind,
};
use xfs_testkit::{Image, Prng, golden};

/// The block size of the golden image.
const BLOCK_BYTES: usize = 1024;
const SECTOR_BYTES: usize = 512;

fn report(image: &Image) -> Option<Report> {
    let mut sector = vec![0; SECTOR_BYTES];
    image.read_at(&mut sector, 0).expect("an image has a first sector");
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0))).ok()?;
    check(image, &superblock, &CheckOptions::default(), &()).ok()
}

fn codes(image: &Image) -> Vec<Code> {
    let report = report(image).expect("the superblock is sound");
    report.findings.iter().map(|finding| finding.code).collect()
}

fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    let field = bytes.get_mut(offset..offset + value.len()).expect("the field lies in its block");
    field.copy_from_slice(value);
}

/// The addresses of the headers of a group, and its decoded AGF and AGI, which name the roots of
/// its btrees.
struct Group {
    number: AgNumber,
    geometry: Geometry,
    agf_at: DiskAddr,
    agi_at: DiskAddr,
    agfl_at: DiskAddr,
    agf: Agf,
    agi: Agi,
}

impl Group {
    fn of(image: &Image, number: AgNumber) -> Self {
        let geometry = image.geometry();
        let at = |index| geometry.header_disk_addr(number, index);
        let bytes = |index| image.bytes(at(index), SECTOR_BYTES).expect("a header");
        let agf = Agf::decode(&bytes(1), at(1), &geometry).expect("a sound AGF");
        let agi = Agi::decode(&bytes(2), at(2), &geometry).expect("a sound AGI");
        let (agf_at, agi_at, agfl_at) = (at(1), at(2), at(3));
        Self { number, agf_at, agi_at, agfl_at, agf, agi, geometry }
    }

    fn root(&self, kind: BtreeKind) -> DiskAddr {
        let root = match kind {
            BtreeKind::FreeSpaceByBlock => self.agf.free_space_by_block,
            BtreeKind::FreeSpaceBySize => self.agf.free_space_by_size,
            BtreeKind::ReverseMap => self.agf.reverse_map.expect("a reverse map"),
            BtreeKind::Refcount => self.agf.refcount.expect("reference counts"),
            BtreeKind::Inode => self.agi.inode_btree,
            BtreeKind::FreeInode => self.agi.free_inode_btree.expect("a free-inode btree"),
            BtreeKind::Extent | BtreeKind::RealtimeReverseMap | BtreeKind::RealtimeRefcount => {
                unreachable!("no btree of a group")
            }
        };
        self.address(root.block)
    }

    fn address(&self, block: AgBlock) -> DiskAddr {
        self.geometry.ag_block_disk_addr(self.number, block)
    }

    /// Returns the address of the first leaf of a btree of the group.
    fn leaf(&self, image: &Image, kind: BtreeKind) -> DiskAddr {
        use xfs_format::btree::BtreeBlock;
        let mut at = self.root(kind);
        loop {
            let bytes = image.bytes(at, BLOCK_BYTES).expect("a block");
            let block = BtreeBlock::decode(&bytes, kind, at).expect("a sound block");
            if block.is_leaf() {
                return at;
            }
            let child = block.pointer(0).expect("a node has children");
            at = self.address(AgBlock(u32::try_from(child).expect("a short pointer")));
        }
    }
}

/// Adds one to a big-endian field.
fn increment(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return;
        }
    }
}

#[test]
fn counter_of_a_header_that_is_one_too_high_is_found() {
    let clean = golden();
    let group = Group::of(&clean, AgNumber(0));
    let cases = [
        (group.agf_at, BlockKind::Agf, 52, Code::AgfFreeBlocks),
        (group.agf_at, BlockKind::Agf, 56, Code::AgfLongest),
        (group.agf_at, BlockKind::Agf, 60, Code::AgfBtreeBlocks),
        (group.agf_at, BlockKind::Agf, 80, Code::AgfRmapBlocks),
        (group.agf_at, BlockKind::Agf, 84, Code::AgfRefcountBlocks),
        (group.agi_at, BlockKind::Agi, 16, Code::AgiCount),
        (group.agi_at, BlockKind::Agi, 28, Code::AgiFreeCount),
        (group.agi_at, BlockKind::Agi, 336, Code::AgiInodeBlocks),
        (group.agi_at, BlockKind::Agi, 340, Code::AgiFreeInodeBlocks),
        (group.agi_at, BlockKind::Agi, 32, Code::AgiNewest),
    ];
    for (at, kind, offset, code) in cases {
        let mut image = clean.clone();
        image.edit(at, SECTOR_BYTES, kind, |bytes| increment(&mut bytes[offset..offset + 4]));
        let found = codes(&image);
        assert!(found.contains(&code), "{code}: {found:?}");
    }
}

#[test]
fn magic_of_the_free_list_is_found() {
    let mut image = golden();
    let group = Group::of(&image, AgNumber(0));
    image.edit(group.agfl_at, SECTOR_BYTES, BlockKind::Agfl, |bytes| put(bytes, 0, b"XAFM"));
    assert!(codes(&image).contains(&Code::AgflMagic));
}

#[test]
fn free_extent_that_is_one_block_longer_is_found_on_both_sides() {
    let clean = golden();
    let group = Group::of(&clean, AgNumber(0));
    for kind in [BtreeKind::FreeSpaceByBlock, BtreeKind::FreeSpaceBySize] {
        let mut image = clean.clone();
        let at = group.leaf(&clean, kind);
        let length = kind.layout().header_bytes() + 4;
        image.edit(at, BLOCK_BYTES, BlockKind::Btree(kind), |bytes| {
            increment(&mut bytes[length..length + 4]);
        });
        let found = codes(&image);
        assert!(found.contains(&Code::BnoDiffers), "{kind:?}: {found:?}");
        let is_claimed_twice = found.contains(&Code::SpaceCrosslinked);
        assert_eq!(is_claimed_twice, kind == BtreeKind::FreeSpaceByBlock, "{found:?}");
    }
}

#[test]
fn reverse_mapping_of_another_owner_is_missing_and_extra() {
    let mut image = golden();
    let group = Group::of(&image, AgNumber(0));
    let at = group.leaf(&image, BtreeKind::ReverseMap);
    let kind = BlockKind::Btree(BtreeKind::ReverseMap);
    // The last record is that of a file; the first ones are those of the group's headers.
    image.edit(at, BLOCK_BYTES, kind, |bytes| {
        let count = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        let owner = BtreeKind::ReverseMap.layout().header_bytes() + (count - 1) * 24 + 8;
        increment(&mut bytes[owner..owner + 8]);
    });
    let found = codes(&image);
    assert!(found.contains(&Code::RmapMissing), "{found:?}");
    assert!(found.contains(&Code::RmapExtra), "{found:?}");
}

#[test]
fn reference_count_that_is_one_too_high_is_found() {
    let mut image = golden();
    let geometry = image.geometry();
    let groups = geometry.groups().map(|number| Group::of(&image, number));
    let has_records = |at: &DiskAddr| image.bytes(*at, 8).is_some_and(|head| head[6..] != [0, 0]);
    let at = groups
        .map(|group| group.leaf(&image, BtreeKind::Refcount))
        .find(has_records)
        .expect("a group has shared blocks");
    let kind = BlockKind::Btree(BtreeKind::Refcount);
    image.edit(at, BLOCK_BYTES, kind, |bytes| {
        let count = BtreeKind::Refcount.layout().header_bytes() + 8;
        increment(&mut bytes[count..count + 4]);
    });
    let found = codes(&image);
    assert!(found.contains(&Code::RefcCount), "{found:?}");
}

/// Returns the address of the first regular file with blocks in the first inode chunk.
fn first_file(image: &Image) -> DiskAddr {
    let geometry = image.geometry();
    let group = Group::of(image, AgNumber(0));
    let chunks = image.bytes(group.leaf(image, BtreeKind::Inode), BLOCK_BYTES).expect("a leaf");
    let records = BtreeKind::Inode.layout().header_bytes();
    let word = chunks.get(records..records + 4).expect("the leaf has a record");
    let start = u32::from_be_bytes(word.try_into().expect("a word"));
    (start..start + 64)
        .filter_map(|inode| {
            geometry.inode_location(geometry.join_inode(AgNumber(0), AgInode(inode)))
        })
        .map(|place| DiskAddr(place.cluster.0 + u64::from(place.offset_bytes) / 512))
        .find(|at| {
            let inode = image.bytes(*at, 128);
            let byte = |index| inode.as_ref().and_then(|inode| inode.get(index)).copied();
            // The type in the mode, and the lowest byte of the count of blocks.
            byte(2).is_some_and(|mode| mode >> 4 == 0o10) && byte(71).is_some_and(|low| low != 0)
        })
        .expect("a chunk has a regular file with blocks")
}

/// Changes the first regular file with blocks, and checks that the report has a finding with this
/// code.
fn check_changed_file(change: impl Fn(&mut [u8]), code: Code) {
    let mut image = golden();
    let at = first_file(&image);
    image.edit(at, SECTOR_BYTES, BlockKind::InodeCluster, change);
    let found = codes(&image);
    assert!(found.contains(&code), "{found:?}");
}

#[test]
fn file_on_a_realtime_device_that_does_not_exist_is_found() {
    check_changed_file(|inode| inode[91] |= 1, Code::InodeFeature);
}

#[test]
fn flag_that_does_not_exist_is_found() {
    check_changed_file(|inode| inode[90] |= 0x80, Code::InodeFlags);
    check_changed_file(|inode| inode[120] |= 0x80, Code::InodeFlags);
}

#[test]
fn flag_of_directories_in_a_file_is_found() {
    check_changed_file(|inode| inode[90] |= 4, Code::InodeFlags);
}

#[test]
fn linked_inode_with_a_next_inode_of_an_unlinked_list_is_found() {
    check_changed_file(|inode| inode[96..100].copy_from_slice(&[0, 0, 0, 64]), Code::InodeUnlinked);
}

#[test]
fn wrong_count_of_blocks_is_found_beside_attributes_in_the_inode() {
    check_changed_file(|inode| inode[68] += 1, Code::InodeBlocks);
}

#[test]
fn flag_of_shared_blocks_in_a_file_without_them_is_found() {
    check_changed_file(|inode| inode[127] |= 2, Code::InodeReflinkUnused);
}

/// The bytes before the table of entries in an attribute leaf.
const LEAF_HEADER_BYTES: usize = 80;

/// An entry in the table of an attribute leaf: its hash, the offset of its name, and its flags.
type LeafEntry = (u32, u16, u8);

/// Returns the two bytes at `at` of a block as a number.
fn half_word(bytes: &[u8], at: usize) -> u16 {
    let field = bytes.get(at..at + 2).expect("the field lies in the block");
    u16::from_be_bytes(field.try_into().expect("two bytes"))
}

/// Returns the table of entries of an attribute leaf.
fn leaf_entries(leaf: &[u8]) -> Vec<LeafEntry> {
    let entry = |index: usize| {
        let at = LEAF_HEADER_BYTES + index * 8;
        let hash = leaf.get(at..at + 4).expect("the table lies in the block");
        let hash = u32::from_be_bytes(hash.try_into().expect("four bytes"));
        let flags = half_word(leaf, at + 6).to_be_bytes();
        (hash, half_word(leaf, at + 4), flags.first().copied().expect("two bytes"))
    };
    (0..half_word(leaf, 56).into()).map(entry).collect()
}

/// Returns the index of the first entry of a leaf whose value is remote and complete.
fn remote_entry(entries: &[LeafEntry]) -> Option<usize> {
    let (local, incomplete) = (1, 0x80);
    entries.iter().position(|(_, _, flags)| flags & (local | incomplete) == 0)
}

/// Returns the address of an attribute leaf that has a remote value.
fn remote_leaf(image: &Image) -> DiskAddr {
    let geometry = image.geometry();
    let blocks = geometry.groups().flat_map(|group| {
        let all = 0..geometry.ag_length(group);
        all.map(move |block| (group, AgBlock(block)))
    });
    let mut leaves = blocks.map(|(group, block)| geometry.ag_block_disk_addr(group, block));
    let is_remote_leaf = |at: &DiskAddr| {
        let bytes = image.bytes(*at, BLOCK_BYTES).expect("a block");
        half_word(&bytes, 8) == LEAF_MAGIC && remote_entry(&leaf_entries(&bytes)).is_some()
    };
    leaves.find(is_remote_leaf).expect("the image has a remote value")
}

#[test]
fn impossible_access_control_list_in_a_remote_value_is_found() {
    let mut image = golden();
    let at = remote_leaf(&image);
    image.edit(at, BLOCK_BYTES, BlockKind::Attr, |leaf| {
        let mut entries = leaf_entries(leaf);
        let index = remote_entry(&entries).expect("the leaf has a remote value");
        let old = usize::from(entries[index].1);
        // The old name has 6 bytes, and 20 with its head. The new one has 12, and 24 with its head.
        let start = half_word(leaf, 60) - 24;
        let head: Vec<u8> = leaf[old..old + 8].to_vec();
        put(leaf, usize::from(start), &head);
        put(leaf, usize::from(start) + 8, &[12]);
        put(leaf, usize::from(start) + 9, acl::ACCESS_NAME);
        for (at, value) in
            [(58, half_word(leaf, 58) + 4), (60, start), (66, half_word(leaf, 66) - 24)]
        {
            put(leaf, at, &value.to_be_bytes());
        }
        leaf[62] = 1;
        // The flag of the namespace "trusted" is 2.
        entries[index] = (name_hash(acl::ACCESS_NAME), start, 2);
        entries.sort_unstable();
        for (place, (hash, name, flags)) in entries.into_iter().enumerate() {
            let place = LEAF_HEADER_BYTES + place * 8;
            put(leaf, place, &hash.to_be_bytes());
            put(leaf, place + 4, &name.to_be_bytes());
            put(leaf, place + 6, &[flags]);
        }
    });
    assert_eq!(codes(&image), [Code::AttrAcl]);
}

#[test]
fn blocks_of_an_attribute_fork_without_an_attribute_are_found() {
    let mut image = golden();
    let at = remote_leaf(&image);
    image.edit(at, BLOCK_BYTES, BlockKind::Attr, |leaf| {
        let entries = leaf_entries(leaf);
        let index = remote_entry(&entries).expect("the leaf has a remote value");
        // The value now ends with its first block, which has 56 bytes of header.
        let length = u32::try_from(BLOCK_BYTES - 56).expect("a short value");
        put(leaf, usize::from(entries[index].1) + 4, &length.to_be_bytes());
    });
    assert_eq!(codes(&image), [Code::AttrUnreached]);
}

#[test]
fn bytes_after_the_last_field_of_the_superblock_are_found() {
    let mut image = golden();
    image.edit(DiskAddr(0), SECTOR_BYTES, BlockKind::Superblock, |sector| sector[400] = 1);
    let found = codes(&image);
    assert!(found.contains(&Code::SbUnused), "{found:?}");
}

#[test]
fn inode_chunks_that_are_out_of_order_are_found_and_still_read() {
    let mut image = golden();
    let group = Group::of(&image, AgNumber(0));
    let at = group.leaf(&image, BtreeKind::Inode);
    image.edit(at, BLOCK_BYTES, BlockKind::Btree(BtreeKind::Inode), |bytes| {
        let count = usize::from(u16::from_be_bytes([bytes[6], bytes[7]]));
        assert!(count > 1, "the leaf has several chunks");
        let records = BtreeKind::Inode.layout().header_bytes();
        let (first, last) = (records, records + (count - 1) * 16);
        let kept: [u8; 16] = bytes[first..first + 16].try_into().expect("a record");
        bytes.copy_within(last..last + 16, first);
        bytes[last..last + 16].copy_from_slice(&kept);
    });
    let found = codes(&image);
    assert!(found.contains(&Code::BtOrder), "{found:?}");
    // The inodes of both chunks are known, so no name leads to nothing.
    assert!(!found.contains(&Code::DirTarget), "{found:?}");
}

/// Checks C3 of the crate: a structure that cannot be read does not end the check. Several threads
/// find the same as one.
#[test]
fn damaged_byte_of_each_block_ends_without_a_panic_and_in_the_same_findings() {
    let clean = golden();
    let group = Group::of(&clean, AgNumber(0));
    let blocks = [
        (group.agf_at, BlockKind::Agf, SECTOR_BYTES),
        (group.agi_at, BlockKind::Agi, SECTOR_BYTES),
        (group.agfl_at, BlockKind::Agfl, SECTOR_BYTES),
        (
            group.root(BtreeKind::FreeSpaceByBlock),
            BlockKind::Btree(BtreeKind::FreeSpaceByBlock),
            BLOCK_BYTES,
        ),
        (
            group.root(BtreeKind::FreeSpaceBySize),
            BlockKind::Btree(BtreeKind::FreeSpaceBySize),
            BLOCK_BYTES,
        ),
        (group.root(BtreeKind::ReverseMap), BlockKind::Btree(BtreeKind::ReverseMap), BLOCK_BYTES),
        (group.root(BtreeKind::Refcount), BlockKind::Btree(BtreeKind::Refcount), BLOCK_BYTES),
        (group.root(BtreeKind::Inode), BlockKind::Btree(BtreeKind::Inode), BLOCK_BYTES),
        (group.root(BtreeKind::FreeInode), BlockKind::Btree(BtreeKind::FreeInode), BLOCK_BYTES),
    ];
    let mut random = Prng::new(0xc8ec);
    for (at, kind, length) in blocks {
        for _ in 0..12 {
            let mut image = clean.clone();
            let offset = random.within(0..200);
            let change = u8::try_from(random.within(1..256)).expect("a byte");
            image.edit(at, length, kind, |bytes| bytes[offset] ^= change);
            let once = report(&image).map(|report| report.findings);
            let again = report(&image).map(|report| report.findings);
            assert_eq!(once, again, "{kind:?} byte {offset}");
        }
    }
}
