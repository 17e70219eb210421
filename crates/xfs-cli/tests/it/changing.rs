//! Tests of the commands that write into an image.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::fs::{Mode, XattrFlags};
use tempfile::TempDir;

/// A directory that holds a new volume in the file `image`.
pub(crate) struct VolumeDir(TempDir);

impl VolumeDir {
    pub(crate) fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        place.make("image");
        place
    }

    pub(crate) fn make(&self, image: &str) {
        self.check(&[
            "mkfs",
            "-q",
            "-d",
            "size=320m",
            "-m",
            "uuid=0123abcd-0123-4567-89ab-0123456789ab",
            image,
        ]);
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
        command.args(arguments).current_dir(self.0.path());
        command.env("TZ", "UTC").env("SOURCE_DATE_EPOCH", "1700000000");
        command.env_remove("DETERMINISTIC_SEED");
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).stdin(Stdio::null()).output().expect("the program runs")
    }

    /// Runs a command, checks that it succeeds and prints nothing on standard error, and returns
    /// its output.
    #[track_caller]
    pub(crate) fn check(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn check_failure(&self, arguments: &[&str], code: i32, message: &str) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
    }

    #[track_caller]
    pub(crate) fn put(&self, address: &str, contents: &[u8]) {
        let mut child =
            self.command(&["put", address]).stdin(Stdio::piped()).spawn().expect("it starts");
        child.stdin.take().unwrap().write_all(contents).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Returns the value of one fact of a file, as `stat` prints it.
    #[track_caller]
    pub(crate) fn fact(&self, address: &str, fact: &str) -> String {
        let text = self.check(&["stat", address]);
        let found = text.split_whitespace().skip_while(|word| *word != fact).nth(1);
        found.unwrap_or_else(|| panic!("no {fact} in {text}")).to_owned()
    }
}

#[test]
fn put_contents_are_read_by_get() {
    let place = VolumeDir::new();
    place.put("image:/file", b"hello\n");
    assert_eq!(place.check(&["get", "image:/file"]), "hello\n");
    assert_eq!(place.check(&["cat", "image:/file"]), "hello\n");
    place.put("image:/file", b"less");
    assert_eq!(place.check(&["get", "image:/file"]), "less");
    let long: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    place.put("image:/file", &long);
    place.check(&["get", "-o", "out", "image:/file"]);
    assert!(fs::read(place.path("out")).unwrap() == long);
    place.check(&["log", "image"]);
    place.check_failure(&["get", "image:/nothing"], 1, "no such file");
    place.check_failure(&["put", "image:/nothing/file"], 1, "no such file");
}

#[test]
fn directories_are_made_and_removed() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/a", "image:/b"]);
    place.check(&["mkdir", "-p", "-m", "700", "image:/a/deep/er", "image:/b"]);
    assert!(place.fact("image:/a/deep/er", "Access:").contains("0700"));
    place.check_failure(&["mkdir", "image:/a"], 1, "exists");
    place.check_failure(&["mkdir", "image:/c/d"], 1, "no such file");
    place.check_failure(&["mkdir", "-m", "9", "image:/c"], 2, "is not a mode");
    place.check_failure(&["rm", "image:/a"], 1, "-r");
    place.put("image:/a/deep/file", b"x");
    place.check(&["rm", "-r", "image:/a"]);
    assert_eq!(place.check(&["ls", "image"]), "b\n");
    place.check_failure(&["rm", "image:/a"], 1, "no such file");
    place.check(&["rm", "-f", "image:/a"]);
    place.check_failure(&["rm", "-r", "image:/"], 2, "root");
}

#[test]
fn failure_of_one_path_does_not_stop_the_others() {
    let place = VolumeDir::new();
    place.check_failure(&["mkdir", "image:/a", "image:/x/y", "image:/b"], 1, "/x/y");
    assert_eq!(place.check(&["ls", "image"]), "a\nb\n");
}

