//! Tests of inodes that the kernel wrote (`testdata/inodes`): unchanged, with changed fields, and
//! with each bit flipped.

use std::format;
use std::vec::Vec;

use super::{
    DeviceNumber, ExtendedFlags, FileType, ForkFormat, ForkKind, FreeInode, InodeCheck, InodeCore,
    InodeFlags, InodeFlags2, encode_free, fork, pack_device, seal, verify_checksum,
};
use crate::addr::{AgInode, DiskAddr, InodeNumber, Lsn};
use crate::corruption::{Check, Corruption, StructureAddress};
use crate::extent::{ExtentList, ExtentRoot, ExtentRules};
use crate::features::{IncompatFeatures, RoCompatFeatures};
use crate::geometry::Geometry;
use crate::superblock::Superblock;
use crate::timestamp::Timestamp;
use crate::verify_context::VerifyContext;

macro_rules! golden {
    ($name:literal) => {
        include_bytes!(concat!("../../../../testdata/inodes/", $name))
    };
}

const EMPTY: &[u8] = golden!("empty.inode");
const TEXT: &[u8] = golden!("text.inode");
const HOLES: &[u8] = golden!("holes.inode");
const FRAGMENTS: &[u8] = golden!("fragments.inode");
const LINK: &[u8] = golden!("link.inode");
const LONG_LINK: &[u8] = golden!("longlink.inode");
const CHARACTER: &[u8] = golden!("character.inode");
const BLOCK: &[u8] = golden!("block.inode");
const FIFO: &[u8] = golden!("fifo.inode");
const HINTS: &[u8] = golden!("hints.inode");
const DIRECTORY: &[u8] = golden!("directory.inode");
const REMOVED: &[u8] = golden!("removed.inode");
const ALL: [&[u8]; 12] = [
    EMPTY, TEXT, HOLES, FRAGMENTS, LINK, LONG_LINK, CHARACTER, BLOCK, FIFO, HINTS, DIRECTORY,
    REMOVED,
];

