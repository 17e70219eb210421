use xfs_format::InodeNumber;
use xfs_format::inode::{CORE_BYTES, ForkFormat, InodeCore, InodeDisk};
use xfs_format::log_item::LoggedFields;
use zerocopy::FromBytes;

use super::{ForkBytes, ForkRegion, InodeImage, logged, read, write};
use crate::testing::{make, superblock};

const INODE_BYTES: usize = 512;

/// Returns the bytes of an inode with these fork formats, after `change` to its core.
fn inode(data: ForkFormat, attr: ForkFormat, change: impl FnOnce(&mut InodeCore)) -> Vec<u8> {
    let geometry = superblock(&make()).geometry;
    let mut core = InodeCore::decode(&free_inode(&geometry), InodeNumber(128), &geometry).unwrap();
    (core.mode, core.data_format, core.attr_format) = (0o100_644, data, attr);
    core.fork_offset = 20;
    change(&mut core);
    let mut bytes = vec![0xaa; INODE_BYTES];
    let disk = core.encode(&geometry).unwrap();
    bytes[..CORE_BYTES].copy_from_slice(zerocopy::IntoBytes::as_bytes(&disk));
    bytes
}

fn free_inode(geometry: &xfs_format::Geometry) -> Vec<u8> {
    let disk = InodeDisk {
        magic: xfs_format::inode::INODE_MAGIC.into(),
        version: 3,
        data_format: ForkFormat::Extents.encode(),
        attr_format: ForkFormat::Extents.encode(),
        uuid: geometry.meta_uuid.into_bytes(),
        ..zerocopy::FromZeros::new_zeroed()
    };
    let mut bytes = zerocopy::IntoBytes::as_bytes(&disk).to_vec();
    bytes.resize(INODE_BYTES, 0);
    bytes
}

fn image(bytes: &[u8]) -> InodeImage {
    let geometry = superblock(&make()).geometry;
    let core = InodeCore::decode(bytes, InodeNumber(128), &geometry).unwrap();
    let (data, attr) = read(bytes, &core);
    InodeImage { core, data, attr }
}

#[test]
fn read_returns_the_used_part_of_each_fork() {
    let bytes = inode(ForkFormat::Local, ForkFormat::Extents, |core| {
        core.size = 5;
        core.attr_extents = 2;
    });
    let found = image(&bytes);
    assert_eq!((found.data.len(), found.attr.len()), (5, 32));
    let bytes = inode(ForkFormat::Btree, ForkFormat::Local, |_| {});
    assert_eq!(image(&bytes).data.len(), 160, "a root fills its fork");
    let bytes = inode(ForkFormat::Device, ForkFormat::Extents, |core| core.fork_offset = 0);
    assert!(image(&bytes).data.is_empty());
}

#[test]
fn written_forks_are_read_back_and_the_unlinked_link_stays() {
    let bytes = inode(ForkFormat::Extents, ForkFormat::Local, |core| core.extents = 3);
    let mut expected = image(&bytes);
    expected.data = (0..48).collect::<Vec<_>>().into();
    expected.attr = vec![0, 4, 0, 0].into();
    let mut slot = vec![0x77; INODE_BYTES];
    write(&mut slot, InodeDisk::ref_from_prefix(&bytes).unwrap().0, &expected);
    let disk = InodeDisk::ref_from_prefix(&slot).unwrap().0;
    assert_eq!(disk.next_unlinked.get(), 0x7777_7777, "the link belongs to the buffer");
    let found = image(&slot);
    assert_eq!((&found.data, &found.attr), (&expected.data, &expected.attr));
    assert!(slot[CORE_BYTES + 48..CORE_BYTES + 160].iter().all(|byte| *byte == 0));
}

#[test]
#[should_panic(expected = "does not fit")]
fn fork_longer_than_its_inode_panics() {
    let bytes = inode(ForkFormat::Extents, ForkFormat::Extents, |_| {});
    let mut image = image(&bytes);
    image.data = vec![1; 161].into();
    write(&mut [0; INODE_BYTES], InodeDisk::ref_from_prefix(&bytes).unwrap().0, &image);
}

