//! Tests of commands that walk a tree: a failure for one file does not stop the work on the other
//! files.

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::raw::format::BlockKind;
use ferroxfs::{CreateOptions, NewKind, OpenOptions, SetAttributes, Volume};

use xfs_testkit::golden;

use crate::changing::VolumeDir;
use crate::{shared, transcript};

fn set_flags(place: &VolumeDir, path: &str, flags: ExtendedFlags) {
    let volume = OpenOptions::new().write(true).open(place.path("image")).unwrap();
    let changes = SetAttributes::new().xflags(flags);
    volume.lookup_no_follow(path).unwrap().set_attributes(&changes).unwrap();
    volume.close().unwrap();
}

/// Returns a volume with a tree `/t`, in which `/t/a/sealed` and `/t/c/sealed` are immutable.
fn sealed() -> VolumeDir {
    let place = VolumeDir::new();
    place.check(&["mkdir", "-p", "image:/t/a/deep", "image:/t/b", "image:/t/c", "image:/kept"]);
    for file in ["t/a/1", "t/a/sealed", "t/a/deep/2", "t/b/3", "t/c/sealed", "t/c/4", "kept/5"] {
        place.put(&format!("image:/{file}"), b"x");
    }
    place.check(&["ln", "-s", "/kept", "image:/t/b/link"]);
    for file in ["/t/a/sealed", "/t/c/sealed"] {
        set_flags(&place, file, ExtendedFlags::IMMUTABLE);
    }
    place
}

