//! Tests of a volume that is used by a user other than root. `tests/kernel/permissions.rs` compares
//! the rules with those of the kernel.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::sync::Arc;

use ferroxfs::admin::{BulkPath, WalkFilter};
use ferroxfs::attr::{Acl, AclKind, SetMode};
use ferroxfs::attr::{AclEntry, AclTag};
use ferroxfs::{
    Access, Capabilities, CreateOptions, Credentials, Error, InodeNumber, NewKind, OpenOptions,
    PosixError, SetAttributes, Volume,
};
use xfs_trans::testing::make_with;

const ALICE: u32 = 1000;
const BOB: u32 = 1001;

fn volume() -> Volume {
    let options = OpenOptions::new().write(true);
    options.open_device(make_with("")).unwrap()
}

fn user(volume: &Volume, uid: u32) -> Volume {
    volume.as_user(Credentials::new(uid, uid))
}

/// Makes a directory that belongs to a user.
fn give(volume: &Volume, path: &str, mode: u16, uid: u32) {
    let creation = CreateOptions::new(mode).uid(uid).gid(uid);
    volume.create_node(path, &NewKind::Directory, &creation).unwrap();
}

#[track_caller]
fn refused<T>(result: ferroxfs::Result<T>) -> PosixError {
    match result.map(drop).unwrap_err() {
        Error::Posix(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn created_file_belongs_to_its_user() {
    let volume = volume();
    give(&volume, "/home", 0o755, ALICE);
    let alice = user(&volume, ALICE);
    let root = CreateOptions::new(0o600);
    let made = alice.create_node("/home/file", &NewKind::Regular, &root).unwrap();
    assert_eq!((made.metadata().uid, made.metadata().gid), (ALICE, ALICE));
    assert_eq!(refused(user(&volume, BOB).open_file("/home/file")), PosixError::AccessDenied);
    assert_eq!(refused(user(&volume, BOB).remove_file("/home/file")), PosixError::AccessDenied);
    drop(made);
    alice.remove_file("/home/file").unwrap();
}

/// Checks that a node that is handed to another user acts with the permissions of that user.
#[test]
fn node_handed_to_another_user_has_their_rights() {
    let volume = volume();
    give(&volume, "/home", 0o700, ALICE);
    volume.as_user(Credentials::new(ALICE, ALICE)).create_file("/home/file").unwrap();
    let home = volume.lookup("/home").unwrap();
    let (alice, bob) = (user(&volume, ALICE), user(&volume, BOB));
    let name = OsStr::new("file");
    assert!(home.acting_as(&alice).unwrap().lookup(name).is_ok());
    let of_bob = home.acting_as(&bob).unwrap();
    assert_eq!(refused(of_bob.lookup(name)), PosixError::AccessDenied);
    let changes = SetAttributes::new().mode(0o777);
    assert_eq!(refused(of_bob.set_attributes(&changes)), PosixError::NotPermitted);
    // A node can go back to root, but not to another volume.
    assert!(of_bob.acting_as(&volume).unwrap().lookup(name).is_ok());
    assert_eq!(refused(home.acting_as(&self::volume())), PosixError::CrossDevice);
    drop((home, of_bob, alice, bob));
    volume.close().unwrap();
}

/// Checks that a lookup through the dentry cache uses the current permissions.
#[test]
fn cached_path_follows_changed_rights() {
    let volume = volume();
    give(&volume, "/a", 0o755, ALICE);
    give(&volume, "/a/b", 0o755, ALICE);
    volume.create_file("/a/b/file").unwrap();
    let bob = user(&volume, BOB);
    let set = |mode| {
        let changes = SetAttributes::new().mode(mode);
        volume.lookup("/a").unwrap().set_attributes(&changes).unwrap();
    };
    let list = |permissions| {
        let entry = |tag, permissions| AclEntry { tag, permissions };
        let entries = vec![
            entry(AclTag::Owner, 7),
            entry(AclTag::User(BOB), permissions),
            entry(AclTag::OwningGroup, 5),
            entry(AclTag::Mask, 7),
            entry(AclTag::Other, 5),
        ];
        volume.lookup("/a").unwrap().set_acl(AclKind::Access, Acl::new(entries).ok().as_ref())
    };
    let may = || (0..3).map(|_| bob.lookup("/a/b/file").is_ok()).collect::<Vec<_>>();
    for _ in 0..3 {
        assert_eq!(may(), [true; 3]);
        set(0o700);
        assert_eq!(may(), [false; 3]);
        set(0o711);
        assert_eq!(may(), [true; 3]);
        list(0).unwrap();
        assert_eq!(may(), [false; 3]);
        list(1).unwrap();
        assert_eq!(may(), [true; 3]);
        volume.lookup("/a").unwrap().set_acl(AclKind::Access, None).unwrap();
        set(0o755);
    }
    let owner = |uid| SetAttributes::new().uid(uid);
    set(0o700);
    volume.lookup("/a").unwrap().set_attributes(&owner(BOB)).unwrap();
    assert_eq!(may(), [true; 3]);
    assert_eq!(refused(user(&volume, ALICE).lookup("/a/b/file")), PosixError::AccessDenied);
}

#[test]
fn listed_name_is_not_found_without_search_permission() {
    let volume = volume();
    give(&volume, "/listed", 0o744, ALICE);
    volume.create_file("/listed/file").unwrap();
    let bob = user(&volume, BOB);
    let entries: Vec<_> = bob.read_dir("/listed").unwrap().map(Result::unwrap).collect();
    assert_eq!(entries[0].name(), "file");
    assert_eq!(refused(entries[0].node()), PosixError::AccessDenied);
    assert_eq!(refused(bob.lookup("/listed/none")), PosixError::AccessDenied);
    assert_eq!(refused(bob.remove_file("/listed/none")), PosixError::AccessDenied);
    assert_eq!(refused(bob.lookup("/listed/.")), PosixError::AccessDenied);
    assert!(bob.walk("/listed").unwrap().any(|entry| entry.is_err()));
}

/// The inode number of a removed file goes to the next new file, in any directory. Checks that an
/// entry which was listed before the removal does not lead to the new file.
#[test]
fn listed_entry_leads_to_no_other_file() {
    let volume = volume();
    give(&volume, "/home", 0o755, ALICE);
    give(&volume, "/private", 0o700, BOB);
    let alice = user(&volume, ALICE);
    drop(alice.create_file("/home/file").unwrap());
    let entry = alice.read_dir("/home").unwrap().next().unwrap().unwrap();
    alice.remove_file("/home/file").unwrap();
    let other = volume.create_file("/home/other").unwrap();
    assert_eq!(other.node().number(), entry.number());
    volume.rename("/home/other", "/private/file").unwrap();
    assert_eq!(refused(entry.node()), PosixError::NotFound);
}

#[test]
fn both_files_of_an_exchange_must_be_open_for_writing() {
    let volume = volume();
    give(&volume, "/home", 0o755, ALICE);
    volume.write("/file", "contents").unwrap();
    for who in [&volume, &user(&volume, ALICE)] {
        let own = who.create_file("/home/own").unwrap();
        let other = who.lookup("/file").unwrap().open_read_only().unwrap();
        let exchanged = own.exchange_range(0, &other, 0, 0);
        assert_eq!(refused(exchanged), PosixError::BadDescriptor);
        drop(own);
        who.remove_file("/home/own").unwrap();
    }
    assert_eq!(volume.read("/file").unwrap(), b"contents");
}

/// Checks that all handles that come from a volume act as the user of that volume.
#[test]
fn handles_act_as_the_user_of_their_volume() {
    let volume = volume();
    give(&volume, "/home", 0o755, ALICE);
    let bob = user(&volume, BOB);
    let home = bob.root().unwrap().lookup(OsStr::new("home")).unwrap();
    let creation = CreateOptions::new(0o600).uid(ALICE).gid(ALICE);
    let clone = home.clone();
    assert_eq!(refused(clone.create("x", &NewKind::Regular, &creation)), PosixError::AccessDenied);
    let changes = SetAttributes::new().mode(0o777);
    assert_eq!(refused(home.set_attributes(&changes)), PosixError::NotPermitted);
    assert_eq!(refused(home.parent().unwrap().remove_dir("home")), PosixError::AccessDenied);
    let entry = bob.read_dir("/").unwrap().next().unwrap().unwrap();
    assert_eq!(refused(entry.node().unwrap().set_attributes(&changes)), PosixError::NotPermitted);
}

#[test]
fn open_file_stays_usable_after_a_change_of_rights() {
    let volume = volume();
    volume.write("/file", "contents").unwrap();
    let node = volume.lookup("/file").unwrap();
    let set = |mode| node.set_attributes(&SetAttributes::new().mode(mode)).unwrap();
    set(0o4666);
    let alice = user(&volume, ALICE);
    let file = alice.open_file("/file").unwrap();
    set(0o4600);
    file.write_at(b"C", 0).unwrap();
    assert_eq!(node.metadata().mode & 0o7777, 0o600);
    assert_eq!(refused(alice.open_file("/file")), PosixError::AccessDenied);
}

#[test]
fn write_only_file_is_not_readable() {
    let volume = volume();
    give(&volume, "/box", 0o777, ALICE);
    volume.write("/box/file", "contents").unwrap();
    let changes = SetAttributes::new().mode(0o222);
    volume.lookup("/box/file").unwrap().set_attributes(&changes).unwrap();
    let node = user(&volume, BOB).lookup("/box/file").unwrap();
    assert_eq!(refused(node.open()), PosixError::AccessDenied);
    assert_eq!(refused(node.open_read_only()), PosixError::AccessDenied);
    let file = node.open_write_only().unwrap();
    assert_eq!(refused(file.read_at(&mut [0; 4], 0)), PosixError::BadDescriptor);
    file.write_at(b"C", 0).unwrap();
    file.close().unwrap();
    assert_eq!(volume.read("/box/file").unwrap(), b"Contents");
}

/// Checks that permissions are also checked on a volume that is open for reading.
#[test]
fn read_only_volume_checks_rights() {
    let device = make_with("");
    let options = || OpenOptions::new().with_devices(Arc::clone(&device), None);
    let writable = OpenOptions::new().write(true).with_devices(Arc::clone(&device), None);
    let volume = writable.open().unwrap();
    give(&volume, "/home", 0o750, ALICE);
    volume.write("/home/file", "contents").unwrap();
    volume.close().unwrap();
    let volume = options().open().unwrap();
    assert_eq!(user(&volume, ALICE).read("/home/file").unwrap(), b"contents");
    let bob = user(&volume, BOB);
    assert_eq!(refused(bob.open_file("/home/file")), PosixError::AccessDenied);
    assert_eq!(refused(bob.read_dir("/home")), PosixError::AccessDenied);
    assert_eq!(refused(user(&volume, ALICE).access("/home", Access::WRITE)), PosixError::ReadOnly);
}

#[test]
fn volume_operations_require_capabilities() {
    let volume = volume();
    let root = volume.root().unwrap().number();
    let bare = user(&volume, 0);
    let with = |more| volume.as_user(Credentials::new(ALICE, ALICE).capabilities(more));
    let administrator = with(Capabilities::SYS_ADMIN);
    let bulkstat = |volume: &Volume| {
        let next = |_: InodeNumber, _| ControlFlow::Break(());
        volume.bulkstat(InodeNumber(0), BulkPath::PastCache, next).map(drop)
    };
    assert_eq!(refused(bulkstat(&bare)), PosixError::NotPermitted);
    bulkstat(&administrator).unwrap();
    assert_eq!(refused(bare.drop_caches()), PosixError::NotPermitted);
    let walked = bare.iter_inodes(WalkFilter::Cached, |_| ControlFlow::Continue(()));
    assert_eq!(refused(walked), PosixError::NotPermitted);
    assert_eq!(refused(bare.node(root)), PosixError::NotPermitted);
    assert_eq!(refused(administrator.node(root)), PosixError::NotPermitted);
    with(Capabilities::DAC_READ_SEARCH).node(root).unwrap();
    let set = |volume: &Volume| {
        let node = volume.root().unwrap();
        node.set_attribute("trusted.a", b"", SetMode::Either)
    };
    assert_eq!(refused(set(&bare)), PosixError::NotPermitted);
    set(&administrator).unwrap();
    let trusted = |volume: &Volume| {
        let names =
            volume.root().unwrap().attributes().into_iter().map(|found| found.unwrap().name);
        names.filter(|name| name.as_encoded_bytes().starts_with(b"trusted.")).count()
    };
    assert_eq!((trusted(&bare), trusted(&administrator)), (0, trusted(&volume)));
}

/// Checks that root has every access, except that executing a file needs an execute bit.
#[test]
fn root_has_access_except_execute() {
    let volume = volume();
    volume.create_file("/file").unwrap();
    volume.access("/file", Access::READ | Access::WRITE).unwrap();
    assert_eq!(refused(volume.access("/file", Access::EXECUTE)), PosixError::AccessDenied);
    assert!(volume.as_user(Credentials::root()).access("/file", Access::all()).is_err());
    volume.access("/", Access::all()).unwrap();
}

#[test]
fn volume_stays_open_while_a_user_holds_it() {
    let volume = volume();
    let alice = user(&volume, ALICE);
    assert_eq!(refused(volume.close()), PosixError::Busy);
    alice.root().unwrap();
    alice.close().unwrap();
}