#[test]
fn files_are_moved_linked_and_exchanged() {
    let place = VolumeDir::new();
    place.put("image:/one", b"1");
    place.put("image:/two", b"2");
    place.check(&["mkdir", "image:/sub"]);
    place.check(&["mv", "image:/one", "image:/uno"]);
    place.check_failure(&["mv", "-n", "image:/uno", "image:/two"], 1, "exists");
    place.check(&["mv", "--exchange", "image:/uno", "image:/two"]);
    assert_eq!(place.check(&["cat", "image:/uno", "image:/two"]), "21");
    place.check(&["mv", "image:/uno", "image:/two", "image:/sub"]);
    place.check_failure(&["mv", "image:/sub", "image:/sub/sub"], 1, "cannot be moved into itself");
    assert_eq!(place.check(&["ls", "image:/sub"]), "two\nuno\n");
    place.check(&["ln", "image:/sub/two", "image:/again"]);
    assert_eq!(place.fact("image:/again", "Links:"), "2");
    place.check(&["ln", "-s", "sub/two", "image:/soft"]);
    assert_eq!(place.check(&["readlink", "image:/soft"]), "sub/two\n");
    assert_eq!(place.check(&["cat", "image:/soft"]), "1");
    place.make("other");
    place.check_failure(&["mv", "image:/again", "other:/x"], 2, "cp -a");
}

#[test]
fn impossible_new_names_are_reported() {
    let place = VolumeDir::new();
    place.put("image:/a", b"a");
    place.check(&["mkdir", "image:/d"]);
    place.check(&["ln", "image:/a", "image:/b"]);
    place.check(&["ln", "image:/a", "image:/d/a"]);
    place.check_failure(&["mv", "image:/a", "image:/b"], 1, "/a: is the same file as /b");
    place.check_failure(&["mv", "image:/a", "image:/d"], 1, "/a: is the same file as /d/a");
    place.check_failure(&["mv", "image:/a", "image:/a"], 1, "/a: is the same file as /a");
    place.check(&["mv", "--exchange", "image:/a", "image:/b"]);
    assert_eq!(place.fact("image:/a", "Links:"), "3");
    place.check_failure(&["ln", "image:/a", "image:/d"], 1, "/d/a: file exists");
    place.check_failure(&["ln", "-s", "x/a", "image:/d"], 1, "/d/a: file exists");
    place.check_failure(&["ln", "-s", "x", "image:/a"], 1, "/a: file exists");
    place.check_failure(
        &["ln", "-s", "/", "image:/d"],
        1,
        "/d: is a directory, and \"/\" is not a name",
    );
    place.check_failure(&["ln", "image:/", "image:/d"], 1, "only one name");
    place.check(&["ln", "-s", "/", "image:/d/root"]);
    assert_eq!(place.check(&["readlink", "image:/d/root"]), "/\n");
}

#[test]
fn permissions_owners_and_times_are_set() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.put("image:/d/f", b"x");
    place.check(&["chmod", "600", "image:/d/f"]);
    assert!(place.fact("image:/d/f", "Access:").contains("0600"));
    place.check(&["chmod", "-R", "go+r,u-w", "image:/d"]);
    assert!(place.fact("image:/d/f", "Access:").contains("0444"));
    place.check_failure(&["chmod", "u+z", "image:/d/f"], 2, "is not a mode");
    place.check(&["chmod", "u+x,g+X", "image:/d/f"]);
    assert!(place.fact("image:/d/f", "Access:").contains("0554"));
    place.check(&["chmod", "a-x,a+X", "image:/d/f"]);
    assert!(place.fact("image:/d/f", "Access:").contains("0444"));
    place.check(&["chmod", "-R", "a=rX,u+w", "image:/d"]);
    assert!(place.check(&["ls", "-la", "image:/d"]).contains("-rw-r--r--"));
    assert!(place.check(&["ls", "-la", "image:/"]).contains("drwxr-xr-x"));
    place.check(&["chown", "-R", "12:34", "image:/d"]);
    assert_eq!(place.check(&["find", "image", "-uid", "12", "-gid", "34"]), "/d\n/d/f\n");
    place.check(&["chown", ":root", "image:/d"]);
    assert_eq!(place.check(&["find", "image:/d", "-maxdepth", "0", "-gid", "0"]), "/d\n");
    place.check_failure(
        &["chown", "nobody-of-this-name", "image:/d"],
        2,
        "neither a user of this host",
    );
    place.check(&["touch", "-d", "2001-02-03T04:05:06", "image:/d/f", "image:/new"]);
    let found = place.check(&["find", "image", "-name", "new", "-printf", "%T@ %s\\n"]);
    assert!(found.starts_with("981173106"), "{found}");
    place.check(&["touch", "-c", "image:/none"]);
    place.check_failure(&["stat", "image:/none"], 1, "no such file");
}

