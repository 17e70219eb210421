use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use super::{Directory, Existing, Fidelity, HostWriter};
use crate::failure::Failure;
use crate::file::facts::{Facts, Time};
use crate::file::memory::{MemoryFile, directory, facts, file, link};
use crate::file::source::NamedValue;

const ARCHIVE: Fidelity =
    Fidelity { is_archive: true, ignores_owner: false, existing: Existing::Replace };

/// Copies `source` into the directory `to`, and returns the failures that were reported.
fn extract(source: Arc<MemoryFile>, to: &Path, fidelity: Fidelity) -> Vec<String> {
    let mut reports = Vec::new();
    let mut report = |failure: Failure| reports.push(failure.to_string());
    let root = Directory::open(to).expect("a directory");
    let tally = crate::terminal::tally::Tally::default();
    let mut extraction = HostWriter::new(fidelity, &root, &mut report, &tally);
    let end = extraction.copy_contents(source).err();
    let shortfalls = extraction.finish();
    reports.extend(end.into_iter().chain(shortfalls).map(|failure| failure.to_string()));
    reports
}

/// A directory that contains a destination for copies, and files next to it that must not be
/// touched.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Self {
        let stage = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir(stage.to()).expect("a directory");
        fs::create_dir(stage.outside()).expect("a directory");
        fs::write(stage.outside().join("precious"), "precious").expect("a file");
        stage
    }
    fn to(&self) -> std::path::PathBuf {
        self.0.path().join("to")
    }
    fn outside(&self) -> std::path::PathBuf {
        self.0.path().join("outside")
    }
    #[track_caller]
    fn check_untouched(&self) {
        let names: Vec<_> = fs::read_dir(self.outside())
            .expect("a directory")
            .map(|e| e.expect("an entry").file_name())
            .collect();
        assert_eq!(names, ["precious"]);
        let contents = fs::read(self.outside().join("precious")).expect("a file");
        assert_eq!(contents, b"precious");
        assert!(!self.0.path().join("escaped").exists());
    }
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    let stage = Stage::new();
    let hostile: [&[u8]; 8] = [
        b"..",
        b".",
        b"",
        b"../escaped",
        b"../outside/precious",
        b"/tmp/ferroxfs-escaped",
        b"a/b",
        b"nul\0",
    ];
    let entries: Vec<_> = hostile.iter().map(|name| (*name, file(9, b"evil"))).collect();
    let reports = extract(directory(1, &entries), &stage.to(), ARCHIVE);
    assert_eq!(reports.len(), hostile.len(), "{reports:?}");
    assert_eq!(fs::read_dir(stage.to()).expect("a directory").count(), 0);
    stage.check_untouched();
}

#[test]
fn hostile_directories_are_refused_too() {
    let stage = Stage::new();
    let inner = directory(2, &[(b"escaped", file(3, b"evil"))]);
    let reports = extract(directory(1, &[(b"..", inner)]), &stage.to(), ARCHIVE);
    assert_eq!(reports.len(), 1, "{reports:?}");
    stage.check_untouched();
}

#[test]
fn link_followed_by_directory_of_same_name_stays_inside() {
    let stage = Stage::new();
    let target = stage.outside();
    let target = target.to_str().expect("text");
    let root = directory(
        1,
        &[
            (b"d", link(2, target)),
            (b"d", directory(3, &[(b"new", file(4, b"evil"))])),
            (b"f", link(5, &format!("{target}/precious"))),
            (b"f", file(6, b"evil")),
        ],
    );
    let reports = extract(root, &stage.to(), ARCHIVE);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(fs::symlink_metadata(stage.to().join("d")).expect("a link").is_symlink());
    assert_eq!(fs::read(stage.to().join("f")).expect("a file"), b"evil");
    stage.check_untouched();
}

#[test]
fn existing_links_are_not_followed() {
    let stage = Stage::new();
    symlink(stage.outside(), stage.to().join("d")).expect("a link");
    symlink(stage.outside().join("precious"), stage.to().join("f")).expect("a link");
    let inner = directory(2, &[(b"precious", file(3, b"evil"))]);
    let root = directory(1, &[(b"d", inner), (b"f", file(4, b"good"))]);
    let reports = extract(root, &stage.to(), ARCHIVE);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert_eq!(fs::read(stage.to().join("f")).expect("a file"), b"good");
    stage.check_untouched();
}

#[test]
fn hard_link_is_not_made_through_a_replaced_directory() {
    let stage = Stage::new();
    let mut linked = (*file(7, b"linked")).clone();
    linked.facts.links = 3;
    let linked = Arc::new(linked);
    let first = directory(2, &[(b"a", linked.clone())]);
    let root = directory(1, &[(b"d", first), (b"b", linked.clone()), (b"c", linked)]);
    assert_eq!(extract(root, &stage.to(), ARCHIVE), [""; 0]);
    let inode = |name: &str| fs::metadata(stage.to().join(name)).expect("a file").ino();
    assert_eq!((inode("b"), inode("c")), (inode("d/a"), inode("d/a")));
}

