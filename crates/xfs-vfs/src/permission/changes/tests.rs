//! Checks the rules of chown(2) and chmod(2), each for every kind of caller.

use xfs_buffer::{Error, PosixError};
use xfs_format::inode::InodeCore;
use xfs_format::{DiskAddr, InodeNumber, StructureAddress, Superblock};

use super::*;

const OWNER: u32 = 1000;
const GROUP: u32 = 100;
const OTHER: u32 = 2000;

/// Returns an inode that belongs to [`OWNER`] and [`GROUP`].
fn inode(mode: u16) -> InodeCore {
    let sector = include_bytes!("../../../../../testdata/inodes/new.superblock");
    let superblock = Superblock::decode(sector, StructureAddress::Disk(DiskAddr(0))).unwrap();
    let bytes = include_bytes!("../../../../../testdata/inodes/empty.inode");
    let core = InodeCore::decode(bytes, InodeNumber(0), &superblock.geometry).unwrap();
    InodeCore { mode, uid: OWNER, gid: GROUP, ..core }
}

const FILE: u16 = 0o100_000;
const DIRECTORY: u16 = 0o040_000;

fn owner(uid: Option<u32>, gid: Option<u32>) -> SetAttributes {
    SetAttributes { uid, gid, ..SetAttributes::default() }
}

/// Checks that `check_change` succeeds for the caller `me` if `is_allowed`, and fails with EPERM
/// otherwise.
fn check(me: &Credentials, mode: u16, changes: &SetAttributes, is_allowed: bool) {
    let outcome = Caller::new(Some(me)).check_change(&inode(mode), changes);
    match outcome {
        Ok(_) => assert!(is_allowed, "{me:?} {mode:o} {changes:?}"),
        Err(Error::Posix(PosixError::NotPermitted)) => {
            assert!(!is_allowed, "{me:?} {mode:o} {changes:?}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn owner_gives_a_file_only_to_its_own_groups() {
    let me = Credentials::new(OWNER, 1).groups([7, 9]);
    for mode in [FILE | 0o644, DIRECTORY | 0o755] {
        check(&me, mode, &owner(Some(OWNER), None), true);
        check(&me, mode, &owner(None, Some(GROUP)), true);
        for gid in [1, 7, 9] {
            check(&me, mode, &owner(None, Some(gid)), true);
            check(&me, mode, &owner(Some(OWNER), Some(gid)), true);
            check(&me, mode, &owner(Some(OTHER), Some(gid)), false);
        }
        check(&me, mode, &owner(None, Some(8)), false);
        check(&me, mode, &owner(Some(OTHER), None), false);
        check(&me, mode, &owner(Some(0), None), false);
    }
}

#[test]
fn other_user_gives_no_file_away() {
    let other = Credentials::new(OTHER, GROUP).groups([7]);
    for mode in [FILE | 0o666, DIRECTORY | 0o777] {
        for uid in [OWNER, OTHER, 0] {
            check(&other, mode, &owner(Some(uid), None), false);
        }
        for gid in [GROUP, 7, 8] {
            check(&other, mode, &owner(None, Some(gid)), false);
        }
        let capable = other.clone().capabilities(Capabilities::CHOWN);
        check(&capable, mode, &owner(Some(OTHER), Some(8)), true);
    }
}

#[test]
fn mode_is_changed_only_as_its_owner() {
    let changes = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    check(&Credentials::new(OWNER, 1), FILE | 0o644, &changes, true);
    check(&Credentials::new(OTHER, GROUP), FILE | 0o666, &changes, false);
    let capable = Credentials::new(OTHER, GROUP).capabilities(Capabilities::FOWNER);
    check(&capable, FILE | 0o666, &changes, true);
}

/// Checks which callers may give a set-ID file to another owner or group. The file then loses its
/// set-ID bits. That is a change of mode, so the caller must also be the owner or have
/// `CAP_FOWNER`. A directory keeps its set-ID bits.
#[test]
fn new_owner_of_a_set_id_file_takes_the_power_of_the_old_one() {
    let chown = Credentials::new(OTHER, OTHER).capabilities(Capabilities::CHOWN);
    let both = chown.clone().capabilities(Capabilities::CHOWN | Capabilities::FOWNER);
    for changes in [owner(Some(OTHER), None), owner(None, Some(OTHER))] {
        for mode in [FILE | 0o4755, FILE | 0o2755, FILE | 0o6755] {
            check(&chown, mode, &changes, false);
            check(&both, mode, &changes, true);
        }
        for mode in [FILE | 0o755, DIRECTORY | 0o755, DIRECTORY | 0o6755] {
            check(&chown, mode, &changes, true);
        }
    }
    // A change of something else takes no bits off.
    let time = Some(xfs_format::timestamp::Timestamp::default());
    let touched = SetAttributes { modified: time, ..SetAttributes::default() };
    check(&Credentials::new(OWNER, 1), FILE | 0o6755, &touched, true);
    let nothing = SetAttributes::default();
    check(&Credentials::new(OTHER, OTHER), FILE | 0o6755, &nothing, true);
    check(&Credentials::new(OTHER, OTHER), FILE | 0o755, &nothing, true);
}

/// Checks that `check_change` withholds the set-group-ID bit of a file from a caller outside of the
/// file's group, for chmod and chown, unless the caller has `CAP_FSETID`. A chown of a directory
/// leaves its mode unchanged.
#[test]
fn set_group_id_is_withheld_outside_of_the_group() {
    let withheld = |me: &Credentials, mode: u16, changes: &SetAttributes| {
        Caller::new(Some(me)).check_change(&inode(mode), changes).unwrap()
    };
    let set = SetAttributes { mode: Some(0o2755), ..SetAttributes::default() };
    assert_eq!(withheld(&Credentials::new(OWNER, 1), FILE | 0o755, &set), SET_GROUP_ID);
    assert_eq!(withheld(&Credentials::new(OWNER, GROUP), FILE | 0o755, &set), 0);
    let fsetid = Credentials::new(OWNER, 1).capabilities(Capabilities::FSETID);
    assert_eq!(withheld(&fsetid, FILE | 0o755, &set), 0);
    let chown = Credentials::new(OWNER, 1).capabilities(Capabilities::CHOWN);
    let moved = owner(None, Some(OTHER));
    assert_eq!(withheld(&chown, DIRECTORY | 0o2755, &moved), 0);
    assert_eq!(withheld(&chown, FILE | 0o2755, &moved), SET_GROUP_ID);
    assert_eq!(withheld(&chown, FILE | 0o755, &moved), 0);
}
