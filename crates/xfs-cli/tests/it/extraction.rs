//! Tests of copying files out of an image with `cp` and `tar`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::{GoldenDir, shared, transcript};

/// Lists a directory with the facts that must be the same after `cp` and after extracting a tar
/// archive.
fn listing(root: &Path) -> String {
    let format = "%P %y %m %s %n %T@ %l\\n";
    let mut find = Command::new("find");
    find.arg(root).args(["-mindepth", "1", "!", "-type", "d", "-printf", format]);
    // The size and the link count of a directory depend on the host.
    find.args(["-o", "-mindepth", "1", "-printf", "%P %y %m %T@\\n"]);
    let output = output_of(&mut find);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn one_file_goes_to_standard_output_or_under_a_name() {
    let place = GoldenDir::new();
    let output = place.run(&["cp", "image:/short/bb", "-"]);
    assert_eq!(transcript(&output), "bb\n");
    assert!(place.run(&["cp", "image:/short/bb", "new"]).status.success());
    assert_eq!(fs::read(place.path().join("new")).unwrap(), b"bb\n");
    assert_eq!(place.run(&["cp", "image:/short", "other"]).status.code(), Some(1));
    assert_eq!(place.run(&["cp", "-n", "image:/short/ccc", "new"]).status.code(), Some(1));
    assert!(place.run(&["cp", "image:/short/ccc", "new"]).status.success());
    assert_eq!(fs::read(place.path().join("new")).unwrap(), b"ccc\n");
}

#[test]
fn directory_is_copied_into_an_existing_one_or_under_a_new_name() {
    let place = GoldenDir::new();
    fs::create_dir(place.path().join("there")).unwrap();
    let copy = |arguments: &[&str]| {
        let all = [&["cp", "-a", "--ignore-owner"], arguments].concat();
        let output = place.run(&all);
        assert!(output.status.success(), "{}", transcript(&output));
    };
    copy(&["image:/deep", "there"]);
    copy(&["image:/deep", "new"]);
    assert!(place.path().join("there/deep/1/2/3").is_dir());
    assert!(place.path().join("new/1/2/3").is_dir());
}

#[test]
fn whole_volume_is_equal_by_cp_and_tar() {
    let place = GoldenDir::new();
    for directory in ["short", "leaf", "node", "many", "attr-short", "links-remote", "acl"] {
        let address = format!("image:/{directory}");
        fs::create_dir_all(place.path().join("cp")).unwrap();
        fs::create_dir_all(place.path().join("tar")).unwrap();
        let output = place.run(&["cp", "-a", "--ignore-owner", &address, "cp"]);
        assert!(output.status.success(), "{directory}: {}", transcript(&output));
        let archive = format!("{directory}.tar");
        let output = place.run(&["tar", &address, "-o", &archive]);
        assert!(output.status.success(), "{directory}: {}", transcript(&output));
        let mut tar = Command::new("tar");
        tar.args(["-xpf", &archive, "--no-same-owner", "-C", "tar"]).current_dir(place.path());
        output_of(&mut tar);
    }
    let (cp, tar) = (place.path().join("cp"), place.path().join("tar"));
    assert_eq!(listing(&cp), listing(&tar));
    output_of(Command::new("diff").args(["-r", "--no-dereference"]).arg(&cp).arg(&tar));
}

#[test]
fn holes_are_kept() {
    let place = GoldenDir::new();
    assert!(
        place.run(&["cp", "-a", "--ignore-owner", "image:/files/sparse", "."]).status.success()
    );
    let sparse = fs::metadata(place.path().join("sparse")).unwrap();
    assert_eq!(sparse.len(), 1 << 20);
    assert!(sparse.blocks() * 512 <= 64 << 10);
}

/// A directory whose files lose the flags immutable and append-only on drop, so that they can be
/// removed.
struct MadeMutable(std::path::PathBuf);

impl Drop for MadeMutable {
    fn drop(&mut self) {
        // Only root can have set them, and the host may not support such flags.
        let mut chattr = Command::new("chattr");
        chattr.args(["-R", "-f", "-i", "-a"]).arg(&self.0).stderr(Stdio::null());
        _ = chattr.status();
    }
}

#[test]
fn file_too_large_for_the_host_leaves_nothing() {
    let place = GoldenDir::new();
    fs::create_dir(place.path().join("to")).unwrap();
    let _mutable = MadeMutable(place.path().join("to"));
    let output = place.run(&["cp", "-a", "--ignore-owner", "image:/files", "to"]);
    // If the host can store 7 EiB of holes, the copy succeeds; otherwise only that file is missing.
    let names: Vec<_> = fs::read_dir(place.path().join("to/files")).unwrap().collect();
    let expected = if output.status.success() { 7 } else { 6 };
    assert!(names.len() >= expected - 1, "{}", transcript(&output));
    let strays = names
        .iter()
        .flatten()
        .filter(|name| name.file_name().to_string_lossy().starts_with(".ferroxfs"));
    assert_eq!(strays.count(), 0);
}

#[test]
fn incomplete_archive_is_reported() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
        .args(["tar", "image:/node"])
        .current_dir(shared().path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_ne!(child.wait().unwrap().code(), Some(0));
}
