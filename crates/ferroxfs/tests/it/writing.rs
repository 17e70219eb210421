//! Tests of volumes that are made, changed, closed and read again.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferroxfs::DeviceNumber;
use ferroxfs::attr::ExtendedFlags;
use ferroxfs::attr::SetMode;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::device::SharedDevice;
use ferroxfs::raw::format::inode::InodeFlags;
use ferroxfs::{
    CreateOptions, Error, FileType, InodeNumber, NewKind, Node, OpenOptions, PosixError,
    RenameMode, SetAttributes, Timestamp, Volume,
};
use xfs_trans::testing::make_with;

use crate::forge;

pub(crate) const PLAIN: CreateOptions = CreateOptions::new(0o640).uid(7).gid(8);

fn open(device: &SharedDevice) -> Volume {
    let options = OpenOptions::new().fixed_time(Timestamp::new(1_700_000_000, 5).unwrap());
    options.write(true).open_device(Arc::clone(device)).unwrap()
}

fn reopen(device: &SharedDevice) -> Volume {
    OpenOptions::new().open_device(Arc::clone(device)).unwrap()
}

/// Makes a volume with these options of mkfs, and changes it by `change`. Calls `look`, which
/// checks the result, before the volume is closed, and again after the volume was opened for
/// reading.
pub(crate) fn check(options: &str, change: impl Fn(&Volume), look: impl Fn(&Volume)) {
    let device = make_with(options);
    let volume = open(&device);
    change(&volume);
    look(&volume);
    volume.close().unwrap();
    look(&reopen(&device));
}

