//! Tests that access control lists and permission bits change together, also if the power is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::attr::{Acl, AclKind};
use ferroxfs::attr::{AclEntry, AclTag};
use ferroxfs::device::SharedDevice;
use ferroxfs::{
    CreateOptions, Error, NewKind, Node, OpenOptions, PosixError, SetAttributes, Volume,
};
use xfs_testkit::{Atomicity, PowerCuts, RecordingDevice};
use xfs_trans::testing::{make_with, superblock};

const FILES: usize = 12;

const PLAIN: CreateOptions = CreateOptions::new(0o777);

/// The numbers of users that the tested access control lists name. A list of 25 users fits into an
/// attribute leaf. A list of 300 users needs blocks of its own.
const LENGTHS: [u32; 2] = [25, 300];

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().write(true);
    options.open_device(Arc::clone(device)).unwrap()
}

/// Returns an access control list that names `users` users and has this mask.
fn list(users: u32, mask: u16) -> Acl {
    let entry = |tag, permissions| AclEntry { tag, permissions };
    let users = (0..users).map(|user| entry(AclTag::User(1000 + user), 4));
    let owner = entry(AclTag::Owner, 6);
    let rest = [(AclTag::OwningGroup, 4), (AclTag::Mask, mask), (AclTag::Other, 0)];
    let rest = rest.map(|(tag, permissions)| entry(tag, permissions));
    Acl::new(std::iter::once(owner).chain(users).chain(rest).collect()).unwrap()
}

/// Returns the permission bits and the access list of a file.
fn rights(node: &Node) -> (u16, Option<Acl>) {
    (node.metadata().mode & 0o777, node.acl(AclKind::Access).unwrap())
}

