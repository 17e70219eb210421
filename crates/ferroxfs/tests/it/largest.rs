//! Tests of each operation with the largest values, names and access control lists, on the smallest
//! log that mkfs makes. A transaction that is too large for the log would be refused. The tests
//! check that none is refused.

use std::sync::Arc;

use ferroxfs::attr::{Acl, AclKind, SetMode};
use ferroxfs::attr::{AclEntry, AclTag};
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::SharedDevice;
use ferroxfs::raw::format::reservation::minimum_log_blocks;
use ferroxfs::{
    CreateOptions, NewKind, Node, OpenOptions, PosixError, RenameMode, SetAttributes, Volume,
};
use xfs_trans::testing::{make_sized, superblock};

const VOLUME_BYTES: u64 = 640 << 20;
const PLAIN: CreateOptions = CreateOptions::new(0o777);
/// Number of entries of the longest access control list.
const LIST_ENTRIES: u32 = 5461;
/// The longest value of an attribute, in bytes.
const VALUE_BYTES: usize = 64 << 10;
/// Number of isolated free blocks that `scatter` leaves in addition to those of
/// [`SCATTERED_BYTES`]. A free block is isolated if neither of its neighbours is free.
const SCATTERED_BLOCKS: u64 = 700;
const SCATTERED_BYTES: u64 = 2 << 20;

/// Returns a name of 255 bytes that begins with `first`.
fn long(first: char) -> String {
    first.to_string().repeat(255)
}

/// Returns the longest access control list. If this is the default list of a directory, a new file
/// in the directory gets one such list, and a new directory gets two.
fn longest_list() -> Acl {
    let entry = |tag| AclEntry { tag, permissions: 7 };
    let users = (0..LIST_ENTRIES - 4).map(|user| entry(AclTag::User(1000 + user)));
    let rest = [AclTag::OwningGroup, AclTag::Mask, AclTag::Other].map(entry);
    Acl::new([entry(AclTag::Owner)].into_iter().chain(users).chain(rest).collect()).unwrap()
}

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true).with_devices(Arc::clone(device), None);
    options.open().unwrap()
}