#[test]
fn lengths_and_ranges_are_changed() {
    let place = VolumeDir::new();
    place.check(&["truncate", "-s", "1m", "image:/f"]);
    place.check(&["truncate", "-s", "+4k", "image:/f"]);
    place.check(&["truncate", "-s", "-2k", "image:/f"]);
    let size = |place: &VolumeDir| place.check(&["find", "image:/f", "-printf", "%s %b"]);
    assert_eq!(size(&place), "1050624 0");
    place.check(&["fallocate", "-l", "64k", "image:/f"]);
    assert_eq!(size(&place), "1050624 128");
    place.check(&["fallocate", "-p", "-n", "-o", "16k", "-l", "16k", "image:/f"]);
    assert_eq!(size(&place), "1050624 96");
    place.check(&["fallocate", "-c", "-o", "0", "-l", "16k", "image:/f"]);
    assert_eq!(size(&place), "1034240 64");
    place.check(&["fallocate", "-n", "-o", "2m", "-l", "4k", "image:/f"]);
    assert!(size(&place).starts_with("1034240 "));
    place.check_failure(&["fallocate", "-c", "-p", "-l", "1", "image:/f"], 2, "cannot be used");
    place.check_failure(&["fallocate", "-c", "-l", "1", "image:/f"], 1, "invalid");
    place.check_failure(&["fallocate", "-l", "1g", "image:/too-large"], 1, "no space left");
    let past_the_end = ["fallocate", "-o", "18446744073709551615", "-l", "1", "image:/too-far"];
    place.check_failure(&past_the_end, 1, "too large");
    assert_eq!(place.check(&["ls", "image"]), "f\n");
}

#[test]
fn free_space_goes_back_to_the_host() {
    let place = VolumeDir::new();
    let contents = vec![7; 8 << 20];
    place.put("image:/kept", &contents);
    place.put("image:/gone", &contents);
    place.check(&["rm", "image:/gone"]);
    let blocks = || fs::metadata(place.path("image")).unwrap().blocks() * 512;
    let before = blocks();
    assert_eq!(place.check(&["fstrim", "-v", "-o", "0", "-l", "4k", "image"]), {
        "image: 0 B (0 bytes) trimmed\n"
    });
    place.check(&["fstrim", "-m", "1g", "image"]);
    assert!(blocks().abs_diff(before) < 1 << 20, "{} after {before}", blocks());
    let said = place.check(&["fstrim", "--json", "image"]);
    let bytes: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert!(bytes["trimmed_bytes"].as_u64().unwrap() > 200 << 20, "{said}");
    assert!(blocks() + (7 << 20) < before, "{} of {before} are left", blocks());
    assert!(place.check(&["cat", "image:/kept"]).into_bytes() == contents);
    place.check_failure(&["fstrim", "--live", "image"], 2, "for reading");
}

#[test]
fn attributes_are_set_and_removed() {
    let place = VolumeDir::new();
    place.put("image:/f", b"x");
    place.check(&["setfattr", "-n", "user.text", "-v", "value", "image:/f"]);
    place.check(&["setfattr", "-n", "user.bytes", "-v", "0x00ff", "image:/f"]);
    let shown = place.check(&["getfattr", "-d", "image:/f"]);
    assert!(shown.contains("user.bytes=0sAP8=\nuser.text=\"value\""), "{shown}");
    place.check(&["setfattr", "-x", "user.text", "image:/f"]);
    place.check_failure(&["setfattr", "-x", "user.text", "image:/f"], 1, "no such attribute");
    place.check_failure(&["setfattr", "-n", "user.a", "-v", "0xz", "image:/f"], 2, "value");
    place.check_failure(&["setfattr", "-n", "system.odd", "image:/f"], 1, "");
}

