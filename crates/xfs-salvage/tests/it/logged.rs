//! Tests of damaged inodes whose newest state is in the log.

use std::sync::Arc;

use xfs_device::{MemoryDevice, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::inode::ForkKind;
use xfs_format::log_item::LoggedFields;
use xfs_format::{AgNumber, BlockKind, DiskAddr, FsBlock, InodeNumber};
use xfs_salvage::{InodeSource, Origin, SalvageOptions, Status};
use xfs_testkit::{Image, LogRecords, golden};

use crate::damage::{assert_equal_but, inode_address, number_of, superblock, zero_inode};
use crate::support::{Delivered, salvage};

const LOCAL_ATTRIBUTES: LoggedFields = LoggedFields::ATTR_LOCAL;
const FILE: LoggedFields = LoggedFields::DATA_EXTENTS.union(LOCAL_ATTRIBUTES);

/// Salvages an image. The salvage also looks for damaged inodes in the log of the image.
fn run(image: &Image) -> Delivered {
    let bytes = image.bytes(DiskAddr(0), image.length_bytes()).unwrap();
    let log: SharedDevice = Arc::new(MemoryDevice::from_bytes(&bytes).unwrap());
    salvage(image, SalvageOptions { log: Some(log), ..SalvageOptions::default() })
}

fn inode(image: &Image, number: InodeNumber) -> Vec<u8> {
    image.bytes(inode_address(image, number), 512).unwrap()
}

/// Puts these parts of an inode into an old record of the log, and zeros the inode on disk.
fn move_to_log(image: &mut Image, number: InodeNumber, fields: LoggedFields) {
    let bytes = inode(image, number);
    let mut log = LogRecords::of(image);
    log.inode(number, &bytes, fields);
    log.unmount();
    zero_inode(image, number);
}

/// For one file after another, zeros the inode, so that only the log has it. Each copy must be
/// equal to that of the sound image.
#[test]
fn inode_that_only_the_log_has_is_delivered() {
    let sound = golden();
    let whole = run(&sound);
    let device = LoggedFields::DEVICE.union(LOCAL_ATTRIBUTES);
    let local = LoggedFields::DATA_LOCAL.union(LOCAL_ATTRIBUTES);
    let files = [
        ("files/empty", LOCAL_ATTRIBUTES),
        ("files/original", FILE),
        ("attr-short", LOCAL_ATTRIBUTES),
        ("fifo", device),
        ("deep/1/2", local),
    ];
    for (path, fields) in files {
        let mut image = sound.clone();
        move_to_log(&mut image, number_of(&whole, path), fields);
        let left = run(&image);
        assert_equal_but(&whole, &left, &[]);
        let report = &left.reports[path];
        assert_eq!(report.status, Status::Doubtful, "{path}: {:?}", report.reasons);
        assert_eq!(report.inode_source, Some(InodeSource::Log), "{path}");
        assert_eq!(left.totals.doubtful, 1, "{path}");
        assert_eq!(left.totals.lost, 0, "{path}");
    }
}

#[test]
fn file_whose_map_the_log_lacks_gets_it_from_the_reverse_map() {
    let mut image = golden();
    let whole = run(&image);
    move_to_log(&mut image, number_of(&whole, "files/original"), LOCAL_ATTRIBUTES);
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.reports["files/original"].inode_source, Some(InodeSource::Log));
}

#[test]
fn file_whose_attributes_the_log_lacks_is_partial() {
    let mut image = golden();
    let whole = run(&image);
    move_to_log(&mut image, number_of(&whole, "files/original"), LoggedFields::DATA_EXTENTS);
    let left = run(&image);
    assert_equal_but(&whole, &left, &["files/original"]);
    let (copy, original) = (left.files["files/original"], whole.files["files/original"]);
    assert_eq!((copy.hash, copy.size, copy.mode), (original.hash, original.size, original.mode));
    let report = &left.reports["files/original"];
    assert_eq!(report.status, Status::Partial, "{:?}", report.reasons);
}

/// Checks that the file `files/empty` has no inode from the log: it was delivered as an empty file
/// with the name of its directory entry.
#[track_caller]
fn assert_is_made_again(left: &Delivered) {
    let (file, report) = (&left.files["files/empty"], &left.reports["files/empty"]);
    assert_eq!((file.mode, file.size, file.attributes), (0o100_600, 0, 0));
    assert_eq!((report.status, report.inode_source), (Status::Doubtful, None));
}

/// Puts an inode into the log, and after it a record that cannot be read. Checks that the file is
/// salvaged without the inode from the log: the unreadable record may have had a newer state.
#[test]
fn state_before_a_damaged_record_is_not_used() {
    let mut image = golden();
    let whole = run(&image);
    let (number, other) = (number_of(&whole, "files/empty"), number_of(&whole, "files/original"));
    let (bytes, later) = (inode(&image, number), inode(&image, other));
    let mut log = LogRecords::of(&mut image);
    log.inode(number, &bytes, LOCAL_ATTRIBUTES);
    let damaged = log.inode(other, &later, FILE).block();
    let damaged = log.address(damaged + 1);
    log.unmount();
    image.edit_with(damaged, 512, |block| block[64..128].fill(0x5a));
    zero_inode(&mut image, number);
    assert_is_made_again(&run(&image));
}