fn geometry(superblock: &[u8]) -> Geometry {
    Superblock::decode(superblock, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry
}

fn new_geometry() -> Geometry {
    geometry(golden!("new.superblock"))
}

fn stored_number(bytes: &[u8]) -> InodeNumber {
    InodeNumber(u64::from_be_bytes(bytes[152..160].try_into().unwrap()))
}

fn verify(bytes: &[u8], geometry: &Geometry) -> Result<InodeCore, Corruption> {
    verify_as(stored_number(bytes), bytes, geometry)
}

fn verify_as(
    number: InodeNumber,
    bytes: &[u8],
    geometry: &Geometry,
) -> Result<InodeCore, Corruption> {
    let core = InodeCore::decode(bytes, number, geometry)?;
    core.verify(bytes, &VerifyContext { geometry, log_head: None })?;
    Ok(core)
}

/// Returns a golden inode with changed bytes and a recomputed checksum. Each change is an offset
/// and bytes.
fn changed(golden: &[u8], changes: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = golden.to_vec();
    for (offset, new) in changes {
        bytes[*offset..offset + new.len()].copy_from_slice(new);
    }
    let lsn = Lsn(u64::from_be_bytes(bytes[112..120].try_into().unwrap()));
    seal(&mut bytes, lsn);
    bytes
}

/// Returns the golden empty file without the attribute fork that the kernel gives to every new
/// file.
fn bare() -> Vec<u8> {
    changed(EMPTY, &[(82, &[0, 2])])
}

fn check_refused(golden: &[u8], changes: &[(usize, &[u8])], expected: InodeCheck) {
    let geometry = new_geometry();
    let found = verify_as(stored_number(golden), &changed(golden, changes), &geometry).unwrap_err();
    assert_eq!(*found.check(), Check::from(expected));
}

fn check_accepted(golden: &[u8], changes: &[(usize, &[u8])]) {
    verify_as(stored_number(golden), &changed(golden, changes), &new_geometry()).unwrap();
}

#[test]
fn golden_inodes_verify() {
    for bytes in ALL {
        verify(bytes, &new_geometry()).unwrap();
    }
}

#[test]
fn file_with_hints_decodes() {
    let core = verify(HINTS, &new_geometry()).unwrap();
    assert_eq!(core.file_type(), Some(FileType::Regular));
    assert_eq!((core.mode, core.nlink, core.uid, core.gid), (0o100_644, 1, 0, 0));
    assert_eq!(core.project_id, 123_456_789);
    assert_eq!((core.extent_size_hint_blocks, core.cow_extent_size_hint_blocks), (64, 128));
    assert_eq!(core.modify_time.seconds(), 7_258_118_400);
    assert_eq!(core.modify_time.nanoseconds(), 500_000_000);
    assert_eq!(core.flags, InodeFlags::EXTSIZE | InodeFlags::NOATIME);
    let flags2 = InodeFlags2::COWEXTSIZE | InodeFlags2::BIGTIME | InodeFlags2::NREXT64;
    assert_eq!(core.flags2, flags2);
    let shown = ExtendedFlags::EXTSIZE | ExtendedFlags::NOATIME | ExtendedFlags::COWEXTSIZE;
    assert_eq!(core.xflags(), shown | ExtendedFlags::HAS_ATTR);
    assert_eq!(core.next_unlinked, AgInode::NULL);
}

#[test]
fn golden_inodes_have_their_forks() {
    let core = verify(TEXT, &new_geometry()).unwrap();
    assert_eq!((core.data_format, core.extents, core.blocks), (ForkFormat::Extents, 1, 1));
    assert_eq!(core.fork_format(ForkKind::Attr), Some(ForkFormat::Local));
    assert!(core.xflags().contains(ExtendedFlags::HAS_ATTR));
    let (data, attr) = (fork(TEXT, &core, ForkKind::Data), fork(TEXT, &core, ForkKind::Attr));
    assert_eq!(data.len() + attr.len(), 512 - 176);
    assert_eq!(data.len(), usize::from(core.fork_offset) * 8);

    let core = verify(LINK, &new_geometry()).unwrap();
    assert_eq!(core.file_type(), Some(FileType::Symlink));
    assert_eq!(&fork(LINK, &core, ForkKind::Data)[..6], b"target");
    assert_eq!(fork(LINK, &core, ForkKind::Attr), b"");
    assert_eq!(core.fork_format(ForkKind::Attr), None);

    let core = verify(FRAGMENTS, &new_geometry()).unwrap();
    assert_eq!((core.data_format, core.extents), (ForkFormat::Btree, 30));
    let core = verify(DIRECTORY, &new_geometry()).unwrap();
    assert_eq!((core.data_format, core.nlink), (ForkFormat::Local, 2));
}

#[test]
fn device_numbers_decode() {
    let device = |bytes| verify(bytes, &new_geometry()).unwrap().rdev;
    assert_eq!(device(CHARACTER), Some(DeviceNumber { major: 5, minor: 1 }));
    assert_eq!(device(BLOCK), Some(DeviceNumber { major: 259, minor: 100_000 }));
    assert_eq!(device(FIFO), None);
    assert_eq!(pack_device(DeviceNumber { major: 259, minor: 100_000 }), Some(259 << 18 | 100_000));
    assert_eq!(pack_device(DeviceNumber { major: 1 << 14, minor: 0 }), None);
    assert_eq!(pack_device(DeviceNumber { major: 0, minor: 1 << 18 }), None);
}

/// Checks I2 of `inode` on an inode that the kernel freed: it decodes as free, and its core is
/// valid.
#[test]
fn removed_inode_is_free_and_valid() {
    let core = verify(REMOVED, &new_geometry()).unwrap();
    assert!(core.is_free());
    assert_eq!((core.file_type(), core.nlink), (None, 0));
}

#[test]
fn inode_without_bigtime_decodes() {
    let bytes = golden!("past.inode");
    let geometry = geometry(golden!("old.superblock"));
    let core = verify(bytes, &geometry).unwrap();
    assert_eq!(core.modify_time.seconds(), -2);
    assert_eq!(core.modify_time.nanoseconds(), 250_000_000);
    assert_eq!(core.flags2, InodeFlags2::empty());
    let bad = changed(bytes, &[(44, &[0x3b, 0x9a, 0xca, 0])]);
    let found = verify(&bad, &geometry).unwrap_err();
    let raw = 0xffff_fffe_3b9a_ca00;
    assert_eq!(*found.check(), Check::from(InodeCheck::Nanoseconds { raw }));
}

#[test]
fn inode_of_another_number_or_volume_is_refused() {
    let geometry = new_geometry();
    let own = stored_number(EMPTY);
    let other = InodeNumber(own.0 + 1);
    let found = verify_as(other, EMPTY, &geometry).unwrap_err();
    assert_eq!(*found.check(), Check::from(InodeCheck::Misplaced { found: own }));
    assert_eq!(found.address(), StructureAddress::Inode(other));

    let found = verify(&changed(EMPTY, &[(160, &[0; 16])]), &geometry).unwrap_err();
    assert!(matches!(found.check(), Check::ForeignUuid { .. }));
    let found = verify(&changed(EMPTY, &[(0, b"IM")]), &geometry).unwrap_err();
    assert_eq!(*found.check(), Check::Magic { found: 0x494d, expected: 0x494e });
    check_refused(EMPTY, &[(4, &[2])], InodeCheck::Version { version: 2 });
}

#[test]
fn lsn_ahead_of_the_log_is_refused() {
    let geometry = new_geometry();
    let core = InodeCore::decode(EMPTY, stored_number(EMPTY), &geometry).unwrap();
    let log_head = Some(Lsn(core.lsn.0 - 1));
    let found = core.verify(EMPTY, &VerifyContext { geometry: &geometry, log_head }).unwrap_err();
    assert!(matches!(found.check(), Check::LsnAheadOfLog { .. }));
    let log_head = Some(core.lsn);
    core.verify(EMPTY, &VerifyContext { geometry: &geometry, log_head }).unwrap();
}

#[test]
fn invalid_fields_are_refused() {
    check_refused(EMPTY, &[(2, &[0x00, 1])], InodeCheck::Mode { mode: 1 });
    check_refused(EMPTY, &[(2, &[0x30, 0])], InodeCheck::Mode { mode: 0x3000 });
    check_refused(EMPTY, &[(6, &[0, 1])], InodeCheck::OldLinkCount { found: 1 });
    check_refused(EMPTY, &[(80, &[0, 1])], InodeCheck::CounterPadding);
    check_refused(EMPTY, &[(56, &[0x80])], InodeCheck::Size { size: 1 << 63 });
    check_accepted(EMPTY, &[(56, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])]);
    check_refused(EMPTY, &[(5, &[6])], InodeCheck::UnknownFormat { raw: 6 });
    check_refused(EMPTY, &[(83, &[9])], InodeCheck::UnknownFormat { raw: 9 });
}