#[test]
fn access_lists_are_set_inherited_and_removed() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d"]);
    place.put("image:/f", b"x");
    place.check(&["setfacl", "-m", "u:1000:rw,g:7:r", "image:/f"]);
    assert_eq!(
        place.check(&["getfacl", "image:/f"]),
        "# file: f\n# owner: 0\n# group: 0\nuser::rw-\nuser:1000:rw-\ngroup::r--\n\
         group:7:r--\nmask::rw-\nother::r--\n\n"
    );
    place.check(&["chmod", "600", "image:/f"]);
    let shown = place.check(&["getfacl", "-c", "image:/f"]);
    assert!(shown.contains("user:1000:rw-\t#effective:---\n"), "{shown}");
    place.check(&["setfacl", "-x", "u:1000", "-n", "image:/f"]);
    place.check(&["setfacl", "-b", "image:/f"]);
    assert_eq!(place.check(&["getfattr", "-m", "-", "image:/f"]), "");
    // Created files inherit a default list, also a copy whose source has none.
    place.check(&["setfacl", "-d", "-m", "u:1000:rwx", "image:/d"]);
    place.check(&["mkdir", "image:/d/sub"]);
    place.put("image:/d/sub/f", b"x");
    let shown = place.check(&["getfacl", "-cR", "image:/d/sub"]);
    let sub = "user::rwx\nuser:1000:rwx\t#effective:r-x\ngroup::r-x\nmask::r-x\nother::r-x\n";
    let default = "default:user::rwx\ndefault:user:1000:rwx\ndefault:group::r-x\n\
                   default:mask::rwx\ndefault:other::r-x\n\n";
    let file = "user::rw-\nuser:1000:rwx\t#effective:r--\ngroup::r-x\t#effective:r--\n\
                mask::r--\nother::r--\n\n";
    assert_eq!(shown, [sub, default, file].concat());
    fs::write(place.path("plain"), "x").unwrap();
    place.check(&["cp", "-a", "plain", "image:/d"]);
    assert_eq!(place.check(&["getfattr", "-m", "-", "image:/d/plain"]), "");
    place.check(&["setfacl", "-R", "-k", "image:/d"]);
    assert_eq!(place.check(&["getfacl", "-dcR", "image:/d"]).trim(), "");
    let refused = ["setfacl", "-d", "-m", "u:1:r", "image:/f"];
    place.check_failure(&refused, 1, "permission denied");
    place.check_failure(&["setfacl", "-m", "u:1", "image:/f"], 2, "is not a valid entry");
    place.check_failure(&["setfacl", "-m", "u:1:z", "image:/f"], 2, "is not a valid entry");
    place.check_failure(&["setfacl", "-s", "u::rwx", "image:/f"], 1, "no entry for the owner");
    place.check_failure(&["setfacl", "image:/f"], 2, "required");
}

#[test]
fn labels_and_uuids_are_shown_and_set() {
    let place = VolumeDir::new();
    let first = place.check(&["uuid", "image"]);
    assert_eq!(first, "0123abcd-0123-4567-89ab-0123456789ab\n");
    let second = "76543210-0000-4000-8000-000000000001";
    assert_eq!(place.check(&["uuid", "image", second]), format!("{second}\n"));
    assert!(place.check(&["info", "image"]).contains(second));
    place.put("image:/file", b"written with another UUID");
    assert_ne!(place.check(&["uuid", "image", "generate"]), format!("{second}\n"));
    assert_eq!(place.check(&["uuid", "image", "restore"]), first);
    assert_eq!(place.check(&["cat", "image:/file"]), "written with another UUID");
    place.check_failure(&["uuid", "image", "0123"], 2, "is not a UUID");
    assert_eq!(place.check(&["label", "image"]), "\n");
    place.check(&["label", "image", "twelve bytes"]);
    assert_eq!(place.check(&["label", "image"]), "twelve bytes\n");
    assert_eq!(place.check(&["dump", "image", "sb", "1"]).matches("twelve bytes").count(), 1);
    place.check(&["label", "image", ""]);
    assert_eq!(place.check(&["label", "image"]), "\n");
    place.check_failure(&["label", "image", "thirteen byte"], 2, "12 bytes");
}

/// Checks the sizes to which a volume grows, and the refused sizes. The volume has 81920 blocks in
/// groups of 20480.
#[test]
fn volume_grows_with_its_image() {
    let place = VolumeDir::new();
    place.put("image:/file", b"contents");
    assert_eq!(place.check(&["growfs", "image"]), "data size unchanged: 81920 blocks\n");
    place.check_failure(&["growfs", "-D", "81919", "image"], 1, "cannot shrink to 81919");
    place.check_failure(&["growfs", "-D", "81983", "image"], 1, "63 more blocks are too few");
    let length = fs::metadata(place.path("image")).unwrap().len();
    assert_eq!(length, 81920 << 12, "a refused growth leaves the file unchanged");
    place.check_failure(&["growfs", "--size", "1g", "-D", "1", "image"], 2, "cannot be used with");
    place.check_failure(&["growfs", "--size", "9000000t", "image"], 1, "more than a file can have");
    let said = place.check(&["growfs", "--size", "400m", "image"]);
    assert_eq!(said, "data blocks changed from 81920 to 102400\n");
    assert_eq!(fs::metadata(place.path("image")).unwrap().len(), 400 << 20);
    let image = fs::File::options().write(true).open(place.path("image")).unwrap();
    image.set_len(500 << 20).unwrap();
    let said = place.check(&["growfs", "image"]);
    assert_eq!(said, "data blocks changed from 102400 to 128000\n");
    assert!(place.check(&["info", "--xfs-info", "image"]).contains("agcount=7, agsize=20480 blks"));
    assert_eq!(place.check(&["cat", "image:/file"]), "contents");
}