#[test]
fn directory_inside_itself_ends() {
    let stage = Stage::new();
    let inner = directory(1, &[]);
    let root = directory(1, &[(b"again", directory(2, &[(b"again", inner)]))]);
    let reports = extract(root, &stage.to(), ARCHIVE);
    assert!(reports.iter().any(|report| report.contains("its own ancestor")), "{reports:?}");
}

#[test]
fn deep_trees_need_no_stack() {
    let stage = Stage::new();
    let mut deep = directory(1000, &[]);
    for inode in (1..200).rev() {
        deep = directory(inode, &[(b"d", deep)]);
    }
    assert_eq!(extract(deep, &stage.to(), ARCHIVE), [""; 0]);
}

/// Checks I3 of `xfs_cli::export::host`: the directory has the right times and permissions,
/// although files were created in it.
#[test]
fn archive_copy_keeps_all_properties() {
    let stage = Stage::new();
    let old = Time { seconds: -300_000_000, nanoseconds: 123_456_789 };
    let mut sparse = (*file(2, b"head")).clone();
    sparse.facts =
        Facts { size: 64 << 20, mode: 0o104_755, modified: old, accessed: old, ..sparse.facts };
    sparse.contents.insert(32 << 20, b"middle".to_vec());
    sparse.attributes =
        vec![NamedValue { name: b"user.comment".to_vec(), value: b"\0hi".to_vec() }];
    let pipe = MemoryFile { facts: facts(3, 0o010_620), ..MemoryFile::default() };
    let mut root = (*directory(
        1,
        &[
            (b"sparse", Arc::new(sparse)),
            (b"pipe", Arc::new(pipe)),
            (b"link", link(4, "../nowhere")),
            (b"\xff\n", file(5, b"odd")),
        ],
    ))
    .clone();
    root.facts.mode = 0o040_500;
    root.facts.modified = old;
    assert_eq!(extract(Arc::new(root), &stage.to(), ARCHIVE), [""; 0]);
    let sparse = fs::metadata(stage.to().join("sparse")).expect("a file");
    assert_eq!((sparse.len(), sparse.mode()), (64 << 20, 0o104_755));
    assert_eq!((sparse.mtime(), sparse.mtime_nsec()), (old.seconds, 123_456_789));
    assert!(sparse.blocks() * 512 < 1 << 20, "holes are kept");
    let contents = fs::read(stage.to().join("sparse")).expect("a file");
    assert_eq!(&contents[..5], b"head\0");
    assert_eq!(&contents[32 << 20..(32 << 20) + 7], b"middle\0");
    let mut value = [0; 8];
    let length = rustix::fs::getxattr(stage.to().join("sparse"), "user.comment", &mut value);
    assert_eq!(&value[..length.expect("an attribute")], b"\0hi");
    let pipe = fs::metadata(stage.to().join("pipe")).expect("a pipe");
    assert!(pipe.file_type().is_fifo());
    assert_eq!(pipe.permissions().mode() & 0o7777, 0o620);
    let target = fs::read_link(stage.to().join("link")).expect("a link");
    assert_eq!(target, Path::new("../nowhere"));
    assert!(stage.to().join(OsStr::from_bytes(b"\xff\n")).exists());
    let root = fs::metadata(stage.to()).expect("a directory");
    assert_eq!((root.mode() & 0o7777, root.mtime()), (0o500, old.seconds));
    fs::set_permissions(stage.to(), fs::Permissions::from_mode(0o700)).expect("a mode");
}

#[test]
fn file_that_fails_midway_leaves_nothing() {
    let stage = Stage::new();
    let mut bad = (*file(2, &[7; 4 << 20])).clone();
    bad.fails_at = Some(2 << 20);
    let root = directory(1, &[(b"bad", Arc::new(bad)), (b"good", file(3, b"good"))]);
    let reports = extract(root, &stage.to(), ARCHIVE);
    assert_eq!(reports.len(), 1, "{reports:?}");
    let names: Vec<_> = fs::read_dir(stage.to())
        .expect("a directory")
        .map(|e| e.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["good"]);
}

#[test]
fn second_run_replaces_or_keeps_files_as_requested() {
    let stage = Stage::new();
    let root = |contents: &[u8]| directory(1, &[(b"f", file(2, contents))]);
    assert_eq!(extract(root(b"one"), &stage.to(), ARCHIVE), [""; 0]);
    assert_eq!(extract(root(b"two"), &stage.to(), ARCHIVE), [""; 0]);
    assert_eq!(fs::read(stage.to().join("f")).expect("a file"), b"two");
    let keep = Fidelity { existing: Existing::Keep, ..ARCHIVE };
    let reports = extract(root(b"three"), &stage.to(), keep);
    assert!(reports[0].contains("exists already"), "{reports:?}");
    assert_eq!(fs::read(stage.to().join("f")).expect("a file"), b"two");
}

#[test]
fn directory_is_not_replaced_by_a_file() {
    let stage = Stage::new();
    fs::create_dir(stage.to().join("f")).expect("a directory");
    let reports = extract(directory(1, &[(b"f", file(2, b"x"))]), &stage.to(), ARCHIVE);
    assert!(reports[0].contains("cannot replace"), "{reports:?}");
    assert!(stage.to().join("f").is_dir());
}