/// Makes files, and calls `prepare` on each of them. Then calls `change` on each file while another
/// thread forces the log. Cuts the power at many points. Checks that each file then has permission
/// bits and access list both from before the change, or both from after it.
fn check(prepare: impl Fn(&Node), change: impl Fn(&Node)) {
    let device = make_with("-b size=1k -l size=16m");
    let volume = open(&device);
    let path = |file: usize| format!("/{file}");
    for file in 0..FILES {
        volume.write(path(file), b"").unwrap();
        prepare(&volume.lookup(path(file)).unwrap());
    }
    let before = rights(&volume.lookup(path(0)).unwrap());
    volume.close().unwrap();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                volume.sync().unwrap();
            }
        });
        (0..FILES).for_each(|file| change(&volume.lookup(path(file)).unwrap()));
        done.store(true, Ordering::SeqCst);
    });
    let after = rights(&volume.lookup(path(0)).unwrap());
    assert_ne!((before.0, &before.1), (after.0, &after.1), "nothing changed");
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    let mut seen = [0, 0];
    let points = recording.requests().len();
    let step = if std::env::var_os("FERROXFS_LONG").is_some() { 1 } else { points / 50 + 1 };
    for point in (0..=points).step_by(step) {
        for cut in cuts.at(point, 1).take(4) {
            let cut_off: SharedDevice = Arc::new(cuts.after(cut));
            let volume = open(&cut_off);
            for file in 0..FILES {
                let has = rights(&volume.lookup(path(file)).unwrap());
                assert!(
                    has == before || has == after,
                    "cut {cut}: file {file} is half changed: {:o}",
                    has.0
                );
                seen[usize::from(has == after)] += 1;
            }
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn list_and_bits_change_together() {
    for users in LENGTHS {
        check(|_| {}, |node| node.set_acl(AclKind::Access, Some(&list(users, 7))).unwrap());
    }
}

#[test]
fn chmod_changes_list_and_bits_together() {
    for users in LENGTHS {
        check(
            |node| node.set_acl(AclKind::Access, Some(&list(users, 7))).unwrap(),
            |node| node.set_attributes(&SetAttributes::new().mode(0o640)).unwrap(),
        );
    }
}

#[test]
fn minimal_list_and_bits_change_together() {
    let minimal = Acl::from_mode(0o600);
    for users in LENGTHS {
        check(
            |node| node.set_acl(AclKind::Access, Some(&list(users, 7))).unwrap(),
            |node| node.set_acl(AclKind::Access, Some(&minimal)).unwrap(),
        );
    }
}

/// Creates files of all kinds in a directory with a default ACL while another thread forces the
/// log. Cuts the power at many points. After recovery, each file has the permission bits of its
/// ACLs, and has each ACL complete or not at all. Returns three counts: files that are absent, that
/// lack an ACL, and that are complete.
fn check_heirs(users: u32) -> [usize; 3] {
    const KINDS: [NewKind<'static>; 3] = [NewKind::Regular, NewKind::Directory, NewKind::Fifo];
    let device = make_with("-b size=1k -l size=16m");
    let inherited = list(users, 7);
    let volume = open(&device);
    let top = volume.root().unwrap();
    top.set_acl(AclKind::Default, Some(&inherited)).unwrap();
    drop(top);
    volume.close().unwrap();
    let recording = Arc::new(RecordingDevice::new(Arc::clone(&device)));
    let volume = open(&(Arc::clone(&recording) as SharedDevice));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                volume.sync().unwrap();
            }
        });
        let top = volume.root().unwrap();
        for file in 0..FILES {
            top.create(file.to_string(), &KINDS[file % 3], &PLAIN).unwrap();
        }
        done.store(true, Ordering::SeqCst);
    });
    let after = rights(&volume.lookup("/0").unwrap());
    assert_eq!(after.1.as_ref().map(|list| list.entries().len()), Some(users as usize + 4));
    volume.close().unwrap();
    let recording = recording.recording();
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    let mut seen = [0; 3];
    let points = recording.requests().len();
    let step = if std::env::var_os("FERROXFS_LONG").is_some() { 1 } else { points / 40 + 1 };
    for point in (0..=points).step_by(step) {
        for cut in cuts.at(point, 2).take(4) {
            let cut_off: SharedDevice = Arc::new(cuts.after(cut));
            let volume = open(&cut_off);
            for file in 0..FILES {
                let Ok(node) = volume.lookup(format!("/{file}")) else {
                    seen[0] += 1;
                    continue;
                };
                let (mode, access) = rights(&node);
                let default = node.acl(AclKind::Default).unwrap();
                let wants_default = KINDS[file % 3] == NewKind::Directory;
                let is_whole = access == after.1 && default.is_some() == wants_default;
                assert!(mode == after.0, "cut {cut}: file {file} has the bits {mode:o}");
                assert!(access.is_none() || access == after.1, "cut {cut}: file {file}");
                assert!(default.is_none_or(|list| list == inherited), "cut {cut}: file {file}");
                seen[if is_whole { 2 } else { 1 }] += 1;
            }
            volume.close().unwrap();
        }
    }
    assert!(seen[0] > 0 && seen[2] > 0, "{seen:?}");
    seen
}

/// Checks that a list that fits into the inode is created in the same transaction as the file.
#[test]
fn short_inherited_list_is_created_with_its_file() {
    assert_eq!(check_heirs(3)[1], 0);
}

/// Checks that a list that is too long for the inode is set in a later transaction than the one
/// that creates the file. A power cut between them leaves the file without the list, and never with
/// a part of it. Another thread forces the log at random times, so the test repeats the run until
/// one has such a cut.
#[test]
fn long_inherited_list_is_created_after_its_file() {
    const HISTORIES: usize = 20;
    assert!((0..HISTORIES).any(|_| check_heirs(5000)[1] > 0));
}

/// Checks that a list that is too long for the disk is refused for lack of permission if the caller
/// may not set it: as in the kernel, permission is checked before the length.
#[test]
fn list_without_permission_is_refused_before_its_length() {
    let volume = open(&make_with("-l size=16m"));
    let node = volume.root().unwrap().create("top", &NewKind::Directory, &PLAIN).unwrap();
    let set = || match node.set_acl(AclKind::Default, Some(&list(6000, 7))).unwrap_err() {
        Error::Posix(error) => error,
        other => panic!("{other}"),
    };
    assert_eq!(set(), PosixError::ValueTooLong);
    let fixed = Some(ExtendedFlags::IMMUTABLE);
    let mut changes = SetAttributes::new();
    changes.xflags = fixed;
    node.set_attributes(&changes).unwrap();
    assert_eq!(set(), PosixError::NotPermitted);
}