/// Checks the sizes to which a volume shrinks, and the refused sizes. The volume has 81920 blocks
/// in groups of 20480. Its log is in the third group.
#[test]
fn volume_shrinks_with_its_image() {
    let place = VolumeDir::new();
    place.put("image:/file", b"contents");
    let length = || fs::metadata(place.path("image")).unwrap().len();
    place.check_failure(&["shrink", "--to", "100m", "image"], 1, "the log ends there");
    place.check_failure(&["shrink", "--to", "1g", "image"], 1, "growfs makes it larger");
    assert_eq!(length(), 81920 << 12, "a refused size leaves the file unchanged");
    let said = place.check(&["shrink", "--to", "300m", "image"]);
    assert_eq!(said, "data blocks changed from 81920 to 76800; 0 blocks moved\n");
    assert_eq!(length(), 300 << 20);
    let said = place.check(&["shrink", "image"]);
    assert!(said.starts_with("data blocks changed from 76800 to "), "{said}");
    let least = length();
    assert!(least < 240 << 20, "{least}");
    assert_eq!(place.check(&["shrink", "image"]).matches("unchanged").count(), 1);
    assert_eq!(place.check(&["cat", "image:/file"]), "contents");
    place.check(&["check", "image"]);
    // Something may follow the volume in a longer file.
    let image = fs::File::options().write(true).open(place.path("image")).unwrap();
    image.set_len(400 << 20).unwrap();
    place.check(&["growfs", "--size", "330m", "image"]);
    place.check(&["shrink", "--to", "320m", "image"]);
    assert_eq!(length(), 400 << 20);
    place.check_failure(&["shrink", "-D", "1", "image"], 2, "unexpected argument");
}

#[test]
fn sparse_shrink_gives_free_space_back_to_the_host() {
    let place = VolumeDir::new();
    let bytes: Vec<u8> = (0..8 << 20).map(|at: u32| (at % 251) as u8 + 1).collect();
    place.put("image:/kept", b"contents");
    place.put("image:/removed", &bytes);
    place.check(&["rm", "image:/removed"]);
    let taken = || fs::metadata(place.path("image")).unwrap().blocks() * 512;
    let before = taken();
    let said = place.check(&["shrink", "--to", "310m", "--sparse", "image"]);
    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("data blocks changed from 81920 to 79360; 0 blocks moved"));
    assert!(lines.next().unwrap().ends_with(" of free space read as zeros"), "{said}");
    assert!(before > 8 << 20 && taken() < 1 << 20, "{} of {before}", taken());
    assert_eq!(place.check(&["cat", "image:/kept"]), "contents");
    place.check(&["check", "image"]);
    let shown = place.check(&["shrink", "--to", "305m", "--sparse", "--json", "image"]);
    let document: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert!(document["zapped_bytes"].as_u64().unwrap() > 200 << 20, "{document}");
}

#[test]
fn image_that_cannot_grow_keeps_its_length() {
    let place = VolumeDir::new();
    let image = fs::File::options().write(true).open(place.path("image")).unwrap();
    let length = image.metadata().unwrap().len();
    // Damages the free space header of the first group.
    image.write_all_at(b"????", 512).unwrap();
    place.check_failure(&["growfs", "--size", "1g", "image"], 5, "magic");
    assert_eq!(image.metadata().unwrap().len(), length);
    // A damaged copy of the superblock is reported, and does not prevent growing.
    place.make("other");
    let other = fs::File::options().write(true).open(place.path("other")).unwrap();
    other.write_all_at(b"????", 20480 << 12).unwrap();
    place.check_failure(&["growfs", "--size", "1g", "other"], 5, "magic");
    assert_eq!(other.metadata().unwrap().len(), 1 << 30);
    assert!(place.check(&["info", "--xfs-info", "other"]).contains("blocks=262144"));
}

