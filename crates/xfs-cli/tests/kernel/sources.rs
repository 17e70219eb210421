//! Tests that the kernel shows the same tree of a volume as the programs that unpack its source,
//! and that the filesystem of a source has no effect on the bytes of a volume.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, SeekFrom, XattrFlags, makedev, mknodat, seek};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Image, ready};

use crate::disks::need;
use crate::{check, ferroxfs};

/// A kind of source: its name, the commands that pack the tree and unpack the archive, and whether
/// it keeps holes. The commands run in a folder with the directories `tree` and `out`.
const KINDS: [(&str, &str, &str, bool); 4] = [
    ("directory", "cp -a tree source", "cp -a --sparse=always tree/. out", true),
    (
        "gnu.tar",
        "tar --format=pax --xattrs --xattrs-include='*' --acls --sparse -cf source -C tree .",
        "tar --xattrs --xattrs-include='*' --acls --numeric-owner -xpf source -C out",
        true,
    ),
    (
        "bsd.tar",
        "bsdtar --format pax --xattrs --acls -cf source -C tree .",
        "bsdtar --xattrs --acls --numeric-owner -xpf source -C out",
        true,
    ),
    (
        "cpio",
        "cd tree && find . -print0 | sort -z | cpio --quiet -0 -o -H newc > ../source",
        // GNU cpio sets no times of links, and files change those of their directories again.
        "bsdtar --numeric-owner -xpf source -C out",
        false,
    ),
];

/// Prints everything about the files below the current directory, except holes. XFS also shows
/// access lists under names of its own (`trusted.SGI_ACL_FILE`), which are left out. So is the top:
/// bsdtar leaves a directory as it is that exists.
const SHOW: &str = "find . -mindepth 1 ! -type d -printf '%P %M %U %G %s %n %l %T@\\n' | sort; \
                    find . -mindepth 1 -type d -printf '%P %M %U %G %T@\\n' | sort; \
                    find . -type f -exec md5sum {} + | sort; \
                    getfattr -Rdhm '^(user|system|security|trusted.note)' . | sort; stat -c '%n %t %T' dev/null dev/loop";

fn make_tree(tree: &Path) -> std::io::Result<()> {
    fs::create_dir_all(tree.join("dir/deep"))?;
    fs::create_dir_all(tree.join("dev"))?;
    fs::write(tree.join("file"), "contents\n")?;
    fs::write(tree.join("dir/large"), vec![7; 3 << 20])?;
    fs::write(tree.join("dir/n\u{e9}w\nline"), "odd name")?;
    fs::hard_link(tree.join("file"), tree.join("dir/second"))?;
    symlink("../file", tree.join("dir/link"))?;
    symlink("x".repeat(900), tree.join("dir/long"))?;
    let sparse = File::create(tree.join("sparse"))?;
    for island in [0, 5, 90] {
        sparse.write_all_at(&[1; 8192], island << 16)?;
    }
    sparse.set_len(20 << 20)?;
    for (name, kind, device) in [
        ("dev/null", FileType::CharacterDevice, makedev(1, 3)),
        ("dev/loop", FileType::BlockDevice, makedev(7, 250)),
        ("dev/pipe", FileType::Fifo, 0),
    ] {
        mknodat(CWD, tree.join(name), kind, Mode::from_raw_mode(0o640), device)?;
    }
    rustix::fs::setxattr(tree.join("file"), "user.note", b"kept", XattrFlags::empty())?;
    rustix::fs::setxattr(tree.join("dir"), "trusted.note", b"\0\xff", XattrFlags::empty())?;
    std::os::unix::fs::chown(tree.join("dir/large"), Some(70_000), Some(5))?;
    fs::set_permissions(tree.join("dir/large"), fs::Permissions::from_mode(0o4755))?;
    fs::set_permissions(tree.join("dir/deep"), fs::Permissions::from_mode(0o1777))?;
    Ok(())
}

fn shell(place: &Path, script: &str) -> String {
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script]).current_dir(place).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the ranges with data of a file, in units of 4096 bytes.
fn data(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let (mut ranges, mut offset) = (Vec::new(), 0);
    while let Ok(start) = seek(&file, SeekFrom::Data(offset)) {
        let end = seek(&file, SeekFrom::Hole(start)).unwrap();
        ranges.push((start / 4096, end.div_ceil(4096)));
        offset = end;
    }
    ranges
}

/// Makes a volume of a source, and calls `look` with its mount.
fn mounted(
    place: &Path,
    source: &Path,
    name: &str,
    look: impl FnOnce(&Path),
) -> Result<(), TrialError> {
    let data = place.join(format!("{name}.img"));
    let from = source.to_str().expect("the folder has a plain name");
    let arguments = ["mkfs", "-q", "-d", "size=320m", "--from", from];
    check(&arguments, &ferroxfs(&arguments, &data), &[0])?;
    let image = Image { data, log: None, realtime: None };
    if let Some(findings) = image.findings()? {
        return Err(TrialError::Failed(format!("{name}: {findings}")));
    }
    let mount = image.mount(&["ro"])?;
    look(mount.path());
    mount.unmount()?;
    Ok(())
}

/// Checks each kind of source.
pub(crate) fn are_shown_as_their_extractors_make_them() -> Result<(), TrialError> {
    ready()?;
    need(&["tar", "bsdtar", "cpio", "setfacl", "getfattr"])?;
    for (name, pack, unpack, keeps_holes) in KINDS {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let place = folder.path();
        make_tree(&place.join("tree")).unwrap();
        shell(place, "setfacl -m u:1000:rw,g:7:r tree/file; setfacl -d -m u:9:rwx tree/dir");
        shell(
            place,
            "find tree -depth -exec touch -h -d '2001-02-03 04:05:06.789' {} +; mkdir out",
        );
        shell(place, pack);
        shell(place, unpack);
        let expected = shell(&place.join("out"), SHOW);
        mounted(place, &place.join("source"), name, |mount| {
            assert_eq!(shell(mount, SHOW), expected, "{name}");
            if keeps_holes {
                let holes = data(&place.join("out/sparse"));
                assert_eq!(data(&mount.join("sparse")), holes, "{name}: holes");
            }
        })?;
        assert!(expected.lines().count() > 20, "{name}: {expected}");
    }
    Ok(())
}

/// Makes the same volume of a tree on the filesystem of the host, on one in memory, and on an XFS
/// volume that the kernel has mounted.
pub(crate) fn have_no_effect_of_their_filesystem() -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let place = folder.path();
    let tree = place.join("tree");
    make_tree(&tree).unwrap();
    let make = |from: &Path, name: &str| -> Result<Vec<u8>, TrialError> {
        let data = place.join(name);
        let from = from.to_str().expect("the folder has a plain name");
        let fixed = ["mkfs", "-q", "-d", "size=300m", "--time", "1700000000", "--from", from];
        check(&fixed, &ferroxfs(&fixed, &data), &[0])?;
        Ok(fs::read(data).unwrap())
    };
    let expected = make(&tree, "of-host")?;
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let copy = memory.path().join("tree");
    shell(place, &format!("cp -a tree {}", copy.display()));
    assert!(make(&copy, "of-memory")? == expected, "a tree in memory");
    let mut made = Ok(Vec::new());
    mounted(place, &tree, "mounted", |mount| made = make(mount, "of-xfs"))?;
    assert!(made? == expected, "a tree on XFS");
    Ok(())
}