#[test]
fn fork_is_logged_in_its_present_format() {
    let bytes = inode(ForkFormat::Extents, ForkFormat::Local, |core| core.extents = 1);
    let mut image = image(&bytes);
    image.attr = vec![0, 4, 0, 0].into();
    let dirty = LoggedFields::DATA_LOCAL | LoggedFields::ATTR_LOCAL;
    let forks = logged(&image, dirty);
    let expected = LoggedFields::CORE | LoggedFields::DATA_EXTENTS | LoggedFields::ATTR_LOCAL;
    assert_eq!(forks.fields, expected);
    assert_eq!(
        (forks.data.unwrap().length_bytes(), forks.attr.unwrap().length_bytes()),
        (16, image.attr.len())
    );
    assert!(logged(&image, LoggedFields::CORE).data.is_none());
    image.data = ForkBytes::NONE;
    assert_eq!(logged(&image, dirty).fields, LoggedFields::CORE | LoggedFields::ATTR_LOCAL);
}

#[test]
fn btree_root_is_logged_with_pointers_directly_after_keys() {
    let bytes = inode(ForkFormat::Btree, ForkFormat::Extents, |_| {});
    let mut image = image(&bytes);
    // Level 1, two records, room for nine.
    let mut root = vec![0, 1, 0, 2];
    root.extend((1..=2_u64).flat_map(u64::to_be_bytes));
    root.resize(4 + 9 * 8, 0);
    root.extend((11..=12_u64).flat_map(u64::to_be_bytes));
    root.resize(160, 0);
    image.data = root.into();
    let Some(ForkRegion::Root(root)) = logged(&image, LoggedFields::DATA_ROOT).data else {
        panic!("the data fork has a root")
    };
    let mut region = Vec::new();
    root.encode_into(&mut region);
    assert_eq!(region.len(), ForkRegion::Root(root).length_bytes());
    assert_eq!(&region[..8], b"BMA3\0\x01\0\x02");
    assert!(region[8..72].iter().all(|byte| *byte == 0));
    let words: Vec<u64> =
        region[72..].chunks(8).map(|word| u64::from_be_bytes(word.try_into().unwrap())).collect();
    assert_eq!(words, [1, 2, 11, 12]);
}

/// Checks that the device number of a device inode is logged with a flag of its own, and that the
/// data fork, in which the number lies, is not logged.
#[test]
fn device_number_is_logged_with_the_core() {
    let bytes = inode(ForkFormat::Device, ForkFormat::Extents, |core| core.fork_offset = 0);
    let image = image(&bytes);
    let forks = logged(&image, LoggedFields::DEVICE);
    assert_eq!(forks.fields, LoggedFields::CORE | LoggedFields::DEVICE);
    assert!(forks.data.is_none() && forks.attr.is_none());
    assert_eq!(logged(&image, LoggedFields::CORE).fields, LoggedFields::CORE);
    // A file that is no device any more has no device number to log.
    let bytes = inode(ForkFormat::Extents, ForkFormat::Extents, |_| {});
    let fields = logged(&self::image(&bytes), LoggedFields::DEVICE).fields;
    assert_eq!(fields, LoggedFields::CORE);
}

/// Checks that an inode whose short-form attributes begin with a damaged length keeps the whole
/// fork in its image. The verifier of an inode does not check this length. An image with fewer
/// bytes than the disk would lose the rest when the inode is written.
#[test]
fn damaged_length_of_attributes_keeps_the_whole_fork() {
    let mut bytes = inode(ForkFormat::Extents, ForkFormat::Local, |_| {});
    let start = CORE_BYTES + 160;
    for (stored, used) in [(4_u16, 4), (176, 176), (177, 176), (u16::MAX, 176)] {
        bytes[start..start + 2].copy_from_slice(&stored.to_be_bytes());
        assert_eq!(&*image(&bytes).attr, &bytes[start..start + used], "{stored}");
    }
}

#[test]
#[should_panic(expected = "a verified fork holds its contents")]
fn local_contents_longer_than_the_fork_panic() {
    image(&inode(ForkFormat::Local, ForkFormat::Extents, |core| core.size = 161));
}