/// Makes a tree on the host with a file of each kind that an ordinary user can make.
pub(crate) fn tree(at: &Path) {
    fs::create_dir_all(at.join("sub/empty")).unwrap();
    fs::write(at.join("text"), "some text\n").unwrap();
    fs::write(at.join("sub/long"), vec![7; 3 << 20]).unwrap();
    fs::hard_link(at.join("text"), at.join("sub/again")).unwrap();
    symlink("../text", at.join("sub/soft")).unwrap();
    let holes = fs::File::create(at.join("holes")).unwrap();
    holes.write_all_at(b"end", 5 << 20).unwrap();
    holes.set_len(8 << 20).unwrap();
    for index in 0..300 {
        fs::write(at.join(format!("sub/file-with-number-{index}")), index.to_string()).unwrap();
    }
    fs::set_permissions(at.join("text"), fs::Permissions::from_mode(0o640)).unwrap();
    // If the host supports no attributes, both sides have none.
    let _ = rustix::fs::setxattr(at.join("text"), "user.note", b"kept", XattrFlags::CREATE);
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, at.join("pipe"), fifo, Mode::RUSR, 0).unwrap();
    if rustix::process::geteuid().is_root() {
        let device = rustix::fs::FileType::CharacterDevice;
        let number = rustix::fs::makedev(1, 3);
        rustix::fs::mknodat(rustix::fs::CWD, at.join("null"), device, Mode::RUSR, number).unwrap();
        chown(at.join("sub/long"), Some(1234), Some(56)).unwrap();
        lchown(at.join("sub/soft"), Some(78), Some(9)).unwrap();
    }
    fs::set_permissions(at.join("sub/empty"), fs::Permissions::from_mode(0o711)).unwrap();
}

/// Appends a line for each file of a tree: path, mode, number of links, owner, device number,
/// attribute, and the link target or the length and CRC of the contents. The paths in the lines
/// start with `below`.
fn digest(at: &Path, lines: &mut Vec<String>, below: &str) {
    let mut names: Vec<_> =
        fs::read_dir(at).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let (path, shown) = (at.join(&name), format!("{below}/{}", name.display()));
        let metadata = fs::symlink_metadata(&path).unwrap();
        let mut line = format!("{shown} {:o} {}", metadata.mode(), metadata.nlink());
        line += &format!(" {}:{} {:x}", metadata.uid(), metadata.gid(), metadata.rdev());
        let mut value = [0; 64];
        if let Ok(length) = rustix::fs::lgetxattr(&path, "user.note", &mut value) {
            line += &format!(" {:?}", &value[..length]);
        }
        if metadata.is_symlink() {
            line += &format!(" -> {}", fs::read_link(&path).unwrap().display());
        } else if metadata.is_file() {
            let sum = crc32fast::hash(&fs::read(&path).unwrap());
            line += &format!(" {} {sum:x}", metadata.len());
        }
        if !metadata.is_symlink() {
            line += &format!(
                " {}.{}",
                metadata.mtime().min(1_700_000_000),
                metadata.mtime_nsec() * i64::from(metadata.mtime() < 1_700_000_000)
            );
        }
        lines.push(line);
        if metadata.is_dir() {
            digest(&path, lines, &shown);
        }
    }
}

pub(crate) fn digest_of(at: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    digest(at, &mut lines, "");
    lines
}

/// Checks that a tree is the same after it was copied into an image, between images, and back.
/// Checks I2 of `xfs_cli::import::writer`: directories keep their times.
#[test]
fn tree_survives_import_and_export() {
    let place = VolumeDir::new();
    tree(&place.path("tree"));
    place.check(&["cp", "-a", "tree", "image:/"]);
    place.check(&["cp", "-a", "--ignore-owner", "image:/tree", "back"]);
    assert_eq!(digest_of(&place.path("back")), digest_of(&place.path("tree")));
    let holes = place.check(&["find", "image:/tree/holes", "-printf", "%b"]);
    assert_eq!(holes, "8", "holes stay holes");
    // From one image to another, and inside one.
    place.make("other");
    place.check(&["cp", "-a", "image:/tree", "other:/copy"]);
    place.check(&["cp", "-a", "other:/copy", "other:/copy2"]);
    place.check(&["cp", "-a", "--ignore-owner", "other:/copy2", "third"]);
    assert_eq!(digest_of(&place.path("third")), digest_of(&place.path("tree")));
}