#[test]
fn fork_formats_must_match_the_file_type() {
    use FileType::{CharDevice, Directory, Fifo, Regular, Symlink};
    let check = |golden, raw: u8, file_type| {
        let format = ForkFormat::decode(raw).unwrap();
        let expected = InodeCheck::Format { fork: ForkKind::Data, file_type, format };
        check_refused(golden, &[(5, &[raw])], expected);
    };
    check(EMPTY, 0, Regular);
    check(EMPTY, 1, Regular);
    check(EMPTY, 4, Regular);
    check(EMPTY, 5, Regular);
    check(DIRECTORY, 0, Directory);
    check(DIRECTORY, 5, Directory);
    check(LINK, 0, Symlink);
    check(FIFO, 2, Fifo);
    check(CHARACTER, 1, CharDevice);
    let bare = &bare();
    for (attr_format, golden) in [(1, bare.as_slice()), (3, bare), (0, TEXT), (4, TEXT), (5, TEXT)]
    {
        let format = ForkFormat::decode(attr_format).unwrap();
        let expected = InodeCheck::Format { fork: ForkKind::Attr, file_type: Regular, format };
        check_refused(golden, &[(83, &[attr_format])], expected);
    }
}

#[test]
fn extent_counts_must_match_format_and_blocks() {
    let bare = bare();
    let exceed = |extents, attr_extents, blocks| InodeCheck::ExtentsExceedBlocks {
        extents,
        attr_extents,
        blocks,
    };
    check_refused(&bare, &[(31, &[1])], exceed(1, 0, 0));
    check_refused(&bare, &[(71, &[1])], exceed(0, 0, 1));
    check_refused(&bare, &[(24, &[0xff; 8])], exceed(u64::MAX, 0, 0));
    let count =
        |fork, format, extents, limit| InodeCheck::ExtentCount { fork, format, extents, limit };
    let (data, attr) = (ForkKind::Data, ForkKind::Attr);
    // 336 bytes of literal area hold 21 records.
    check_accepted(&bare, &[(31, &[21]), (71, &[21])]);
    let expected = count(data, ForkFormat::Extents, 22, 21);
    check_refused(&bare, &[(31, &[22]), (71, &[22])], expected);
    let expected = count(data, ForkFormat::Btree, 1 << 48, (1 << 48) - 1);
    check_refused(FRAGMENTS, &[(25, &[1, 0, 0, 0, 0, 0, 0]), (64, &[0x7f])], expected);
    check_refused(LINK, &[(31, &[1]), (71, &[1])], count(data, ForkFormat::Local, 1, 0));
    let expected = count(attr, ForkFormat::Local, 1, 0);
    check_refused(TEXT, &[(79, &[1]), (71, &[9])], expected);
    let expected = InodeCheck::ExtentsWithoutFork { extents: 1 };
    check_refused(&bare, &[(79, &[1]), (71, &[9])], expected);
    // With the attribute fork at 192 the data fork holds 12.
    let expected = InodeCheck::NeedlessBtree { fork: data, extents: 12 };
    check_refused(FRAGMENTS, &[(31, &[12])], expected);
    check_accepted(FRAGMENTS, &[(31, &[13])]);
}

