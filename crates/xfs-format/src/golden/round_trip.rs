//! Decodes structures that mkfs.xfs and the kernel wrote, encodes them again, and checks that the
//! bytes are the same.

use std::vec;
use std::vec::Vec;

use zerocopy::IntoBytes;

use super::{HEADERS, geometry, golden, sector};
use crate::addr::{AgBlock, AgNumber, DiskAddr, InodeNumber, Lsn};
use crate::agf::Agf;
use crate::agfl::{self, Agfl};
use crate::agi::Agi;
use crate::attr::short_form as attr_short_form;
use crate::attr::{AttrShortForm, Namespace};
use crate::btree::{BtreeBlock, BtreeFormat, BtreeIdentity, BtreeKind, encode_leaf};
use crate::corruption::StructureAddress;
use crate::directory::short_form as directory_short_form;
use crate::directory::{DirectoryForm, ShortForm};
use crate::features::FormatVersion;
use crate::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use crate::group::Group;
use crate::inode::{CORE_BYTES, InodeCore};
use crate::inode_chunk::{FreeInodeChunks, InodeChunks};
use crate::kind::BlockKind;
use crate::refcount::Refcounts;
use crate::rmap::ReverseMap;
use crate::superblock::{Label, Superblock};

/// Replaces the quota inode numbers whose bits are all ones by 0. Both values mean "no quota
/// inode".
fn without_quota_inodes(mut superblock: Vec<u8>) -> Vec<u8> {
    for range in [160..168, 168..176, 232..240] {
        let inode = &mut superblock[range];
        if inode.iter().all(|byte| *byte == 0xff) {
            inode.fill(0);
        }
    }
    crate::superblock::seal(&mut superblock);
    superblock
}

#[test]
fn headers_round_trip() {
    for (name, headers) in HEADERS {
        let geometry = geometry(headers);
        let at = |index| geometry.header_disk_addr(AgNumber(0), index);
        let mut encoded = vec![0xaa; 512];
        let superblock = Superblock::decode(headers, StructureAddress::Disk(at(0))).unwrap();
        superblock.encode(&mut encoded);
        BlockKind::Superblock.seal(&mut encoded, superblock.lsn);
        // The kernel and xfs_db write "no quota inode" as all ones; mkfs and ferroxfs write 0.
        let stored = sector(headers, 0);
        assert_eq!(encoded, without_quota_inodes(stored), "{name}");

        let agf = Agf::decode(&sector(headers, 1), at(1), &geometry).unwrap();
        agf.encode(&geometry, &mut encoded);
        BlockKind::Agf.seal(&mut encoded, agf.lsn);
        assert_eq!(encoded, sector(headers, 1), "{name}");

        let agi = Agi::decode(&sector(headers, 2), at(2), &geometry).unwrap();
        agi.encode(&geometry, &mut encoded);
        BlockKind::Agi.seal(&mut encoded, agi.lsn);
        assert_eq!(encoded, sector(headers, 2), "{name}");

        // In an aged list, unused entries keep their old contents.
        if name != "aged" {
            let stored = sector(headers, 3);
            let list = Agfl::decode(&stored, at(3), FormatVersion::V5).unwrap();
            let blocks: Vec<AgBlock> =
                list.blocks(agf.free_list).unwrap().map(Result::unwrap).collect();
            let first = agf.free_list.first;
            agfl::encode(AgNumber(0), first, &blocks, &geometry, &mut encoded);
            BlockKind::Agfl.seal(&mut encoded, list.lsn());
            assert_eq!(encoded, stored, "{name}");
        }
    }
}

#[test]
fn superblocks_round_trip() {
    for stored in [
        golden!("external-log.superblock"),
        golden!("large-sectors.superblock"),
        golden!("stripe.superblock"),
        golden!("tiny.superblock"),
        golden!("realtime.superblock"),
        golden!("metadir.superblock"),
        golden!("zoned.superblock"),
    ] {
        let superblock = Superblock::decode(stored, StructureAddress::Disk(DiskAddr(0))).unwrap();
        let mut encoded = vec![0xaa; superblock.geometry.sector_size as usize];
        superblock.encode(&mut encoded);
        BlockKind::Superblock.seal(&mut encoded, superblock.lsn);
        assert_eq!(encoded, stored[..encoded.len()]);
    }
}

