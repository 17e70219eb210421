//! Tests of the operations that the flags of a file forbid, and of the flags that can be set.

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::contents::{AllocateMode, RangeMode};
use ferroxfs::{
    Capabilities, CreateOptions, Credentials, Error, File, Metadata, NewKind, Node, OpenOptions,
    PosixError, Result, SetAttributes, Timestamp, Volume,
};
use xfs_trans::testing::make_with;

use crate::forge;

const PLAIN: CreateOptions = CreateOptions::new(0o644);
const BLOCK: u64 = 4096;

fn open() -> Volume {
    let device = make_with("-l size=16m -i exchange=1");
    let options = OpenOptions::new().write(true).with_devices(device, None);
    options.open().unwrap()
}

/// Makes a file of `size` bytes with these flags.
fn file(volume: &Volume, size: u64, flags: ExtendedFlags) -> File {
    let node = volume.root().unwrap().create_unnamed(&PLAIN).unwrap();
    let file = node.open().unwrap();
    file.write_at(&vec![1; size as usize], 0).unwrap();
    set(file.node(), flags).unwrap();
    file
}

fn set(node: &Node, flags: ExtendedFlags) -> Result<()> {
    node.set_attributes(&SetAttributes::new().xflags(flags))
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(result: Result<T>, expected: PosixError) {
    match result {
        Err(Error::Posix(found)) if found == expected => {}
        other => panic!("{other:?} in place of {expected}"),
    }
}

/// Checks that an append-only file of `size` bytes refuses the operations that the kernel refuses,
/// and allows those that the kernel allows.
fn check_append_only(volume: &Volume, size: u64) {
    let other = file(volume, 2 * BLOCK, ExtendedFlags::empty());
    let fixed = file(volume, size, ExtendedFlags::APPEND);
    for length in [0, size, size + BLOCK] {
        check_refused(fixed.set_len(length), PosixError::NotPermitted);
    }
    for mode in [
        RangeMode::Punch,
        RangeMode::Zero(AllocateMode::Extend),
        RangeMode::Zero(AllocateMode::KeepSize),
        RangeMode::Collapse,
        RangeMode::Insert,
        RangeMode::Unshare(AllocateMode::Extend),
    ] {
        check_refused(fixed.change_range(0..BLOCK, mode), PosixError::NotPermitted);
    }
    check_refused(fixed.clone_range(0, &other, 0, 0), PosixError::NotPermitted);
    check_refused(fixed.deduplicate(0, &other, 0, BLOCK), PosixError::NotPermitted);
    check_refused(fixed.exchange_range(0, &other, 0, 0), PosixError::NotPermitted);
    check_refused(other.exchange_range(0, &fixed, 0, 0), PosixError::NotPermitted);
    other.clone_range(0, &fixed, 0, 0).unwrap();
    assert_eq!(fixed.metadata().size, size);
    fixed.change_range(0..size + BLOCK, RangeMode::Allocate(AllocateMode::KeepSize)).unwrap();
    assert_eq!(fixed.metadata().size, size);
    fixed.change_range(size..size + BLOCK, RangeMode::Allocate(AllocateMode::Extend)).unwrap();
    assert_eq!(fixed.metadata().size, size + BLOCK);
    fixed.write_at(b"more", size + BLOCK).unwrap();
    check_refused(fixed.write_at(b"less", 0), PosixError::NotPermitted);
}

#[test]
fn append_only_file_is_neither_cut_nor_replaced() {
    let volume = open();
    check_append_only(&volume, 0);
    check_append_only(&volume, 3 * BLOCK);
    let fixed = file(&volume, 0, ExtendedFlags::IMMUTABLE);
    let allocate = RangeMode::Allocate(AllocateMode::KeepSize);
    check_refused(fixed.change_range(0..BLOCK, allocate), PosixError::NotPermitted);
    check_refused(fixed.set_len(0), PosixError::NotPermitted);
}

/// Checks that flags, project and hints of an immutable or append-only file can change. Its other
/// attributes cannot change, not even in one change together with flags or project.
#[test]
fn immutable_file_changes_only_its_settings() {
    let volume = open();
    let me = Credentials::new(1000, 1000);
    let mine = PLAIN.uid(1000).gid(1000);
    let now = Timestamp::new(1, 0).unwrap();
    let name = "mine";
    let node = volume.root().unwrap().create(name, &NewKind::Regular, &mine).unwrap();
    for flag in [ExtendedFlags::IMMUTABLE, ExtendedFlags::APPEND] {
        set(&node, flag).unwrap();
        let user = volume.as_user(me.clone());
        let as_user = user.lookup(name).unwrap();
        for node in [&node, &as_user] {
            let before = node.metadata();
            let none = SetAttributes::default();
            for change in [
                none.mode(0o600),
                none.uid(1000),
                none.gid(1000),
                none.accessed(now),
                none.modified(now),
                none.changed(now),
                none.created(now),
            ] {
                check_refused(node.set_attributes(&change), PosixError::NotPermitted);
                for xflags in [flag, ExtendedFlags::empty()] {
                    let along = change.xflags(xflags);
                    check_refused(node.set_attributes(&along), PosixError::NotPermitted);
                }
                let along = change.project_id(7);
                check_refused(node.set_attributes(&along), PosixError::NotPermitted);
            }
            check_refused(node.set_attributes(&none), PosixError::NotPermitted);
            assert_eq!(node.metadata(), before);
            node.set_attributes(&none.project_id(7)).unwrap();
            let hint = Some(16 * BLOCK);
            let mut changes = none;
            changes.cow_extent_size_hint_bytes = hint;
            node.set_attributes(&changes).unwrap();
            set(node, flag | ExtendedFlags::NODUMP).unwrap();
            node.set_attributes(&none.project_id(0)).unwrap();
            set(node, flag).unwrap();
        }
        check_refused(set(&as_user, ExtendedFlags::empty()), PosixError::NotPermitted);
        set(&node, ExtendedFlags::empty()).unwrap();
        drop(as_user);
        let capable = me.clone().capabilities(Capabilities::LINUX_IMMUTABLE);
        let user = volume.as_user(capable);
        set(&user.lookup(name).unwrap(), flag).unwrap();
        set(&node, ExtendedFlags::empty()).unwrap();
    }
}

/// Checks that on a volume without a realtime device, a directory can have the flag by which new
/// files inherit the realtime flag. A new file on such a volume does not get the realtime flag.
#[test]
fn directory_may_inherit_realtime_without_the_device() {
    let volume = open();
    let root = volume.root().unwrap();
    let top = root.create("top", &NewKind::Directory, &PLAIN).unwrap();
    let (realtime, inherit) = (ExtendedFlags::REALTIME, ExtendedFlags::RTINHERIT);
    let plain = root.create("plain", &NewKind::Regular, &PLAIN).unwrap();
    for node in [&top, &plain] {
        check_refused(set(node, realtime), PosixError::InvalidArgument);
        check_refused(set(node, realtime | inherit), PosixError::InvalidArgument);
        set(node, inherit).unwrap();
    }
    let has = |node: &Node| node.metadata().xflags.intersects(realtime | inherit);
    assert!(has(&top) && !has(&plain));
    let below = |name: &str, kind| has(&top.create(name, &kind, &PLAIN).unwrap());
    assert!(below("directory", NewKind::Directory));
    assert!(!below("file", NewKind::Regular));
    assert!(!below("pipe", NewKind::Fifo));
    volume.write("/top/file", [1; 5000]).unwrap();
    set(&top, ExtendedFlags::empty()).unwrap();
    assert!(!has(&top));
}

/// Checks that an extent size hint that is inherited together with the realtime flag must be a
/// multiple of the realtime extent size. Even a volume without a realtime device has that size in
/// its superblock. It is 4 KiB here.
#[test]
fn realtime_hint_must_be_aligned_without_the_device() {
    let device = make_with("-b size=1024 -l size=16m -i exchange=1");
    let options = || OpenOptions::new().write(true).with_devices(device.clone(), None);
    let volume = options().open().unwrap();
    let inherit = Some(ExtendedFlags::RTINHERIT);
    let changes = |xflags, kib: u64| {
        let mut changes = SetAttributes::new().extent_size_hint_bytes(kib << 10);
        changes.xflags = xflags;
        changes
    };
    let root = volume.root().unwrap();
    let [first, second] =
        ["first", "second"].map(|name| root.create(name, &NewKind::Directory, &PLAIN).unwrap());
    check_refused(first.set_attributes(&changes(inherit, 21)), PosixError::InvalidArgument);
    first.set_attributes(&changes(None, 21)).unwrap();
    check_refused(set(&first, ExtendedFlags::RTINHERIT), PosixError::InvalidArgument);
    second.set_attributes(&changes(inherit, 20)).unwrap();
    check_refused(second.set_attributes(&changes(None, 21)), PosixError::InvalidArgument);
    second.set_attributes(&changes(None, 24)).unwrap();
    // A wrong copy-on-write hint is no error, and is not kept.
    let copies = |kib: u64| {
        let hint = Some(kib << 10);
        let mut change = SetAttributes::new();
        change.cow_extent_size_hint_bytes = hint;
        second.set_attributes(&change).unwrap();
        second.metadata().cow_extent_size_hint_bytes
    };
    assert_eq!([copies(16), copies(17)], [16 << 10, 0]);
    let made = second.create("made", &NewKind::Directory, &PLAIN).unwrap();
    assert_eq!(made.metadata().extent_size_hint_bytes, 24 << 10);
    let more = ["keeps", "loses"].map(|name| {
        let more = root.create(name, &NewKind::Directory, &PLAIN).unwrap();
        more.set_attributes(&changes(inherit, 24)).unwrap();
        more.number()
    });
    let number = second.number();
    drop((root, first, second, made));
    volume.close().unwrap();

    // A wrong hint from an older kernel is shown as none, and is cleared when its directory
    // changes.
    more.into_iter().chain([number]).for_each(|number| forge(&device, number, 72, 21));
    let hint = |node: &Node| {
        let Metadata { xflags, extent_size_hint_bytes, .. } = node.metadata();
        (xflags.contains(ExtendedFlags::EXTSZINHERIT), extent_size_hint_bytes)
    };
    let volume = options().open().unwrap();
    let second = volume.lookup("second").unwrap();
    assert_eq!(hint(&second), (false, 0));
    for kind in [NewKind::Directory, NewKind::Regular] {
        let below = second.create(format!("{kind:?}"), &kind, &PLAIN).unwrap();
        assert_eq!(hint(&below), (false, 0));
    }
    set(&second, ExtendedFlags::empty()).unwrap();
    assert_eq!(hint(&second), (false, 0));
    // It refuses no change, and does not come back once the conflicting flag is cleared.
    for (name, flags) in [("keeps", ExtendedFlags::RTINHERIT), ("loses", ExtendedFlags::empty())] {
        let node = volume.lookup(name).unwrap();
        set(&node, flags).unwrap();
        assert_eq!(hint(&node), (false, 0), "{name}");
    }
}

/// Checks that a clone gets the copy-on-write hint only if the whole source becomes the whole
/// target. Each case has five numbers of bytes: the lengths of source and target, the start and
/// length of the cloned range, and its start in the target. The last field says whether the target
/// takes the hint over.
#[test]
fn clone_of_a_whole_file_takes_its_cow_hint() {
    const HINT: u64 = 16 * BLOCK;
    let volume = open();
    let hint_of = |file: &File| file.metadata().cow_extent_size_hint_bytes;
    let hinted = |size, hint| {
        let made = file(&volume, size, ExtendedFlags::empty());
        let change = SetAttributes::new().cow_extent_size_hint_bytes(hint);
        made.node().set_attributes(&change).unwrap();
        made
    };
    for (size, own_size, from, length, to, takes) in [
        (100_000, 0, 0, 0, 0, true),
        (100_000, 0, 0, 100_000, 0, true),
        (100_000, 0, 0, HINT, 0, false),
        (HINT, HINT, 0, HINT, 0, true),
        (HINT, HINT + 1, 0, HINT, 0, false),
        (HINT, 0, BLOCK, HINT - BLOCK, 0, false),
        (HINT, 0, 0, HINT, HINT, false),
        (0, 0, 0, 0, 0, false),
    ] {
        let case = format!("{size} {own_size} {from} {length} {to}");
        let expected = if takes { HINT } else { 0 };
        let (source, other) = (hinted(size, HINT), hinted(own_size, 0));
        other.clone_range(to, &source, from, length).unwrap();
        assert_eq!(hint_of(&other), expected, "clone {case}");
        // A target with a hint keeps it.
        let (source, other) = (hinted(size, HINT), hinted(own_size, BLOCK));
        other.clone_range(to, &source, from, length).unwrap();
        assert_eq!(hint_of(&other), BLOCK, "clone {case}");
        if from == 0 && to == 0 && length > 0 && own_size >= length {
            let (source, other) = (hinted(size, HINT), hinted(own_size, 0));
            assert!(other.deduplicate(to, &source, from, length).unwrap());
            assert_eq!(hint_of(&other), expected, "deduplication {case}");
        }
    }
    let (source, other) = (hinted(HINT, 0), hinted(0, 0));
    other.clone_range(0, &source, 0, 0).unwrap();
    assert_eq!(hint_of(&other), 0);
}

#[test]
fn insert_past_the_largest_file_is_too_large() {
    const MOST: u64 = i64::MAX as u64;
    let volume = open();
    let long = file(&volume, 0, ExtendedFlags::empty());
    long.set_len(MOST).unwrap();
    let insert = |from: u64, length: u64| long.change_range(from..from + length, RangeMode::Insert);
    check_refused(insert(0, BLOCK), PosixError::FileTooLarge);
    check_refused(insert(1, BLOCK), PosixError::InvalidArgument);
    long.set_len(MOST - 2 * BLOCK).unwrap();
    check_refused(insert(0, 3 * BLOCK), PosixError::FileTooLarge);
    insert(0, BLOCK).unwrap();
    assert_eq!(long.metadata().size, MOST - BLOCK);
    let short = file(&volume, BLOCK, ExtendedFlags::empty());
    let after = short.change_range(BLOCK..MOST - MOST % BLOCK, RangeMode::Insert);
    check_refused(after, PosixError::InvalidArgument);
}
