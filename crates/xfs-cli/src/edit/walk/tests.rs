use std::ffi::OsStr;
use std::sync::Arc;

use ferroxfs::{CreateOptions, NewKind, Node, OpenOptions, Timestamp, Volume};
use xfs_device::MemoryDevice;
use xfs_mkfs::{Devices, Discard, Identity, Options, Plan, TargetDevice};

use super::{TreeWalk, WalkEvent};

const DATA_BYTES: u64 = 64 << 20;
const PLAIN: CreateOptions = CreateOptions::new(0o755);

fn open() -> Volume {
    let device = MemoryDevice::new(DATA_BYTES);
    let mut options = Options::default();
    options.allow_small = true;
    let target = TargetDevice {
        data_bytes: DATA_BYTES,
        sector_size: 512,
        log_bytes: None,
        realtime_bytes: None,
    };
    let identity = Identity::reproducible(Timestamp::default(), b"walk");
    let plan = Plan::new(&options, &target, &identity).unwrap();
    xfs_mkfs::write(&plan, Devices { data: &device, log: None, realtime: None }, Discard::No)
        .unwrap();
    let options = OpenOptions::new().write(true).with_devices(Arc::new(device), None);
    options.open().unwrap()
}

fn make(directory: &Node, name: &str, kind: &NewKind<'_>) -> Node {
    directory.create(name, kind, &PLAIN).unwrap()
}

/// Walks the tree at `start` and returns the paths in order. The end of a directory is its path
/// with a slash.
fn paths(volume: &Volume, start: &str) -> Vec<String> {
    let mut walk = TreeWalk::new(volume, volume.lookup(start).unwrap(), start.as_bytes());
    let mut paths = Vec::new();
    while let Some(event) = walk.next() {
        let path = String::from_utf8(walk.path().to_vec()).unwrap();
        assert_eq!(walk.directory().is_none(), walk.depth() == 0, "{path}");
        paths.push(match event.unwrap() {
            WalkEvent::File(_) => path,
            WalkEvent::End => path + "/",
        });
    }
    paths
}

#[test]
fn walk_visits_a_directory_before_and_after_its_entries() {
    let volume = open();
    let top = make(&volume.root().unwrap(), "top", &NewKind::Directory);
    let one = make(&top, "one", &NewKind::Directory);
    make(&one, "file", &NewKind::Regular);
    make(&top, "link", &NewKind::Symlink(b"one"));
    make(&top, "two", &NewKind::Directory);
    let below = ["/one", "/one/file", "/one/", "/link", "/two", "/two/"];
    let expected: Vec<_> = below.iter().map(|path| format!("/top{path}")).collect();
    assert_eq!(
        paths(&volume, "/top"),
        [&["/top".to_owned()], &*expected, &["/top/".to_owned()]].concat()
    );
    assert_eq!(paths(&volume, "/")[..2], ["/", "/top"]);
    assert_eq!(paths(&volume, "/top/one/file"), ["/top/one/file"]);
}

/// Checks I1 of `xfs_cli::edit::walk`: a walk of a deep and wide tree adds at most three inodes to
/// those in memory.
#[test]
fn walk_holds_few_inodes_in_deep_and_wide_trees() {
    let volume = open();
    let root = volume.root().unwrap();
    let mut directory = make(&root, "top", &NewKind::Directory);
    for number in 0..200 {
        make(&directory, &format!("file-{number}"), &NewKind::Regular);
    }
    for _ in 0..200 {
        directory = make(&directory, "deeper", &NewKind::Directory);
    }
    drop((root, directory));
    volume.drop_caches().unwrap();
    let before = volume.cache_counts().unwrap().live;
    let mut walk = TreeWalk::new(&volume, volume.lookup("/top").unwrap(), b"/top");
    let (mut files, mut ends, mut most) = (0, 0, 0);
    while let Some(event) = walk.next() {
        match event.unwrap() {
            WalkEvent::File(_) => files += 1,
            WalkEvent::End => ends += 1,
        }
        most = most.max(volume.cache_counts().unwrap().live);
    }
    assert_eq!((files, ends), (1 + 200 + 200, 201));
    assert!(most <= before + 3, "{most} in use, {before} before");
}

/// Checks I2 of `xfs_cli::edit::walk`: the walk visits every entry once, although it removes most
/// of them.
#[test]
fn walk_skips_no_entry_when_entries_are_removed() {
    let volume = open();
    let top = make(&volume.root().unwrap(), "top", &NewKind::Directory);
    for number in 0..1000 {
        let kind = if number % 10 == 0 { NewKind::Directory } else { NewKind::Regular };
        make(&top, &format!("entry-{number}"), &kind);
    }
    let mut walk = TreeWalk::new(&volume, top, b"/top");
    let (mut met_names, mut left) = (Vec::new(), 0);
    while let Some(event) = walk.next() {
        let WalkEvent::File(node) = event.unwrap() else { continue };
        let Some(directory) = walk.directory() else { continue };
        met_names.push(walk.name().to_owned());
        if node.metadata().is_dir() {
            left += 1;
        } else {
            directory.remove_file(walk.name()).unwrap();
        }
    }
    assert_eq!((met_names.len(), left), (1000, 100));
    met_names.sort_unstable();
    met_names.dedup();
    assert_eq!(met_names.len(), 1000);
    assert!(met_names.iter().any(|name| name == OsStr::new("entry-999")));
    assert_eq!(volume.lookup("/top").unwrap().entries().unwrap().count(), 100);
}