fn check_leaf<F: BtreeFormat, R: IntoBytes + zerocopy::Immutable>(
    stored: &[u8],
    encode: impl Fn(&F::Record) -> R,
) {
    let geometry = geometry(golden!("aged.headers"));
    let address = u64::from_be_bytes(stored[16..24].try_into().unwrap());
    let address = DiskAddr(address);
    let block = BtreeBlock::decode(stored, F::KIND, address).unwrap();
    let owner = block.owner().unwrap();
    let group = Group::new(&geometry, AgNumber(owner as u32)).unwrap();
    let records: Vec<R> =
        block.records().map(|record| encode(&F::decode_record(record, &group).unwrap())).collect();
    let identity = BtreeIdentity { kind: F::KIND, owner, address };
    let mut encoded = vec![0xaa; stored.len()];
    encode_leaf(identity, &records, &geometry, &mut encoded);
    let header = F::KIND.layout().header_bytes();
    let end = header + block.count() * F::KIND.layout().record_bytes;
    // Siblings, LSN and checksum do not follow from the leaf's records.
    for range in [0..8, 16..24, 32..52, header..end] {
        assert_eq!(encoded[range.clone()], stored[range]);
    }
    assert!(encoded[end..].iter().all(|byte| *byte == 0));
}

#[test]
fn leaves_round_trip() {
    let geometry = geometry(golden!("aged.headers"));
    check_leaf::<FreeSpaceByBlock, _>(golden!("by-block-leaf.block"), |record| record.encode());
    check_leaf::<FreeSpaceBySize, _>(golden!("by-size-leaf.block"), |record| record.encode());
    check_leaf::<InodeChunks, _>(golden!("inode-leaf.block"), |record| record.encode(&geometry));
    check_leaf::<FreeInodeChunks, _>(golden!("free-inode-leaf.block"), |record| {
        record.encode(&geometry)
    });
    check_leaf::<ReverseMap, _>(golden!("reverse-map-leaf.block"), |record| record.encode());
}

#[test]
fn root_without_records_verifies() {
    let geometry = geometry(golden!("plain.headers"));
    let address = geometry.ag_block_disk_addr(AgNumber(0), AgBlock(6));
    let identity = BtreeIdentity { kind: BtreeKind::Refcount, owner: 0, address };
    let mut block = vec![0xaa; geometry.block_size as usize];
    encode_leaf::<[u8; 12]>(identity, &[], &geometry, &mut block);
    let kind = BlockKind::Btree(BtreeKind::Refcount);
    kind.seal(&mut block, Lsn(0));
    super::verify(kind, &block, address, &geometry).unwrap();
    let decoded = BtreeBlock::decode(&block, BtreeKind::Refcount, address).unwrap();
    assert_eq!((decoded.count(), decoded.left_sibling(), decoded.right_sibling()), (0, None, None));
    assert_eq!(Refcounts::KIND, BtreeKind::Refcount);
}

#[test]
fn inodes_round_trip() {
    macro_rules! inode {
        ($name:literal) => {
            include_bytes!(concat!("../../../../testdata/inodes/", $name))
        };
    }
    let new = inode!("new.superblock") as &[u8];
    let stored: [(&[u8], &[u8]); 6] = [
        (inode!("text.inode"), new),
        (inode!("fragments.inode"), new),
        (inode!("hints.inode"), new),
        (inode!("directory.inode"), new),
        (inode!("removed.inode"), new),
        (inode!("past.inode"), inode!("old.superblock")),
    ];
    for (stored, superblock) in stored {
        let geometry = geometry(superblock);
        let number = InodeNumber(u64::from_be_bytes(stored[152..160].try_into().unwrap()));
        let core = InodeCore::decode(stored, number, &geometry).unwrap();
        let mut encoded = stored.to_vec();
        encoded[..CORE_BYTES].copy_from_slice(core.encode(&geometry).unwrap().as_bytes());
        crate::inode::seal(&mut encoded, core.lsn);
        assert_eq!(encoded, stored);
    }
}

#[test]
fn short_forms_round_trip() {
    let empty = directory_short_form::encode_empty(InodeNumber(128));
    assert_eq!(empty, [0, 0, 0, 0, 0, 128]);
    let wide = directory_short_form::encode_empty(InodeNumber(1 << 33));
    let place = StructureAddress::Inode(InodeNumber(128));
    let form = ShortForm::decode(&wide, place, DirectoryForm::V5).unwrap();
    assert_eq!(form.parent(), InodeNumber(1 << 33));

    let fork = *b"\0\x19\x01\0\x0c\x06\x02xfs:autofsckrepair";
    let form = AttrShortForm::decode(&fork, place).unwrap();
    let entries: Vec<_> = form.entries().map(Result::unwrap).collect();
    assert_eq!(entries[0].namespace, Namespace::Trusted);
    assert_eq!(attr_short_form::encode(&entries).unwrap(), fork);
}

#[test]
fn labels_round_trip() {
    assert_eq!(Label::new(b"twelve bytes").unwrap().as_bytes(), b"twelve bytes");
    assert_eq!(Label::new(b"").unwrap().as_bytes(), b"");
    assert!(Label::new(b"thirteen byte").is_none());
    assert!(Label::new(b"a\0b").is_none());
}