/// Fills the volume so that only isolated blocks stay free. An attribute value then takes one
/// extent for each of its blocks. Inode chunks need more than one block, so free inodes are made
/// first.
fn scatter(volume: &Volume) {
    let block = u64::from(volume.geometry().block_size);
    let spare = |number: u32| format!("/{}/{number}", number % 4);
    (0..4).for_each(|number| volume.create_dir(format!("/{number}")).unwrap());
    (0..160).for_each(|number| drop(volume.create_file(spare(number)).unwrap()));
    (0..80).for_each(|number| volume.remove_file(spare(number)).unwrap());
    let filler = volume.create_file("/filler").unwrap();
    let blocks = volume.space().unwrap().available_blocks;
    let mut at = 0;
    for piece in [blocks / 4, 1024, 64, 1] {
        loop {
            let range = at..at + piece * block;
            match filler.change_range(range, RangeMode::Allocate(AllocateMode::Extend)) {
                Ok(()) => at += piece * block,
                Err(ferroxfs::Error::Posix(PosixError::NoSpace)) => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    for number in 0..SCATTERED_BLOCKS + SCATTERED_BYTES / block {
        let start = 2 * number * block;
        filler.change_range(start..start + block, RangeMode::Punch).unwrap();
    }
    volume.sync().unwrap();
}

/// Makes files of all kinds in a directory with the longest default list. Checks that all of them
/// except symbolic links inherit the list.
fn check_heirs(top: &Node, list: &Acl) {
    top.set_acl(AclKind::Default, Some(list)).unwrap();
    let made = top.create(long('d'), &NewKind::Directory, &PLAIN).unwrap();
    // The messages do not show the lists, which are long.
    assert!(made.acl(AclKind::Default).unwrap().as_ref() == Some(list), "its default list");
    assert!(made.acl(AclKind::Access).unwrap().as_ref() == Some(list), "its access list");
    let target = [b't'; 1023];
    for (name, kind) in
        [('f', NewKind::Regular), ('p', NewKind::Fifo), ('s', NewKind::Symlink(&target))]
    {
        let made = top.create(long(name), &kind, &PLAIN).unwrap();
        let has_list = made.acl(AclKind::Access).unwrap().is_some();
        assert_eq!(has_list, !matches!(kind, NewKind::Symlink(_)), "{kind:?}");
    }
    let unnamed = top.create_unnamed(&PLAIN).unwrap();
    top.link(&unnamed, long('u')).unwrap();
    unnamed.set_attributes(&SetAttributes::new().mode(0o640).uid(5)).unwrap();
    unnamed.set_acl(AclKind::Access, None).unwrap();
    unnamed.set_acl(AclKind::Access, Some(list)).unwrap();
}

/// Sets enough attributes for a btree of attributes. Then sets, replaces and removes the largest
/// attribute. None of these operations may be refused.
fn check_attributes(file: &Node) {
    for number in 0..100 {
        let name = format!("user.{number}{}", "n".repeat(240));
        file.set_attribute(&name, &[number; 600], SetMode::Create).unwrap();
    }
    let name = format!("user.{}", "v".repeat(250));
    for (byte, mode) in [(1, SetMode::Create), (2, SetMode::Replace)] {
        file.set_attribute(&name, &[byte; VALUE_BYTES], mode).unwrap();
        assert!(file.attribute(name.as_ref()).unwrap() == [byte; VALUE_BYTES], "{byte}");
    }
    file.remove_attribute(&name).unwrap();
    file.set_attribute(&name, &[3; VALUE_BYTES], SetMode::Create).unwrap();
}

/// Creates, renames, exchanges and removes names of the greatest length. None of these operations
/// may be refused.
fn check_names(volume: &Volume, top: &Node) {
    let other = top.create(long('o'), &NewKind::Directory, &PLAIN).unwrap();
    let file = top.lookup(long('f').as_ref()).unwrap();
    for first in 'A'..='Z' {
        other.link(&file, long(first)).unwrap();
    }
    top.rename(long('f'), &other, long('A'), RenameMode::Replace).unwrap();
    other.rename(long('A'), top, long('f'), RenameMode::Whiteout).unwrap();
    top.rename(long('p'), &other, long('B'), RenameMode::Exchange).unwrap();
    top.rename(long('d'), &other, long('d'), RenameMode::NoReplace).unwrap();
    let replaced = top.create(long('r'), &NewKind::Regular, &PLAIN).unwrap();
    check_attributes(&replaced);
    top.rename(long('f'), top, long('r'), RenameMode::Replace).unwrap();
    drop(replaced);
    other.remove_dir(long('d')).unwrap();
    top.remove_file(long('u')).unwrap();
    drop((file, other));
    volume.remove_dir_all(format!("/top/{}", long('o'))).unwrap();
}

/// Writes, moves and frees blocks of files. Also shares and exchanges blocks, if the volume was
/// made with these features. None of these operations may be refused.
fn check_contents(volume: &Volume, features: &str) {
    let block = u64::from(volume.geometry().block_size);
    let (one, two) = (volume.create_file("/one").unwrap(), volume.create_file("/two").unwrap());
    for number in 0..60 {
        one.write_at(&[1; 100], number * 2 * block).unwrap();
    }
    one.change_range(0..4 * block, RangeMode::Zero(AllocateMode::Extend)).unwrap();
    one.change_range(0..2 * block, RangeMode::Insert).unwrap();
    one.change_range(0..2 * block, RangeMode::Collapse).unwrap();
    if !features.contains("reflink=0") {
        two.clone_range(0, &one, 0, 0).unwrap();
        two.write_at(&[2; 5000], block).unwrap();
        two.change_range(0..20 * block, RangeMode::Unshare(AllocateMode::KeepSize)).unwrap();
    }
    if features.contains("exchange=1") {
        two.exchange_range(0, &one, 0, 0).unwrap();
    }
    one.set_len(3).unwrap();
    drop((one, two));
    volume.remove_file("/one").unwrap();
    volume.remove_file("/two").unwrap();
}

fn check(features: &str) {
    let plain = superblock(&make_sized(VOLUME_BYTES, features));
    let blocks = minimum_log_blocks(&plain.geometry, plain.log_stripe_unit_bytes);
    let device = make_sized(VOLUME_BYTES, &format!("{features} -l size={blocks}b"));
    let volume = open(&device);
    scatter(&volume);
    let list = longest_list();
    volume.create_dir("/top").unwrap();
    let top = volume.lookup("/top").unwrap();
    check_heirs(&top, &list);
    check_names(&volume, &top);
    check_attributes(&top);
    check_contents(&volume, features);
    drop(top);
    volume.close().unwrap();
    let volume = open(&device);
    let top = volume.lookup("/top").unwrap();
    assert!(top.acl(AclKind::Default).unwrap() == Some(list), "the default list");
    drop(top);
    volume.remove_dir_all("/top").unwrap();
    volume.remove_file("/filler").unwrap();
    volume.close().unwrap();
}

/// Runs the test with this block size on three volumes: without parent pointers, with them, and
/// without the btrees of reverse mappings, reference counts and free inodes. With these btrees
/// transactions are larger, and so is the smallest log.
fn check_block_size(size: &str) {
    for features in ["-n parent=0", "-n parent=1 -i exchange=1", "-m rmapbt=0,reflink=0,finobt=0"] {
        check(&format!("-b size={size} {features}"));
    }
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_1k() {
    check_block_size("1k");
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_2k() {
    check_block_size("2k");
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_4k() {
    check_block_size("4k");
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_8k() {
    check_block_size("8k");
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_16k() {
    check_block_size("16k");
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_32k() {
    check_block_size("32k");
}

#[test]
fn largest_operations_fit_the_smallest_log_with_blocks_of_64k() {
    check_block_size("64k");
}
