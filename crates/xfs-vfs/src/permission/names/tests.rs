//! Checks the owner and the mode of new files, for callers in and outside of the group of the
//! directory.

use xfs_format::{DiskAddr, InodeNumber, StructureAddress, Superblock};

use super::*;

const GROUP: u32 = 100;

/// Returns a directory that belongs to another user and to [`GROUP`].
fn directory(mode: u16) -> InodeCore {
    let sector = include_bytes!("../../../../../testdata/inodes/new.superblock");
    let superblock = Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let bytes = include_bytes!("../../../../../testdata/inodes/directory.inode");
    let core = InodeCore::decode(bytes, InodeNumber(0), &superblock.geometry).unwrap();
    InodeCore { mode: 0o040_000 | mode, uid: 1, gid: GROUP, ..core }
}

/// Returns the mode that a new file gets. The caller `me` requests `mode`, in a directory with the
/// mode `directory_mode`.
fn made(me: Option<&Credentials>, file_type: FileType, mode: u16, directory_mode: u16) -> u16 {
    let wanted = CreateOptions { mode, uid: 5, gid: 6, umask: 0 };
    let made = Caller::new(me).creation(file_type, &wanted, || directory(directory_mode));
    let owner = me.map_or((5, 6), |me| (me.uid(), me.gid()));
    assert_eq!((made.uid, made.gid), owner, "a caller owns what it makes");
    made.mode
}

#[test]
fn new_program_gets_the_set_group_id_bit_only_from_inside_the_group() {
    let outside = Credentials::new(1000, 1000);
    let inside = Credentials::new(1000, 1000).groups([GROUP]);
    let capable = Credentials::new(1000, 1000).capabilities(Capabilities::FSETID);
    let file = |me, mode| made(Some(me), FileType::Regular, mode, 0o2777);
    assert_eq!(file(&outside, 0o2755), 0o755);
    assert_eq!(file(&outside, 0o6775), 0o4775);
    assert_eq!(file(&inside, 0o2755), 0o2755);
    assert_eq!(file(&capable, 0o2755), 0o2755);
    // Without group execute permission the bit means mandatory locks.
    assert_eq!(file(&outside, 0o2745), 0o2745);
    assert_eq!(file(&outside, 0o755), 0o755);
    // The file gets the group of the caller where the directory passes none on.
    assert_eq!(made(Some(&outside), FileType::Regular, 0o2755, 0o777), 0o2755);
    assert_eq!(made(None, FileType::Regular, 0o2755, 0o2777), 0o2755);
}

#[test]
fn new_directory_gets_no_set_id_bit_from_its_caller() {
    let me = Credentials::new(1000, 1000).groups([GROUP]);
    assert_eq!(made(Some(&me), FileType::Directory, 0o7777, 0o2777), 0o1777);
    assert_eq!(made(None, FileType::Directory, 0o7777, 0o2777), 0o7777);
}