/// Checks that two equal volumes hold the same bytes after an import of the same tree into each.
/// Checks I3 of `xfs_cli::import::writer`: the same sources give the same calls of the library.
#[test]
fn two_imports_give_the_same_bytes() {
    let place = VolumeDir::new();
    tree(&place.path("tree"));
    place.make("other");
    place.check(&["import", "tree", "image"]);
    place.check(&["import", "tree", "other"]);
    let bytes = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(bytes("image") == bytes("other"));
    place.check(&["import", "--all-root", "tree", "image:/again/and/again"]);
    let owners = place.check(&["find", "image:/again", "!", "-uid", "0"]);
    assert_eq!(owners, "");
    place.check_failure(&["import", "tree/text", "image"], 1, "neither a tar archive");
    place.check_failure(
        &["import", "tree/text", "image:/new/and/newer"],
        1,
        "neither a tar archive",
    );
    place.check_failure(&["ls", "image:/new"], 1, "no such file");
    place.check_failure(&["import", "none", "image"], 1, "No such file");
}

#[test]
fn single_files_are_copied_in() {
    let place = VolumeDir::new();
    fs::write(place.path("file"), "first").unwrap();
    place.check(&["cp", "file", "image:/name"]);
    place.check(&["cp", "file", "image:/"]);
    assert_eq!(place.check(&["cat", "image:/name", "image:/file"]), "firstfirst");
    fs::write(place.path("file"), "second").unwrap();
    place.check_failure(&["cp", "-n", "file", "image:/name"], 1, "exists");
    place.check(&["cp", "file", "image:/name"]);
    assert_eq!(place.check(&["cat", "image:/name"]), "second");
    fs::create_dir(place.path("directory")).unwrap();
    place.check_failure(&["cp", "directory", "image:/"], 1, "-r");
    place.check_failure(&["cp", "file", "file", "image:/name"], 1, "not a directory");
    place.check_failure(&["cp", "none", "image:/"], 1, "No such file");
}

/// Checks that files that the kernel generates are copied whole. The size that stat shows for such
/// a file is not the length of its contents, and the file does not support seeking for data.
#[test]
fn files_of_unknown_length_are_copied_to_their_end() {
    let place = VolumeDir::new();
    for (path, name) in [("/proc/version", "version"), ("/proc/sys/kernel/ostype", "ostype")] {
        place.check(&["cp", path, "image:/"]);
        let contents = fs::read_to_string(path).unwrap();
        assert_eq!(place.check(&["cat", &format!("image:/{name}")]), contents, "{path}");
        assert!(!contents.is_empty());
    }
    // The size says one page, but the contents are shorter.
    let path = "/sys/kernel/uevent_seqnum";
    if fs::metadata(path).is_ok_and(|found| found.len() > 100) {
        place.check(&["cp", path, "image:/"]);
        assert!(place.check(&["cat", "image:/uevent_seqnum"]).ends_with('\n'));
    }
    fs::write(place.path("empty"), "").unwrap();
    place.check(&["cp", "-a", "empty", "image:/"]);
    assert_eq!(place.check(&["find", "image:/empty", "-printf", "%s %b"]), "0 0");
}

/// Checks that commands which create files follow a dangling link and create its target, as open(2)
/// with O_CREAT does.
#[test]
fn dangling_link_is_followed_to_the_new_file() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d", "image:/d/e"]);
    for (path, to) in [
        ("d/put", "e/../0"),
        ("d/touched", "/d/e/1"),
        ("d/truncated", "2"),
        ("d/allocated", "further"),
        ("d/further", "../3"),
        ("d/slash", "none/"),
        ("d/above", "none/file"),
        ("d/full", "5"),
    ] {
        place.check(&["ln", "-s", to, &format!("image:/{path}")]);
    }
    place.put("image:/d/put", b"contents");
    place.check(&["touch", "-c", "image:/d/touched"]);
    place.check_failure(&["stat", "image:/d/e/1"], 1, "no such file");
    place.check(&["touch", "image:/d/touched"]);
    place.check(&["truncate", "-s", "7", "image:/d/truncated"]);
    place.check(&["fallocate", "-l", "4k", "image:/d/allocated"]);
    place.check_failure(&["fallocate", "-l", "1g", "image:/d/full"], 1, "no space");
    place.check_failure(&["touch", "image:/d/slash"], 1, "is a directory");
    place.check_failure(&["touch", "image:/d/above"], 1, "no such file");
    assert_eq!(place.check(&["cat", "image:/d/0"]), "contents");
    let files = place.check(&["find", "image", "-type", "f", "-printf", "%p %s\\n"]);
    let mut files: Vec<_> = files.lines().collect();
    files.sort_unstable();
    assert_eq!(files, ["/3 4096", "/d/0 8", "/d/2 7", "/d/e/1 0"]);
    assert_eq!(place.check(&["readlink", "image:/d/full"]), "5\n");
}

