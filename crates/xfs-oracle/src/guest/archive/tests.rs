//! Tests of the archives: cpio lists and unpacks them.

use std::process::{Command, Stdio};

use super::Archive;

/// Makes an archive with a folder, two files and a link. Unpacks it with the program cpio, if there
/// is one, and compares the contents.
#[test]
fn archive_is_unpacked_by_cpio() {
    if Command::new("cpio").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: there is no cpio");
        return;
    }
    let mut archive = Archive::default();
    archive.add_folder("d");
    archive.add_file("d/abc", 0o644, b"12345");
    archive.add_file("d/empty", 0o755, b"");
    archive.add_link("l", "d/abc");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("archive");
    std::fs::write(&path, archive.finish()).expect("the archive is written");
    let input = std::fs::File::open(&path).expect("the archive is there");
    let mut cpio = Command::new("cpio");
    cpio.args(["-i", "--quiet"]).current_dir(folder.path()).stdin(input);
    assert!(cpio.status().expect("cpio runs").success());
    let read = |name: &str| std::fs::read(folder.path().join(name)).expect("the file is there");
    assert_eq!(read("d/abc"), b"12345");
    assert_eq!(read("d/empty"), b"");
    assert_eq!(read("l"), b"12345");
}