#[test]
fn fork_offset_must_lie_in_the_literal_area() {
    let misplaced = |offset| InodeCheck::ForkOffset { offset, literal_bytes: 336 };
    check_refused(TEXT, &[(82, &[42])], misplaced(42));
    check_refused(TEXT, &[(82, &[255])], misplaced(255));
    check_accepted(TEXT, &[(82, &[41])]);
    check_refused(FIFO, &[(82, &[2])], misplaced(2));
    check_accepted(FIFO, &[(82, &[1])]);
}

#[test]
fn inline_contents_must_fit_their_fork() {
    let expected = InodeCheck::LocalSize { bytes: 337, room: 336 };
    check_refused(LINK, &[(62, &[1, 81])], expected);
    check_refused(LINK, &[(62, &[4, 1])], InodeCheck::TargetSize { size: 1025 });
    let empty = |file_type, nlink| InodeCheck::Empty { file_type, nlink };
    check_refused(LINK, &[(62, &[0, 0])], empty(FileType::Symlink, 1));
    check_refused(DIRECTORY, &[(62, &[0, 0])], empty(FileType::Directory, 2));
    check_accepted(LINK, &[(62, &[0, 0]), (16, &[0; 4])]);
}

#[test]
fn extent_size_hints_must_match_the_flags() {
    let flags = InodeFlags::EXTSIZE | InodeFlags::NOATIME;
    let wrong = |blocks, flags| InodeCheck::ExtentSizeHint { blocks, flags };
    check_refused(HINTS, &[(72, &[0; 4])], wrong(0, flags));
    check_refused(HINTS, &[(72, &[0, 0x20, 0, 0])], wrong(1 << 21, flags));
    check_refused(HINTS, &[(72, &[0, 4, 0, 0])], wrong(1 << 18, flags));
    check_refused(HINTS, &[(90, &[0; 2])], wrong(64, InodeFlags::empty()));
    check_refused(HINTS, &[(90, &[0x10, 0])], wrong(64, InodeFlags::EXTSZINHERIT));
    let flags2 = InodeFlags2::COWEXTSIZE | InodeFlags2::BIGTIME | InodeFlags2::NREXT64;
    let wrong = |blocks, flags| InodeCheck::CowExtentSizeHint { blocks, flags };
    check_refused(HINTS, &[(128, &[0; 4])], wrong(0, flags2));
    let without = flags2.difference(InodeFlags2::COWEXTSIZE);
    check_refused(HINTS, &[(127, &[0x18])], wrong(128, without));
    let file_type = FileType::Directory;
    check_refused(DIRECTORY, &[(127, &[0x1a])], InodeCheck::Reflink { file_type });
}