#[test]
fn full_volume_is_reported_and_stays_consistent() {
    let place = VolumeDir::new();
    let file = fs::File::create(place.path("large")).unwrap();
    for at in 0..400 {
        file.write_all_at(&vec![1; 1 << 20], at << 20).unwrap();
    }
    place.check_failure(&["cp", "large", "image:/"], 1, "no space");
    assert_eq!(place.check(&["ls", "image"]), "");
    let mut put = place.command(&["put", "image:/large"]);
    put.stdin(fs::File::open(place.path("large")).unwrap());
    assert_eq!(put.output().unwrap().status.code(), Some(1));
    assert_eq!(place.check(&["ls", "image"]), "");
    place.put("image:/small", b"fits");
    assert_eq!(place.check(&["cat", "image:/small"]), "fits");
}

/// Checks that commands refuse a trailing slash after anything but a directory, as the programs of
/// the same names do.
#[test]
fn trailing_slash_is_valid_for_directories_only() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d", "image:/e/"]);
    for file in ["image:/f", "image:/d/g"] {
        place.check(&["touch", file]);
    }
    place.check(&["ln", "-s", "d", "image:/to_d"]);
    fs::write(place.path("file"), "contents").unwrap();
    let before = place.check(&["find", "image"]);
    for (arguments, message) in [
        (&["touch", "image:/new/"][..], "no such file"),
        (&["truncate", "-s", "1", "image:/new/"], "no such file"),
        (&["cp", "file", "image:/new/"], "no such file"),
        (&["cp", "file", "image:/f/"], "not a directory"),
        (&["ln", "image:/f", "image:/new/"], "no such file"),
        (&["ln", "-s", "f", "image:/new/"], "no such file"),
        (&["mv", "image:/f", "image:/new/"], "no such file"),
        (&["mv", "image:/d/g", "image:/f/"], "not a directory"),
        (&["mv", "image:/f/", "image:/new"], "not a directory"),
        (&["mv", "image:/to_d/", "image:/new"], "not a directory"),
        (&["mv", "image:/d/.", "image:/new"], "ends in a dot"),
        (&["rm", "-r", "image:/d/."], "ends in a dot"),
        (&["rm", "-r", "image:/to_d/"], "not a directory"),
        (&["rm", "image:/f/"], "not a directory"),
    ] {
        place.check_failure(arguments, 1, message);
    }
    assert_eq!(place.check(&["find", "image"]), before);
    place.check(&["mv", "image:/e/", "image:/moved/"]);
    fs::create_dir(place.path("tree")).unwrap();
    place.check(&["cp", "-a", "tree", "image:/tree/"]);
    place.check(&["rm", "-r", "image:/moved/", "image:/tree/"]);
}

#[test]
fn force_replaces_existing_names() {
    let place = VolumeDir::new();
    place.put("image:/f", b"one");
    place.put("image:/g", b"two");
    place.check(&["mkdir", "image:/d", "image:/d/f"]);
    place.check_failure(&["ln", "-s", "f", "image:/g"], 1, "exists");
    place.check(&["ln", "-sf", "f", "image:/g"]);
    place.check(&["ln", "-sf", "d", "image:/g"]);
    assert_eq!(place.check(&["readlink", "image:/g"]), "d\n");
    // Through the symbolic link, into the directory.
    place.check_failure(&["ln", "-sf", "f", "image:/g"], 1, "/g/f: is a directory");
    place.check_failure(&["ln", "-f", "image:/f", "image:/d"], 1, "/d/f: is a directory");
    place.put("image:/h", b"three");
    place.check(&["ln", "-f", "image:/f", "image:/h"]);
    assert_eq!(place.check(&["cat", "image:/h"]), "one");
    place.check(&["mv", "-f", "image:/h", "image:/i"]);
    place.put("image:/k", b"four");
    place.check(&["cp", "-f", "image:/k", "image:/i"]);
    assert_eq!(place.check(&["cat", "image:/f", "image:/i"]), "onefour");
    place.check(&["mv", "-f", "image:/k", "image:/i"]);
    assert_eq!(place.check(&["ls", "image"]), "d\nf\ng\ni\n");
    place.check_failure(&["rm", "-d", "image:/d"], 1, "not empty");
    place.check(&["rm", "-d", "image:/d/f", "image:/d", "image:/i"]);
    assert_eq!(place.check(&["ls", "image"]), "f\ng\n");
}
