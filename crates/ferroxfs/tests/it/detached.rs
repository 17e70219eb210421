//! Tests of files that lose their name while a handle is open.

use ferroxfs::{CreateOptions, Error, NewKind, Node, OpenOptions, PosixError, Volume};
use xfs_trans::testing::{is_clean, make, make_with};

const PLAIN: CreateOptions = CreateOptions::new(0o700);

fn open() -> Volume {
    let options = OpenOptions::new().write(true);
    options.open_device(make_with("")).unwrap()
}

fn make_file(root: &Node, name: &str) -> Node {
    root.create(name, &NewKind::Regular, &PLAIN).unwrap()
}

fn freed(volume: &Volume) -> u64 {
    volume.statistics().unwrap().inodes.removed
}

#[test]
fn detached_file_stays_until_its_last_handle() {
    let volume = open();
    let root = volume.root().unwrap();
    drop(make_file(&root, "file"));
    let before = freed(&volume);
    let detached = root.detach_file("file").unwrap();
    assert_eq!(detached.metadata().nlink, 0);
    assert!(volume.lookup("/file").is_err());
    let other = detached.clone();
    detached.finish();
    assert_eq!(freed(&volume), before);
    assert_eq!(other.metadata().nlink, 0);
    other.finish();
    assert_eq!(freed(&volume), before + 1);
    drop(root);
    volume.close().unwrap();
}

#[test]
fn detached_file_with_another_name_stays() {
    let volume = open();
    let root = volume.root().unwrap();
    let file = make_file(&root, "file");
    root.link(&file, "other").unwrap();
    let before = freed(&volume);
    root.detach_file("file").unwrap().finish();
    file.finish();
    assert_eq!(freed(&volume), before);
    assert_eq!(volume.metadata("/other").unwrap().nlink, 1);
    drop(root);
    volume.close().unwrap();
}

/// Checks that a file that has lost its last name gets no other name, as link(2) requires. Only a
/// file that was made without a name gets a first name, and only once.
#[test]
fn removed_file_is_not_linked_again() {
    let volume = open();
    let root = volume.root().unwrap();
    let is_missing = |linked: ferroxfs::Result<()>| {
        assert!(matches!(linked, Err(Error::Posix(PosixError::NotFound))), "{linked:?}");
    };
    make_file(&root, "file").finish();
    let removed = root.detach_file("file").unwrap();
    is_missing(root.link(&removed, "again"));
    removed.finish();
    let unnamed = root.create_unnamed(&PLAIN).unwrap();
    root.link(&unnamed, "first").unwrap();
    unnamed.finish();
    let removed = root.detach_file("first").unwrap();
    is_missing(root.link(&removed, "second"));
    removed.finish();
    drop(root);
    volume.close().unwrap();
}

#[test]
fn only_empty_directories_are_detached() {
    let volume = open();
    let root = volume.root().unwrap();
    let directory = root.create("directory", &NewKind::Directory, &PLAIN).unwrap();
    make_file(&directory, "file").finish();
    let refused = |result: ferroxfs::Result<Node>, case| {
        assert!(matches!(result, Err(Error::Posix(met)) if met == case), "{case:?}");
    };
    refused(root.detach_dir("directory"), PosixError::NotEmpty);
    refused(root.detach_file("directory"), PosixError::IsDirectory);
    refused(root.detach_file("missing"), PosixError::NotFound);
    directory.detach_file("file").unwrap().finish();
    let before = freed(&volume);
    root.detach_dir("directory").unwrap().finish();
    // A handle is still open.
    assert_eq!(freed(&volume), before);
    directory.finish();
    assert_eq!(freed(&volume), before + 1);
    drop(root);
    volume.close().unwrap();
}

#[test]
fn file_released_on_a_frozen_volume_is_freed_after_the_thaw() {
    let device = make();
    let options = OpenOptions::new().write(true);
    let volume = options.open_device(device.clone()).unwrap();
    let root = volume.root().unwrap();
    make_file(&root, "file").finish();
    let detached = root.detach_file("file").unwrap();
    let before = freed(&volume);
    volume.freeze().unwrap();
    detached.finish();
    assert_eq!(freed(&volume), before);
    volume.thaw().unwrap();
    drop(root);
    volume.close().unwrap();
    assert!(is_clean(&device));
}
