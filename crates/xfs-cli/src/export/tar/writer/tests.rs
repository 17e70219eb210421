use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::TarWriter;
use crate::failure::Failure;
use crate::file::facts::{Facts, Time};
use crate::file::memory::{MemoryFile, directory, facts, file, link};
use crate::file::source::NamedValue;

fn archive(source: Arc<MemoryFile>, path: &str) -> (Vec<u8>, Vec<String>) {
    let (mut bytes, mut reports) = (Vec::new(), Vec::new());
    let mut report = |failure: Failure| reports.push(failure.to_string());
    TarWriter::new(&mut bytes, &mut report).write(source, path.as_bytes()).expect("writes");
    (bytes, reports)
}

/// Extracts an archive with GNU tar into the directory `to`, and checks that GNU tar prints
/// nothing.
fn extract(bytes: &[u8], to: &Path) {
    let file = to.join("archive.tar");
    fs::write(&file, bytes).expect("a file");
    let output = Command::new("tar")
        .args(["-x", "-p", "--xattrs", "--xattrs-include=user.*", "--warning=no-timestamp", "-f"])
        .arg(&file)
        .arg("-C")
        .arg(to)
        .output()
        .expect("tar runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    fs::remove_file(file).expect("removes");
}

#[test]
fn gnu_tar_reads_everything_back() {
    let to = tempfile::tempdir().expect("a directory");
    let old = Time { seconds: -300_000_001, nanoseconds: 876_543_211 };
    let mut plain = (*file(2, b"contents")).clone();
    plain.facts = Facts { mode: 0o100_640, modified: old, links: 2, ..plain.facts };
    plain.attributes =
        vec![NamedValue { name: b"user.a=b%c".to_vec(), value: b"\0value\n".to_vec() }];
    let plain = Arc::new(plain);
    let long = "n".repeat(250);
    let odd = b"\xff\n odd".as_slice();
    let root = directory(
        1,
        &[
            (b"plain", plain.clone()),
            (b"again", plain),
            (long.as_bytes(), file(3, b"long")),
            (odd, file(4, b"odd")),
            (b"link", link(5, &"t".repeat(300))),
            (b"pipe", Arc::new(MemoryFile { facts: facts(6, 0o010_600), ..MemoryFile::default() })),
        ],
    );
    let (bytes, reports) = archive(root, "root");
    assert_eq!(reports, [""; 0]);
    extract(&bytes, to.path());
    let root = to.path().join("root");
    let plain = fs::metadata(root.join("plain")).expect("a file");
    assert_eq!(fs::read(root.join("plain")).expect("a file"), b"contents");
    assert_eq!((plain.mode() & 0o7777, plain.nlink()), (0o640, 2));
    assert_eq!((plain.mtime(), plain.mtime_nsec()), (old.seconds, 876_543_211));
    assert_eq!(fs::metadata(root.join("again")).expect("a file").ino(), plain.ino());
    let mut value = [0; 16];
    let length = rustix::fs::getxattr(root.join("plain"), "user.a=b%c", &mut value);
    assert_eq!(&value[..length.expect("an attribute")], b"\0value\n");
    assert_eq!(fs::read(root.join(long)).expect("a file"), b"long");
    assert_eq!(fs::read(root.join(OsStr::from_bytes(odd))).expect("a file"), b"odd");
    assert_eq!(fs::read_link(root.join("link")).expect("a link").as_os_str().len(), 300);
    assert!(fs::metadata(root.join("pipe")).expect("a pipe").file_type().is_fifo());
}

#[track_caller]
fn check_sparse(size: u64, contents: &[(u64, usize)]) {
    let to = tempfile::tempdir().expect("a directory");
    let mut sparse = MemoryFile { facts: facts(2, 0o100_644), ..MemoryFile::default() };
    sparse.facts.size = size;
    let mut expected = vec![0; size as usize];
    for &(offset, length) in contents {
        sparse.contents.insert(offset, vec![7; length]);
        let length = length.min((size - offset) as usize);
        expected[offset as usize..offset as usize + length].fill(7);
    }
    let name = "s".repeat(120);
    let (bytes, reports) = archive(directory(1, &[(name.as_bytes(), Arc::new(sparse))]), "d");
    assert_eq!(reports, [""; 0]);
    extract(&bytes, to.path());
    let path = to.path().join("d").join(name);
    assert!(fs::read(&path).expect("a file") == expected, "{contents:?}");
    let stored: usize = contents.iter().map(|(_, length)| length).sum();
    assert!(bytes.len() < stored + 16_384, "holes are not stored");
}

#[test]
fn sparse_files_stay_sparse() {
    check_sparse(1 << 20, &[]);
    check_sparse(1 << 20, &[(0, 4096)]);
    check_sparse(1 << 20, &[(1 << 19, 4096)]);
    check_sparse((1 << 20) - 5, &[(0, 4096), ((1 << 20) - 4096, 4096)]);
    check_sparse(3 << 20, &[(65_536, 1 << 20), (2 << 20, 4096)]);
}

/// Checks I1 of `xfs_cli::export::tar::writer`: the archive is well-formed even if a file cannot be
/// read to its end.
#[test]
fn unreadable_file_does_not_end_the_archive() {
    let to = tempfile::tempdir().expect("a directory");
    let mut bad = (*file(2, &[7; 3 << 20])).clone();
    bad.fails_at = Some(1 << 20);
    let root = directory(1, &[(b"bad", Arc::new(bad)), (b"good", file(3, b"good"))]);
    let (bytes, reports) = archive(root, "d");
    assert_eq!(reports.len(), 1, "{reports:?}");
    extract(&bytes, to.path());
    assert_eq!(fs::metadata(to.path().join("d/bad")).expect("a file").len(), 3 << 20);
    assert_eq!(fs::read(to.path().join("d/good")).expect("a file"), b"good");
}

#[test]
fn hostile_names_and_cycles_are_left_out() {
    let cycle = directory(1, &[]);
    let root =
        directory(1, &[(b"..", file(2, b"x")), (b"a/../../b", file(3, b"x")), (b"cycle", cycle)]);
    let (bytes, reports) = archive(root, "d");
    assert_eq!(reports.len(), 3, "{reports:?}");
    let names: Vec<_> = tar::Archive::new(bytes.as_slice())
        .entries()
        .expect("entries")
        .map(|entry| entry.expect("an entry").path().expect("a path").into_owned())
        .collect();
    assert_eq!(names, [Path::new("d/")]);
}