/// According to the log, the inode was freed after its last state with a name. Checks that this
/// state is not used.
#[test]
fn inode_that_was_freed_later_is_not_used() {
    let mut image = golden();
    let whole = run(&image);
    let number = number_of(&whole, "files/empty");
    let bytes = inode(&image, number);
    let mut freed = bytes.clone();
    freed[2..4].fill(0);
    freed[16..20].fill(0);
    let mut log = LogRecords::of(&mut image);
    log.inode(number, &bytes, LOCAL_ATTRIBUTES);
    log.inode(number, &freed, LoggedFields::CORE);
    log.unmount();
    zero_inode(&mut image, number);
    assert_is_made_again(&run(&image));
}

/// Destroys the inode btrees, and the inode and the entry of a file, so that only the log knows the
/// file. Checks that the file is delivered as an orphan with all its contents.
#[test]
fn inode_that_no_btree_lists_is_an_orphan_from_the_log() {
    let mut image = golden();
    let whole = run(&image);
    let number = number_of(&whole, "files/original");
    move_to_log(&mut image, number, FILE);
    zero_inode(&mut image, number_of(&whole, "files"));
    let superblock = superblock(&image);
    for group in superblock.geometry.groups() {
        image.replace(superblock.geometry.header_disk_addr(group, 2), &[0; 512]);
    }
    let left = run(&image);
    let report = left.reports.values().find(|report| report.inode == number).unwrap();
    assert_eq!(report.inode_source, Some(InodeSource::Log));
    assert_ne!(report.origin, Origin::Entry);
    let path = String::from_utf8_lossy(&report.path).into_owned();
    assert_eq!(left.files[&path].hash, whole.files["files/original"].hash);
}

/// Returns the address of the first leaf of the attributes of a file.
fn attribute_leaf(image: &Image, number: InodeNumber) -> DiskAddr {
    let superblock = superblock(image);
    let evidence = Evidence::new(image, &superblock);
    let map = evidence.extents(&evidence.inode(number), ForkKind::Attr);
    let blocks = map.extents.iter().flat_map(|extent| {
        (0..u64::from(extent.length_blocks)).map(|index| FsBlock(extent.start.0 + index))
    });
    let mut places = blocks.map(|block| superblock.geometry.block_disk_addr(block).unwrap());
    let is_leaf = |at: &DiskAddr| {
        xfs_format::dabtree::magic(&image.bytes(*at, 1024).unwrap())
            == Some(xfs_format::attr::leaf::LEAF_MAGIC)
    };
    places.find(is_leaf).unwrap()
}

/// Zeros a leaf of attributes, so that only the log has it. All attributes must be delivered, and
/// the file must count as doubtful.
#[test]
fn block_that_only_the_log_has_is_delivered() {
    let mut image = golden();
    let whole = run(&image);
    let at = attribute_leaf(&image, number_of(&whole, "attr-node"));
    let bytes = image.bytes(at, 1024).unwrap();
    let mut log = LogRecords::of(&mut image);
    log.block(at, BlockKind::Attr, &bytes, 0..8);
    log.unmount();
    image.replace(at, &[0; 1024]);
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.reports["attr-node"].status, Status::Doubtful);
    assert_eq!(left.totals.doubtful, 1);
}

/// Damages a part of a leaf of attributes, and logs this part. The checksum proves the restored
/// leaf, so the file must be complete. Without the log, attributes are lost.
#[test]
fn chunk_that_only_the_log_has_completes_its_block() {
    let mut image = golden();
    let whole = run(&image);
    let at = attribute_leaf(&image, number_of(&whole, "attr-node"));
    let bytes = image.bytes(at, 1024).unwrap();
    let mut log = LogRecords::of(&mut image);
    log.block(at, BlockKind::Attr, &bytes, 5..8);
    log.unmount();
    image.edit_with(at, 1024, |block| block[5 * 128..].fill(0));
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    assert_eq!(left.reports["attr-node"].status, Status::Complete);
    let without = salvage(&image, SalvageOptions::default());
    assert_ne!(without.files["attr-node"].attributes, whole.files["attr-node"].attributes);
}

/// Zeros the AGI of a group, so that only the log has it. No file counts as doubtful, so the notes
/// of the survey must name the AGI.
#[test]
fn group_header_that_only_the_log_has_is_noted() {
    let mut image = golden();
    let whole = run(&image);
    let at = superblock(&image).geometry.header_disk_addr(AgNumber(0), 2);
    let bytes = image.bytes(at, 512).unwrap();
    let mut log = LogRecords::of(&mut image);
    log.block(at, BlockKind::Agi, &bytes, 0..4);
    log.unmount();
    image.replace(at, &[0; 512]);
    let left = run(&image);
    assert_equal_but(&whole, &left, &[]);
    let is_noted = |note: &String| note.contains(&at.to_string()) && note.contains("from the log");
    assert_eq!(left.notes.iter().filter(|note| is_noted(note)).count(), 1, "{:?}", left.notes);
}