fn names(directory: &Node) -> Vec<String> {
    let mut names: Vec<_> = directory
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().name().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

pub(crate) fn posix<T: std::fmt::Debug>(result: ferroxfs::Result<T>) -> PosixError {
    match result.unwrap_err() {
        Error::Posix(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn files_of_every_kind_are_created() {
    let kinds = [
        ("file", NewKind::Regular, FileType::Regular),
        ("directory", NewKind::Directory, FileType::Directory),
        ("fifo", NewKind::Fifo, FileType::Fifo),
        ("socket", NewKind::Socket, FileType::Socket),
        ("link", NewKind::Symlink(b"../somewhere"), FileType::Symlink),
    ];
    let change = |volume: &Volume| {
        let root = volume.root().unwrap();
        for (name, kind, _) in &kinds {
            root.create(name, kind, &PLAIN).unwrap();
            assert_eq!(posix(root.create(name, kind, &PLAIN)), PosixError::Exists);
        }
    };
    let look = |volume: &Volume| {
        for (name, _, file_type) in &kinds {
            let metadata = volume.root().unwrap().lookup(name.as_ref()).unwrap().metadata();
            assert_eq!(metadata.file_type, *file_type);
            assert_eq!((metadata.mode & 0o7777, metadata.uid, metadata.gid), (0o640, 7, 8));
            assert_eq!(metadata.created.seconds(), 1_700_000_000);
        }
        let root = volume.root().unwrap();
        assert_eq!(root.metadata().nlink, 3);
        assert_eq!(volume.read_link("/link").unwrap(), "../somewhere");
        assert_eq!(names(&root), ["directory", "fifo", "file", "link", "socket"]);
    };
    check("", change, look);
}

#[test]
fn written_contents_are_read_back() {
    let text: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_be_bytes).collect();
    let change = |volume: &Volume| {
        volume.write("/text", &text).unwrap();
        let mut file = volume.open_file("/text").unwrap();
        file.seek(SeekFrom::Start(4_000_000)).unwrap();
        file.write_all(b"in between").unwrap();
        file.write_at(b"behind a hole", 20_000_000).unwrap();
        file.sync_all().unwrap();
    };
    let look = |volume: &Volume| {
        let mut expected = text.clone();
        expected[4_000_000..4_000_010].copy_from_slice(b"in between");
        expected.resize(20_000_000, 0);
        expected.extend_from_slice(b"behind a hole");
        let mut found = Vec::new();
        volume.open_file("/text").unwrap().read_to_end(&mut found).unwrap();
        assert!(found == expected, "other contents");
    };
    check("", change, look);
}

#[test]
fn many_names_are_created_and_removed() {
    for options in ["", "-n parent=1", "-b size=1k -m rmapbt=0,reflink=0"] {
        let name = |number: u32| format!("a name that takes its room {number}");
        let change = |volume: &Volume| {
            volume.create_dir("/many").unwrap();
            let many = volume.lookup("/many").unwrap();
            for number in 0..3000 {
                many.create(name(number), &NewKind::Regular, &PLAIN).unwrap();
            }
            for number in (0..3000).filter(|number| number % 7 != 0) {
                many.remove_file(name(number)).unwrap();
            }
        };
        let look = |volume: &Volume| {
            let many = volume.lookup("/many").unwrap();
            let mut expected: Vec<_> = (0..3000).step_by(7).map(name).collect();
            expected.sort();
            assert_eq!(names(&many), expected);
            for name in expected {
                assert_eq!(many.lookup(name.as_ref()).unwrap().metadata().nlink, 1);
            }
        };
        check(options, change, look);
    }
}

#[test]
fn renames_move_names_and_files() {
    let change = |volume: &Volume| {
        volume.create_dir_all("/a/b/c").unwrap();
        volume.write("/a/file", b"one").unwrap();
        volume.write("/a/b/file", b"two").unwrap();
        volume.rename("/a/file", "/a/b/file").unwrap();
        let (a, b) = (volume.lookup("/a").unwrap(), volume.lookup("/a/b").unwrap());
        let refused = a.rename("b", &volume.lookup("/a/b/c").unwrap(), "d", RenameMode::Replace);
        assert_eq!(posix(refused), PosixError::InvalidArgument);
        volume.write("/a/other", b"three").unwrap();
        let refused = a.rename("other", &b, "file", RenameMode::NoReplace);
        assert_eq!(posix(refused), PosixError::Exists);
        a.rename("other", &b, "file", RenameMode::Exchange).unwrap();
        let root = volume.root().unwrap();
        let mode = Some(root.metadata().mode & 0o7777 | 0o2000);
        let mut changes = SetAttributes::new().gid(77);
        changes.mode = mode;
        root.set_attributes(&changes).unwrap();
        b.rename("c", &root, "up", RenameMode::Whiteout).unwrap();
    };
    let look = |volume: &Volume| {
        assert_eq!(volume.read("/a/b/file").unwrap(), b"three");
        assert_eq!(volume.read("/a/other").unwrap(), b"one");
        let whiteout = volume.metadata("/a/b/c").unwrap();
        // It inherits from the directory that the other one moved to.
        assert_eq!((whiteout.file_type, whiteout.gid), (FileType::CharDevice, 77));
        let up = volume.lookup("/up").unwrap();
        assert_eq!(up.parent().unwrap().number(), volume.root().unwrap().number());
        assert_eq!(volume.metadata("/").unwrap().nlink, 4);
        assert_eq!(volume.metadata("/a/b").unwrap().nlink, 2);
    };
    check("-n parent=1", change, look);
    check("", change, look);
}

#[test]
fn open_file_stays_when_its_name_is_removed() {
    let device = make_with("");
    let volume = open(&device);
    let before = volume.space().unwrap();
    volume.write("/file", vec![7; 1 << 20]).unwrap();
    let file = volume.open_file("/file").unwrap();
    volume.remove_file("/file").unwrap();
    assert_eq!(file.metadata().nlink, 0);
    let mut byte = [0];
    assert_eq!(file.read_at(&mut byte, 1000).unwrap(), 1);
    assert_eq!(byte, [7]);
    let unnamed = volume.root().unwrap().create_unnamed(&PLAIN).unwrap();
    volume.root().unwrap().link(&unnamed, "named").unwrap();
    drop((file, unnamed));
    volume.close().unwrap();
    let after = reopen(&device);
    assert_eq!(names(&after.root().unwrap()), ["named"]);
    let blocks = after.space().unwrap().free_blocks;
    assert!(before.free_blocks - blocks < 64, "{} blocks are lost", before.free_blocks - blocks);
}

#[test]
fn attributes_of_every_size_are_read_back() {
    let values: BTreeMap<String, Vec<u8>> = (0..40_usize)
        .map(|number| (format!("user.attribute{number}"), vec![number as u8; number * number * 30]))
        .collect();
    let change = |volume: &Volume| {
        volume.write("/file", b"").unwrap();
        let file = volume.lookup("/file").unwrap();
        for (name, value) in &values {
            file.set_attribute(name, value, SetMode::Create).unwrap();
        }
        let again = file.set_attribute("user.attribute3", b"x", SetMode::Create);
        assert_eq!(posix(again), PosixError::Exists);
        let none = file.set_attribute("user.none", b"x", SetMode::Replace);
        assert_eq!(posix(none), PosixError::NoAttribute);
        file.set_attribute("user.gone", &[1; 5000], SetMode::Either).unwrap();
        file.remove_attribute("user.gone").unwrap();
        assert_eq!(posix(file.remove_attribute("user.gone")), PosixError::NoAttribute);
    };
    let look = |volume: &Volume| {
        let file = volume.lookup("/file").unwrap();
        assert_eq!(file.attributes().len(), values.len());
        for (name, value) in &values {
            assert!(file.attribute(name.as_ref()).unwrap() == *value, "{name}");
        }
    };
    check("", change, look);
    check("-n parent=1", change, look);
}

/// Checks that attributes which have become short move back into the inode, as in the kernel. A
/// recovery by the kernel then gives the same result as a recovery by ferroxfs.
#[test]
fn shortened_attributes_move_back_into_the_inode() {
    let device = make_with("-n parent=1");
    let volume = open(&device);
    volume.write("/f", b"").unwrap();
    let file = volume.lookup("/f").unwrap();
    let blocks = || file.metadata().blocks / 8;
    file.set_attribute("trusted.a", &[b'v'; 2000], SetMode::Either).unwrap();
    assert_eq!(blocks(), 1);
    file.set_attribute("trusted.a", &[b'v'; 150], SetMode::Either).unwrap();
    assert_eq!(blocks(), 0);
    // The parent pointer holds the name of the file.
    let (root, long) = (volume.root().unwrap(), "n".repeat(250));
    root.rename("f", &root, &long, RenameMode::Replace).unwrap();
    assert_eq!(blocks(), 1);
    root.rename(&long, &root, "f", RenameMode::Replace).unwrap();
    assert_eq!(blocks(), 0);
    assert_eq!(file.attribute("trusted.a".as_ref()).unwrap(), [b'v'; 150]);
}

#[test]
fn changed_attributes_of_inodes_are_read_back() {
    let change = |volume: &Volume| {
        volume.create_dir("/directory").unwrap();
        let mut changes = SetAttributes::new().mode(0o2750).uid(1).gid(2).project_id(3);
        changes.modified = Timestamp::new(17, 18);
        volume.lookup("/directory").unwrap().set_attributes(&changes).unwrap();
        volume.write("/directory/file", b"").unwrap();
    };
    let look = |volume: &Volume| {
        let metadata = volume.metadata("/directory").unwrap();
        assert_eq!(metadata.mode & 0o7777, 0o2750);
        assert_eq!((metadata.uid, metadata.gid, metadata.project_id), (1, 2, 3));
        assert_eq!(volume.metadata("/directory/file").unwrap().gid, 2);
    };
    check("", change, look);
}

#[test]
fn creation_of_a_file_changes_the_times_of_its_directory() {
    let device = make_with("");
    let options = OpenOptions::new().write(true).with_devices(device, None);
    let volume = options.open().unwrap();
    let root = volume.lookup("/").unwrap();
    let plain = CreateOptions::new(0o644);
    for name in ["a", "b"] {
        let file = root.create(name, &NewKind::Regular, &plain).unwrap().metadata();
        let directory = root.metadata();
        assert_eq!(file.created, file.changed);
        assert_eq!((directory.modified, directory.changed), (file.created, file.created));
    }
}

#[test]
fn read_only_volume_refuses_changes() {
    let device = make_with("");
    let volume = reopen(&device);
    let refused = volume.root().unwrap().create("file", &NewKind::Regular, &PLAIN);
    assert_eq!(posix(refused), PosixError::ReadOnly);
}

#[test]
fn lookup_by_number_during_reuse_is_consistent() {
    let device = make_with("");
    let volume = open(&device);
    let root = volume.root().unwrap();
    let first = root.create("first", &NewKind::Regular, &PLAIN).unwrap().number().0;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || {
            while !stop.load(Ordering::Relaxed) {
                for number in first..first + 4 {
                    match volume.node(InodeNumber(number)) {
                        Ok(node) => assert_eq!(node.number().0, number),
                        Err(Error::Posix(PosixError::NotFound)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        };
        scope.spawn(look);
        scope.spawn(look);
        for round in 0..2000 {
            let name = format!("name{}", round % 3);
            root.create(&name, &NewKind::Regular, &PLAIN).unwrap();
            root.remove_file(&name).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    drop(root);
    volume.close().unwrap();
    assert_eq!(names(&reopen(&device).root().unwrap()), ["first"]);
}

#[test]
fn synced_files_survive_a_crash() {
    let device = make_with("-n parent=1");
    let volume = open(&device);
    volume.create_dir("/kept").unwrap();
    for number in 0..200 {
        volume.write(format!("/kept/{number}"), vec![number as u8; 100 * number]).unwrap();
    }
    for number in 0..100 {
        volume.remove_file(format!("/kept/{number}")).unwrap();
    }
    volume.sync().unwrap();
    volume.create_dir("/perhaps").unwrap();
    // A dropped volume writes nothing, as after a power cut.
    drop(volume);
    let volume = open(&device);
    assert_eq!(names(&volume.lookup("/kept").unwrap()).len(), 100);
    for number in 100..200_usize {
        let found = volume.read(format!("/kept/{number}")).unwrap();
        assert!(found == vec![number as u8; 100 * number], "contents of {number}");
    }
    volume.close().unwrap();
    reopen(&device).lookup("/kept/150").unwrap();
}

/// The first attribute of a file moves the root of its extent btree within the inode. Checks that
/// no extent is lost, even if the btree has not been read before.
#[test]
fn first_attribute_of_a_file_with_many_extents_keeps_them() {
    let device = make_with("");
    let volume = open(&device);
    let file = volume.root().unwrap().create("file", &NewKind::Regular, &PLAIN).unwrap();
    for block in 0..40 {
        file.open().unwrap().write_at(b"a block of its own", block * 8192).unwrap();
    }
    drop(file);
    volume.close().unwrap();
    let volume = open(&device);
    let file = volume.lookup("file").unwrap();
    file.set_attribute("user.first", &[7; 120], SetMode::Create).unwrap();
    drop(file);
    volume.close().unwrap();
    let volume = reopen(&device);
    let file = volume.lookup("file").unwrap();
    assert_eq!(file.attribute("user.first".as_ref()).unwrap(), [7; 120]);
    let mut bytes = [0; 18];
    file.open().unwrap().read_at(&mut bytes, 39 * 8192).unwrap();
    assert_eq!(&bytes, b"a block of its own");
}

/// Checks that a deduplication of equal bytes leaves the times of the file unchanged.
#[test]
fn deduplication_leaves_the_times() {
    let device = make_with("");
    let volume = open(&device);
    let root = volume.root().unwrap();
    let [one, two] = ["one", "two"].map(|name| {
        let file = root.create(name, &NewKind::Regular, &PLAIN).unwrap().open().unwrap();
        file.write_at(&[3; 8192], 0).unwrap();
        file
    });
    let past = Timestamp::new(1_000_000_000, 0);
    two.node()
        .set_attributes(&{
            let mut changes = SetAttributes::new();
            changes.modified = past;
            changes
        })
        .unwrap();
    let before = two.metadata();
    assert!(two.deduplicate(0, &one, 0, 8192).unwrap());
    let after = two.metadata();
    assert_eq!((after.modified, after.changed), (before.modified, before.changed));
}

/// Checks I2 of `xfs_inode::live`: a time outside of the range that an inode can store becomes the
/// nearest time in the range. So does one that a caller sets, and so does the current time.
#[test]
fn times_out_of_range_are_clamped() {
    let ranges = [
        ("-m bigtime=0", i64::from(i32::MIN), i64::from(i32::MAX)),
        ("", i64::from(i32::MIN), 16_299_260_424),
    ];
    for (options, first, last) in ranges {
        let device = make_with(options);
        let late = Timestamp::new(i64::MAX, 999_999_999).unwrap();
        let options = OpenOptions::new().fixed_time(late).write(true);
        let volume = options.open_device(Arc::clone(&device)).unwrap();
        volume.write("/file", b"contents").unwrap();
        let mut changes = SetAttributes::new();
        changes.accessed = Timestamp::new(i64::MIN, 5);
        changes.modified = Timestamp::new(last, 999_999_999);
        changes.created = Timestamp::new(first, 0);
        volume.lookup("/file").unwrap().set_attributes(&changes).unwrap();
        volume.create_dir("/directory").unwrap();
        volume.close().unwrap();
        let metadata = reopen(&device).metadata("/file").unwrap();
        assert_eq!(metadata.accessed, Timestamp::new(first, 0).unwrap());
        assert_eq!(metadata.created, Timestamp::new(first, 0).unwrap());
        assert_eq!(metadata.changed, Timestamp::new(last, 0).unwrap());
        assert_eq!(metadata.modified.seconds(), last);
        let metadata = reopen(&device).metadata("/directory").unwrap();
        assert_eq!(metadata.created, Timestamp::new(last, 0).unwrap());
    }
}

#[test]
fn device_numbers_out_of_range_are_refused() {
    let change = |volume: &Volume| {
        let root = volume.root().unwrap();
        for (major, minor) in [(1 << 14, 0), (0, 1 << 18), (8, u32::MAX)] {
            let device = DeviceNumber { major, minor };
            for kind in [NewKind::CharacterDevice(device), NewKind::BlockDevice(device)] {
                let refused = root.create("device", &kind, &PLAIN);
                assert_eq!(posix(refused), PosixError::InvalidArgument);
            }
        }
        let device = DeviceNumber { major: (1 << 14) - 1, minor: (1 << 18) - 1 };
        root.create("last", &NewKind::BlockDevice(device), &PLAIN).unwrap();
    };
    let look = |volume: &Volume| {
        assert_eq!(names(&volume.root().unwrap()), ["last"]);
        let device = volume.lookup("/last").unwrap().inode().core().rdev.unwrap();
        assert_eq!((device.major, device.minor), ((1 << 14) - 1, (1 << 18) - 1));
    };
    check("", change, look);
}

#[test]
fn new_file_inherits_from_its_directory() {
    let change = |volume: &Volume| {
        volume.create_dir("/directory").unwrap();
        let xflags = Some(ExtendedFlags::FILESTREAM | ExtendedFlags::NODUMP);
        let mut changes = SetAttributes::new();
        changes.xflags = xflags;
        volume.lookup("/directory").unwrap().set_attributes(&changes).unwrap();
        volume.write("/directory/file", b"").unwrap();
        volume.create_dir("/directory/below").unwrap();
    };
    let look = |volume: &Volume| {
        for path in ["/directory", "/directory/file", "/directory/below"] {
            let flags = volume.lookup(path).unwrap().inode().core().flags;
            assert_eq!(flags, InodeFlags::FILESTREAM | InodeFlags::NODUMP, "{path}");
        }
    };
    check("", change, look);
}

/// Checks that every change of a file or of a directory raises its change count.
#[test]
fn every_change_raises_the_change_count() {
    let device = make_with("-n parent=1");
    let volume = open(&device);
    let root = volume.root().unwrap();
    let file = root.create("file", &NewKind::Regular, &PLAIN).unwrap();
    let count = |node: &Node| node.inode().core().change_count;
    let rises = |node: &Node, what: &str, change: &dyn Fn()| {
        let before = count(node);
        change();
        assert!(count(node) > before, "{what}: still {before}");
    };
    let mode = SetAttributes::new().mode(0o600);
    rises(&file, "chmod", &|| file.set_attributes(&mode).unwrap());
    rises(&file, "setxattr", &|| {
        file.set_attribute("user.name", b"value", SetMode::Either).unwrap();
    });
    rises(&file, "write", &|| {
        assert_eq!(file.open().unwrap().write_at(b"bytes", 0).unwrap(), 5);
    });
    rises(&file, "link", &|| root.link(&file, "other").unwrap());
    rises(&root, "create", &|| volume.write("/another", b"").unwrap());
    rises(&root, "rename", &|| volume.rename("/another", "/renamed").unwrap());
    rises(&root, "unlink", &|| root.remove_file("renamed").unwrap());
    rises(&file, "its unlink", &|| root.remove_file("other").unwrap());
    let before = count(&file);
    file.set_attributes(&mode).unwrap();
    assert_eq!(count(&file), before + 1, "counted once in each transaction");
}

/// Makes a volume with files that fill whole inode chunks, and writes all changes in place.
fn crowded(options: &str) -> SharedDevice {
    let device = make_with(options);
    let volume = open(&device);
    volume.create_dir("/crowd").unwrap();
    let crowd = volume.lookup("/crowd").unwrap();
    for number in 0..200 {
        crowd.create(format!("{number}"), &NewKind::Regular, &PLAIN).unwrap();
    }
    drop(crowd);
    volume.close().unwrap();
    device
}

/// Checks I2 of `xfs_icache::inode_cache`: the number of a freed inode leads to no inode.
#[test]
fn listed_number_of_a_freed_chunk_is_not_found() {
    for options in ["", "-n parent=1", "-b size=1k", "-m finobt=0,rmapbt=0,reflink=0"] {
        let device = crowded(options);
        let volume = open(&device);
        let crowd = volume.lookup("/crowd").unwrap();
        let listed: Vec<_> = crowd.entries().unwrap().map(Result::unwrap).collect();
        let inodes = volume.space().unwrap().inodes;
        for entry in &listed {
            crowd.remove_file(entry.name()).unwrap();
        }
        let all_are_gone = || {
            for entry in &listed {
                assert_eq!(posix(entry.node().map(|node| node.number())), PosixError::NotFound);
            }
        };
        all_are_gone();
        assert!(volume.space().unwrap().inodes < inodes, "no chunk was freed");
        // Now the buffers are dropped, and the device still has the old bytes.
        volume.sync().unwrap();
        all_are_gone();
        for entry in &listed {
            crowd.create(entry.name(), &NewKind::Fifo, &PLAIN).unwrap();
        }
        for entry in crowd.entries().unwrap().map(Result::unwrap) {
            assert_eq!(entry.node().unwrap().file_type(), FileType::Fifo);
        }
        drop((listed, crowd));
        volume.close().unwrap();
        assert_eq!(names(&reopen(&device).lookup("/crowd").unwrap()).len(), 200);
    }
}

/// A guard that sets a flag when it is dropped, also because of a panic. The other threads of the
/// test end when the flag is set.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn directory_walk_during_changes_is_consistent() {
    let device = crowded("");
    let volume = open(&device);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let crowd = volume.lookup("/crowd").unwrap();
                    let listed: Vec<_> = crowd.entries().unwrap().map(Result::unwrap).collect();
                    for entry in listed {
                        match entry.node().map(|node| node.metadata().nlink) {
                            Ok(_) | Err(Error::Posix(PosixError::NotFound)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
        let _done = Done(&done);
        let crowd = volume.lookup("/crowd").unwrap();
        for round in 0..8 {
            for number in 0..200 {
                crowd.remove_file(format!("{number}")).unwrap();
            }
            if round % 2 == 0 {
                volume.sync().unwrap();
            }
            for number in 0..200 {
                crowd.create(format!("{number}"), &NewKind::Regular, &PLAIN).unwrap();
            }
        }
    });
    volume.close().unwrap();
    assert_eq!(names(&reopen(&device).lookup("/crowd").unwrap()).len(), 200);
}

#[test]
fn wrong_link_count_is_refused_without_a_shutdown() {
    let device = make_with("");
    let volume = open(&device);
    let root = volume.root().unwrap();
    let file = root.create("one", &NewKind::Regular, &PLAIN).unwrap();
    root.link(&file, "two").unwrap();
    root.link(&file, "three").unwrap();
    let number = file.number();
    root.create("other", &NewKind::Regular, &PLAIN).unwrap();
    drop((file, root));
    volume.close().unwrap();
    // The link count is smaller than the number of names.
    forge(&device, number, 16, 1);

    let volume = open(&device);
    let root = volume.root().unwrap();
    let file = root.lookup("one".as_ref()).unwrap();
    root.remove_file("one").unwrap();
    let corrupt = |result: ferroxfs::Result<()>| matches!(result, Err(Error::Corrupt(_)));
    assert!(corrupt(root.remove_file("two")), "an unlinked file lost a name");
    assert!(corrupt(root.rename("other", &root, "two", RenameMode::Replace)), "replaced");
    // Nothing was changed, so the volume stays usable.
    root.create("more", &NewKind::Regular, &PLAIN).unwrap();
    drop(file);
    drop(root);
    volume.close().unwrap();
    assert_eq!(names(&reopen(&device).root().unwrap()), ["more", "other", "three", "two"]);
}

/// Checks that a collapse also frees blocks past the new end of the file, as in the kernel.
#[test]
fn collapse_leaves_no_blocks_past_the_end() {
    let change = |volume: &Volume| {
        volume.write("/file", [7; 40_000]).unwrap();
        let file = volume.lookup("/file").unwrap().open().unwrap();
        let ahead = RangeMode::Allocate(AllocateMode::KeepSize);
        file.change_range(40_960..81_920, ahead).unwrap();
        assert_eq!(volume.metadata("/file").unwrap().blocks, 81_920 / 512);
        file.change_range(0..8192, RangeMode::Collapse).unwrap();
        file.close().unwrap();
    };
    let look = |volume: &Volume| {
        let metadata = volume.metadata("/file").unwrap();
        assert_eq!((metadata.size, metadata.blocks), (31_808, 32_768 / 512));
        assert_eq!(volume.read("/file").unwrap(), [7; 31_808]);
    };
    check("-l size=16m", change, look);
}

#[test]
fn directory_with_nosymlinks_refuses_links() {
    let change = |volume: &Volume| {
        let root = volume.root().unwrap();
        let folder = root.create("folder", &NewKind::Directory, &PLAIN).unwrap();
        let xflags = Some(ExtendedFlags::NOSYMLINKS);
        let mut changes = SetAttributes::new();
        changes.xflags = xflags;
        folder.set_attributes(&changes).unwrap();
        let link = |target| folder.create("link", &NewKind::Symlink(target), &PLAIN);
        assert_eq!(posix(link(b"to")), PosixError::NotPermitted);
        assert_eq!(posix(link(&[b'x'; 1024])), PosixError::NameTooLong);
        folder.create("file", &NewKind::Regular, &PLAIN).unwrap();
        // The flag is not inherited, and a link may be moved in.
        let inner = folder.create("inner", &NewKind::Directory, &PLAIN).unwrap();
        inner.create("link", &NewKind::Symlink(b"to"), &PLAIN).unwrap();
        inner.rename("link", &folder, "moved", RenameMode::NoReplace).unwrap();
    };
    let look = |volume: &Volume| {
        assert_eq!(names(&volume.lookup("/folder").unwrap()), ["file", "inner", "moved"]);
    };
    check("-l size=16m", change, look);
}

#[test]
fn file_created_by_two_threads_is_written_by_both() {
    let volume = open(&make_with(""));
    for round in 0..300 {
        let path = format!("/file{round}");
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let write = || {
                start.wait();
                volume.write(&path, b"contents").unwrap();
            };
            scope.spawn(write);
            scope.spawn(write);
        });
        assert_eq!(volume.read(&path).unwrap(), b"contents");
    }
    volume.close().unwrap();
}

#[test]
fn write_through_a_dangling_link_creates_its_target() {
    let volume = open(&make_with(""));
    volume.create_dir("/folder").unwrap();
    volume.create_dir("/other").unwrap();
    volume.symlink("other", "/to_other").unwrap();
    volume.symlink("/to_other", "/folder/absolute").unwrap();
    for (number, target) in
        ["new", "../new", "/other/new", "absolute/new", "../to_other/newer"].iter().enumerate()
    {
        let (link, further) = (format!("/folder/{number}"), format!("/further{number}"));
        volume.symlink(target, &link).unwrap();
        volume.symlink(&link, &further).unwrap();
        volume.write(&further, target).unwrap();
        assert_eq!(volume.read(&link).unwrap(), target.as_bytes());
        assert_eq!(volume.symlink_metadata(&link).unwrap().file_type, FileType::Symlink);
    }
    for made in ["/folder/new", "/new", "/other/new", "/other/newer"] {
        assert_eq!(volume.symlink_metadata(made).unwrap().file_type, FileType::Regular, "{made}");
    }
    let refused = |target: &str, error| {
        volume.symlink(target, "/refused").unwrap();
        let met = posix(volume.create_file("/refused"));
        volume.remove_file("/refused").unwrap();
        assert_eq!(met, error, "{target}");
    };
    refused("missing/file", PosixError::NotFound);
    refused("missing/", PosixError::IsDirectory);
    refused("new/file", PosixError::NotDirectory);
    refused("refused", PosixError::SymlinkLoop);
    // The largest number of links that a path may have, and one more.
    for link in 0..=40 {
        volume.symlink(format!("/link{}", link + 1), format!("/link{link}")).unwrap();
    }
    assert_eq!(posix(volume.create_file("/link0")), PosixError::SymlinkLoop);
    volume.write("/link1", b"at the end").unwrap();
    assert_eq!(volume.read("/link41").unwrap(), b"at the end");
    volume.close().unwrap();
}