#[test]
fn flags_need_their_feature() {
    let mut geometry = new_geometry();
    geometry.incompat = IncompatFeatures::empty();
    let feature_off =
        |geometry: &Geometry, golden: &[u8]| verify(golden, geometry).unwrap_err().check().clone();
    let expected = InodeCheck::FeatureOff { feature: "bigtime" };
    assert_eq!(feature_off(&geometry, EMPTY), expected.into());
    geometry.incompat = IncompatFeatures::BIGTIME;
    let expected = InodeCheck::FeatureOff { feature: "nrext64" };
    assert_eq!(feature_off(&geometry, EMPTY), expected.into());
    let expected = InodeCheck::FeatureOff { feature: "metadir" };
    check_refused(EMPTY, &[(127, &[0x38])], expected);
    let mut geometry = new_geometry();
    geometry.ro_compat = RoCompatFeatures::empty();
    let shared = changed(EMPTY, &[(127, &[0x1a])]);
    let expected = InodeCheck::FeatureOff { feature: "reflink" };
    assert_eq!(feature_off(&geometry, &shared), expected.into());
}

#[test]
fn metadata_btree_decodes_and_is_marked() {
    let mut geometry = new_geometry();
    geometry.incompat |= IncompatFeatures::METADIR;
    // Format 5, the metadata flag, kind 8, blocks without extents.
    let changes: [(usize, &[u8]); 4] = [(5, &[5]), (127, &[0x38]), (7, &[8]), (71, &[1])];
    let core = verify(&changed(EMPTY, &changes), &geometry).unwrap();
    assert_eq!((core.data_format, core.metafile_type), (ForkFormat::MetadataBtree, 8));
}

#[test]
fn too_few_bytes_are_refused() {
    let geometry = new_geometry();
    for length in 0..EMPTY.len() {
        let found = InodeCore::decode(&EMPTY[..length], InodeNumber(67), &geometry).unwrap_err();
        let expected = Check::Truncated { available: length, needed: 512 };
        assert_eq!(*found.check(), expected);
    }
}

#[test]
fn flipped_bit_fails_the_checksum() {
    let geometry = new_geometry();
    for bit in 0..TEXT.len() * 8 {
        let mut bytes = TEXT.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(verify_as(stored_number(TEXT), &bytes, &geometry).is_err(), "bit {bit}");
    }
}

#[test]
fn flipped_bit_with_valid_checksum_never_panics() {
    let geometry = new_geometry();
    for golden in ALL {
        for bit in 0..golden.len() * 8 {
            let flipped = golden[bit / 8] ^ (1 << (bit % 8));
            let bytes = changed(golden, &[(bit / 8, &[flipped])]);
            let core = match verify_as(stored_number(golden), &bytes, &geometry) {
                Ok(core) => core,
                Err(error) => {
                    assert!(!format!("{error}").is_empty());
                    continue;
                }
            };
            for kind in [ForkKind::Data, ForkKind::Attr] {
                let fork = fork(&bytes, &core, kind);
                let rules = ExtentRules::of(&core, kind, &geometry);
                let list = ExtentList::decode(fork, core.fork_extents(kind));
                let _ = list.and_then(|list| list.verify(Default::default(), &rules));
                let _ = ExtentRoot::decode(fork).and_then(|root| root.verify(&geometry));
            }
            let _ = core.xflags();
        }
    }
}

/// Checks I2 of `inode` on free inodes that this crate encodes: they decode as free, and their
/// cores are valid.
#[test]
fn encoded_free_inodes_are_free_and_valid() {
    let geometry = new_geometry();
    let size = geometry.inode_size as usize;
    let mut bytes = std::vec![0; 4 * size];
    encode_free(InodeNumber(132), 7, &geometry, &mut bytes);
    for (inode, number) in bytes.chunks_exact(size).zip(132..) {
        let core = verify_as(InodeNumber(number), inode, &geometry).unwrap();
        assert_eq!((core.is_free(), core.generation), (true, 7));
        assert!(core.next_unlinked.is_null());
        assert_eq!(verify_checksum(inode), Ok(()));
    }
}