/// Runs a command, and checks that it fails only for the two immutable files.
#[track_caller]
fn check_refused_for_two(place: &VolumeDir, arguments: &[&str]) {
    let output = place.command(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    let expected = ["a", "c"]
        .map(|name| format!("ferroxfs: image: /t/{name}/sealed: operation not permitted"));
    assert_eq!(lines, expected, "{arguments:?}");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
}

#[test]
fn tree_change_continues_after_a_failure() {
    let place = sealed();
    let all_but_two = ["-mindepth", "1", "!", "-name", "sealed", "!", "-type", "l"];
    let count = |question: &[&str]| -> usize {
        let both = [&all_but_two[..], question, &["-printf", "x"]].concat();
        place.check(&[&["find", "image:/t"], &both[..]].concat()).len()
    };
    assert_eq!(count(&[]), 8);
    check_refused_for_two(&place, &["chmod", "-R", "700", "image:/t"]);
    assert_eq!(count(&["-perm", "700"]), 8);
    check_refused_for_two(&place, &["chown", "-R", "5", "image:/t"]);
    assert_eq!(count(&["-uid", "5"]), 8);
    check_refused_for_two(&place, &["setfacl", "-R", "-m", "u:9:r", "image:/t"]);
    assert_eq!(count(&["-xattr", "system.posix_acl_access"]), 8);
    assert_eq!(place.check(&["find", "image:/kept", "-perm", "700", "-o", "-uid", "5"]), "");
    // With several paths, the failure of one does not stop the others.
    place.check_failure(&["chmod", "-R", "711", "image:/none", "image:/t/b"], 1, "/none: no such");
    assert!(place.fact("image:/t/b/3", "Access:").contains("0711"));
}

#[test]
fn unremovable_file_stays_with_its_directories() {
    let place = sealed();
    check_refused_for_two(&place, &["rm", "-r", "image:/t"]);
    assert_eq!(place.check(&["find", "image:/t"]), "/t\n/t/a\n/t/a/sealed\n/t/c\n/t/c/sealed\n");
    assert_eq!(place.check(&["cat", "image:/kept/5"]), "x");
    for file in ["/t/a/sealed", "/t/c/sealed"] {
        set_flags(&place, file, ExtendedFlags::empty());
    }
    place.check(&["rm", "-r", "image:/t"]);
    assert_eq!(place.check(&["ls", "image"]), "kept\n");
    place.check(&["log", "image"]);
}

#[test]
fn link_that_is_named_is_removed_alone() {
    let place = sealed();
    place.check_failure(&["rm", "-r", "image:/t/b/link/"], 1, "not a directory");
    place.check(&["rm", "-r", "image:/t/b/link"]);
    assert_eq!(place.check(&["find", "image:/kept"]), "/kept\n/kept/5\n");
}

/// Checks that a directory of 3000 entries and a chain of 3000 directories are changed and removed
/// whole.
#[test]
fn wide_and_deep_trees_are_changed_and_removed_whole() {
    const DEPTH: usize = 3000;
    let place = VolumeDir::new();
    let volume = OpenOptions::new().write(true).open(place.path("image")).unwrap();
    let creation = CreateOptions::new(0o755);
    let wide = volume.root().unwrap().create("wide", &NewKind::Directory, &creation).unwrap();
    for number in 0..3000 {
        let kind = if number % 3 == 0 { NewKind::Directory } else { NewKind::Regular };
        let made = wide.create(format!("entry-{number}"), &kind, &creation).unwrap();
        if number % 6 == 0 {
            made.create("one", &NewKind::Regular, &creation).unwrap();
        }
    }
    let mut deep = volume.root().unwrap().create("deep", &NewKind::Directory, &creation).unwrap();
    for _ in 0..DEPTH {
        deep = deep.create("d", &NewKind::Directory, &creation).unwrap();
    }
    drop((wide, deep));
    volume.close().unwrap();
    place.check(&["chmod", "-R", "700", "image:/wide", "image:/deep"]);
    let count = |place: &VolumeDir| {
        place.check(&["find", "image:/wide", "image:/deep", "-perm", "700", "-printf", "x"]).len()
    };
    assert_eq!(count(&place), 3001 + 500 + DEPTH + 1);
    place.check(&["rm", "-r", "image:/wide", "image:/deep"]);
    assert_eq!(place.check(&["ls", "image"]), "");
}

/// Checks that `chmod -R` and `rm -r` report a cycle of directories and end: each directory is
/// entered once.
#[test]
fn directories_that_form_a_cycle_end_a_change() {
    // The last directory of the chain is empty; its parent's entry is changed to lead to the top.
    let whole = Volume::open(shared().path().join("image")).unwrap();
    let (top, low) = (whole.lookup("/deep").unwrap(), whole.lookup("/deep/1/2/3").unwrap());
    let victim = whole.lookup("/deep/1/2/3/4").unwrap();
    let place = whole.geometry().inode_location(low.number()).unwrap();
    let (start, length) = (place.offset_bytes as usize, place.cluster_bytes as usize);
    let old = u32::try_from(victim.number().0).unwrap().to_be_bytes();
    let new = u32::try_from(top.number().0).unwrap().to_be_bytes();
    let mut image = golden();
    image.edit(place.cluster, length, BlockKind::InodeCluster, |cluster| {
        let inode = &mut cluster[start..start + 512];
        let at = (176..508).find(|at| inode[*at..at + 4] == old).unwrap();
        inode[at..at + 4].copy_from_slice(&new);
    });
    let place = crate::GoldenDir::with(&image);
    for arguments in [&["chmod", "-R", "711", "image:/deep"][..], &["rm", "-r", "image:/deep"]] {
        let said = transcript(&place.run(arguments));
        assert!(said.contains("/deep/1/2/3/4: "), "{said}");
        assert!(said.contains("its own ancestor") && said.ends_with("exit 5\n"), "{said}");
        let found = place.run(&["find", "image:/deep/1/2/3", "-maxdepth", "0", "-perm", "711"]);
        assert_eq!(transcript(&found), "/deep/1/2/3\n");
    }
}

/// Checks that `chown -R` changes a symbolic link that is its argument, and not the target of the
/// link, as chown(1) does. In contrast, `chmod -R` must follow such a link, as chmod(1) and
/// setfacl(1) do.
#[test]
fn link_that_is_named_gets_an_owner_itself() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.check(&["touch", "image:/d/f"]);
    place.check(&["ln", "-s", "d", "image:/link"]);
    let owned = || place.check(&["find", "image", "-uid", "7", "-printf", "%p "]);
    place.check(&["chown", "-R", "7", "image:/link"]);
    assert_eq!(owned(), "/link ");
    place.check(&["chown", "-R", "7", "image:/link/"]);
    assert_eq!(owned(), "/d /d/f /link ");
    place.check(&["chmod", "-R", "700", "image:/link"]);
    assert_eq!(place.check(&["find", "image", "-perm", "700", "-printf", "%p "]), "/d /d/f ");
}