/// A core can be encoded exactly if `is_encodable` says so, at both ends of the range of each time
/// and count, in both forms.
#[test]
fn core_is_encodable_if_it_can_be_encoded() {
    let geometry = new_geometry();
    let core = InodeCore::decode(EMPTY, stored_number(EMPTY), &geometry).unwrap();
    let mut outcomes = [0, 0];
    let mut check = |core: &InodeCore| {
        let is_encodable = core.is_encodable();
        assert_eq!(is_encodable, core.encode(&geometry).is_some(), "{core:?}");
        outcomes[usize::from(is_encodable)] += 1;
    };
    for flags2 in [InodeFlags2::empty(), InodeFlags2::BIGTIME | InodeFlags2::NREXT64] {
        let moment = |seconds| Timestamp::new(seconds, 0).unwrap();
        let now = moment(1);
        let core = InodeCore {
            flags2,
            access_time: now,
            modify_time: now,
            change_time: now,
            birth_time: now,
            ..core.clone()
        };
        let last = moment((u64::MAX / 1_000_000_000) as i64 - (1 << 31));
        let ends = [i64::MIN, -1 << 31, (-1 << 31) - 1, 1 << 31, 1 << 40, i64::MAX].map(moment);
        let after_last = [709_551_615, 709_551_616].map(|nanoseconds| {
            Timestamp::new(last.seconds(), nanoseconds).expect("less than a second")
        });
        for time in ends.into_iter().chain([last]).chain(after_last) {
            check(&InodeCore { access_time: time, ..core.clone() });
            check(&InodeCore { modify_time: time, ..core.clone() });
            check(&InodeCore { change_time: time, ..core.clone() });
            check(&InodeCore { birth_time: time, ..core.clone() });
        }
        for count in [0, u32::from(u16::MAX), u32::from(u16::MAX) + 1] {
            check(&InodeCore { attr_extents: count, ..core.clone() });
        }
        for count in [u64::from(u32::MAX), u64::from(u32::MAX) + 1] {
            check(&InodeCore { extents: count, ..core.clone() });
        }
    }
    assert!(outcomes.iter().all(|count| *count > 10), "{outcomes:?}");
}

/// The checksums of free inodes are right whatever the first number and the count are: also of
/// numbers that begin in the middle of a chunk, and of more than one chunk.
#[test]
fn checksums_of_free_inodes_are_right_from_every_number_on() {
    let geometry = new_geometry();
    let size = geometry.inode_size as usize;
    for first in (64..130).chain([1 << 20, (1 << 20) + 32]) {
        for count in [1, 8, 32, 64, 200] {
            let mut bytes = std::vec![0; count * size];
            encode_free(InodeNumber(first), 0x1234_5678, &geometry, &mut bytes);
            for inode in bytes.chunks_exact(size) {
                assert_eq!(verify_checksum(inode), Ok(()), "{count} inodes from {first} on");
            }
        }
    }
}

/// A free inode is recognised without its checksum, and one of another place or in use is not.
#[test]
fn free_inodes_are_decoded_without_their_checksums() {
    let geometry = new_geometry();
    let size = geometry.inode_size as usize;
    let mut bytes = std::vec![0; size];
    encode_free(InodeNumber(132), 7, &geometry, &mut bytes);
    bytes[size - 1] = 1;
    assert!(verify_checksum(&bytes).is_err());
    let free = FreeInode { generation: 7, next_unlinked: AgInode::NULL, lsn: Lsn(0) };
    let mut foreign = geometry.clone();
    foreign.meta_uuid = uuid::Uuid::from_u128(1);
    let decode = |bytes: &[u8], number, geometry, log_head| {
        FreeInode::decode(bytes, InodeNumber(number), &VerifyContext { geometry, log_head })
    };
    assert_eq!(decode(&bytes, 132, &geometry, None), Ok(Some(free)));
    assert!(decode(&bytes, 133, &geometry, None).is_err(), "another place");
    assert!(decode(&bytes, 132, &foreign, None).is_err(), "another volume");
    assert!(decode(&bytes[..size - 1], 132, &geometry, None).is_err(), "cut off");
    bytes[2..4].copy_from_slice(&[0x81, 0xA4]);
    assert_eq!(decode(&bytes, 132, &geometry, None), Ok(None), "in use");
    // Recovery would not replay a file over an inode that is newer than the log.
    bytes[112..120].copy_from_slice(&Lsn::new(3, 9).0.to_be_bytes());
    assert!(decode(&bytes, 132, &geometry, Some(Lsn::new(3, 9))).is_ok());
    assert!(decode(&bytes, 132, &geometry, Some(Lsn::new(3, 8))).is_err(), "after the log");
    bytes[0] = 0;
    assert!(decode(&bytes, 132, &geometry, None).is_err(), "no inode");
}
