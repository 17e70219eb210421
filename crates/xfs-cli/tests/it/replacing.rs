//! Tests of copies from image to image: the properties that they keep, and the files that they
//! replace.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{Metadata, OpenOptions, SetAttributes, Volume};

use crate::changing::VolumeDir;

/// Sets attributes of files in an image, through the library.
fn change(place: &VolumeDir, image: &str, files: &[(&str, SetAttributes)]) {
    let volume = OpenOptions::new().write(true).open(place.path(image)).unwrap();
    for (path, changes) in files {
        volume.lookup_no_follow(path).unwrap().set_attributes(changes).unwrap();
    }
    volume.close().unwrap();
}

fn metadata(place: &VolumeDir, image: &str, path: &str) -> Metadata {
    Volume::open(place.path(image)).unwrap().symlink_metadata(path).unwrap()
}

fn flags(flags: ExtendedFlags) -> SetAttributes {
    SetAttributes::new().xflags(flags)
}

/// Returns those inode flags of a file that the tests set.
fn flags_of(place: &VolumeDir, image: &str, path: &str) -> ExtendedFlags {
    let all = ExtendedFlags::IMMUTABLE | ExtendedFlags::APPEND | ExtendedFlags::NODUMP;
    metadata(place, image, path).xflags & all
}

/// Returns a volume with files that can be neither renamed nor linked, because of their inode
/// flags.
fn flagged() -> VolumeDir {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d", "image:/d/sealed", "image:/e"]);
    for file in ["d/immutable", "d/linked", "d/growing", "d/sealed/file"] {
        place.put(&format!("image:/{file}"), file.as_bytes());
    }
    place.check(&["ln", "image:/d/linked", "image:/d/again"]);
    place.check(&["ln", "image:/d/linked", "image:/e/elsewhere"]);
    let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::NODUMP;
    change(
        &place,
        "image",
        &[
            ("/d/immutable", flags(fixed)),
            ("/d/linked", flags(fixed)),
            ("/d/growing", flags(ExtendedFlags::APPEND)),
            ("/d/sealed", flags(ExtendedFlags::IMMUTABLE)),
            ("/d", flags(ExtendedFlags::APPEND)),
        ],
    );
    place
}

#[track_caller]
fn check_flagged(place: &VolumeDir, image: &str) {
    let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::NODUMP;
    for (path, expected) in [
        ("/d/immutable", fixed),
        ("/d/again", fixed),
        ("/e/elsewhere", fixed),
        ("/d/growing", ExtendedFlags::APPEND),
        ("/d/sealed", ExtendedFlags::IMMUTABLE),
        ("/d/sealed/file", ExtendedFlags::empty()),
        ("/d", ExtendedFlags::APPEND),
    ] {
        assert_eq!(flags_of(place, image, path), expected, "{path}");
    }
    assert_eq!(metadata(place, image, "/e/elsewhere").nlink, 3);
    assert_eq!(place.check(&["cat", &format!("{image}:/d/again")]), "d/linked");
}

/// Checks I4 of `xfs_cli::import::writer`: flags that would prevent further names are set last.
#[test]
fn flags_come_when_a_file_has_its_names() {
    let place = flagged();
    place.make("new");
    place.check(&["cp", "-a", "image:/", "new:/"]);
    check_flagged(&place, "new");
    // Also over existing files.
    place.make("old");
    place.check(&["mkdir", "old:/d", "old:/e"]);
    for file in ["d/immutable", "d/linked", "d/again", "d/growing", "e/elsewhere"] {
        place.put(&format!("old:/{file}"), b"before");
    }
    place.check(&["cp", "-a", "image:/", "old:/"]);
    check_flagged(&place, "old");
    assert_eq!(place.check(&["find", "old:/", "-name", ".ferroxfs*"]), "");
    // Files that must not be replaced stay, and the attempt leaves nothing.
    place.check_failure(&["cp", "-a", "image:/d/growing", "old:/d/immutable"], 1, "not permitted");
    assert_eq!(place.check(&["find", "old:/", "-name", ".ferroxfs*"]), "");
    assert_eq!(place.check(&["cat", "old:/d/immutable"]), "d/immutable");
}

/// Checks that a file gets its project only after all its names. A file that has a project cannot
/// get a name in a directory whose files inherit another project.
#[test]
fn project_comes_when_a_file_has_its_names() {
    let place = VolumeDir::new();
    place.put("image:/file", b"of one project");
    let project = |number| SetAttributes::new().project_id(number);
    change(&place, "image", &[("/file", project(5))]);
    place.make("other");
    place.check(&["mkdir", "other:/d"]);
    let inherited = flags(ExtendedFlags::PROJINHERIT);
    change(&place, "other", &[("/d", inherited.project_id(7))]);
    for _ in 0..2 {
        place.check(&["cp", "-a", "image:/file", "other:/d"]);
        assert_eq!(metadata(&place, "other", "/d/file").project_id, 5);
    }
}

#[test]
fn existing_temporary_names_are_passed_over() {
    let place = VolumeDir::new();
    place.check(&["mkdir", "image:/d", "image:/d/.ferroxfs-put-1"]);
    place.put("image:/d/.ferroxfs-put", b"somebody's");
    symlink("target", place.path("link")).unwrap();
    fs::write(place.path("file"), "contents").unwrap();
    for name in ["file", "link"] {
        place.put(&format!("image:/d/{name}"), b"before");
        for _ in 0..2 {
            place.check(&["cp", "-a", name, "image:/d"]);
        }
    }
    assert_eq!(place.check(&["cat", "image:/d/file"]), "contents");
    assert_eq!(place.check(&["readlink", "image:/d/link"]), "target\n");
    assert_eq!(place.check(&["cat", "image:/d/.ferroxfs-put"]), "somebody's");
    let names = place.check(&["ls", "-a", "image:/d"]);
    assert_eq!(names, ".\n..\n.ferroxfs-put\n.ferroxfs-put-1\nfile\nlink\n");
}

#[test]
fn irreplaceable_file_stays() {
    let place = VolumeDir::new();
    place.put("image:/large", b"before");
    let file = fs::File::create(place.path("large")).unwrap();
    for at in 0..400 {
        file.write_all_at(&vec![1; 1 << 20], at << 20).unwrap();
    }
    place.check_failure(&["cp", "large", "image:/"], 1, "no space");
    assert_eq!(place.check(&["ls", "-a", "image"]), ".\n..\nlarge\n");
    assert_eq!(place.check(&["cat", "image:/large"]), "before");
    // The space that it had written is freed.
    place.check(&["put", "image:/empty"]);
    place.check(&["fallocate", "-l", "200m", "image:/room"]);
}

/// Returns the extent size hint and the copy-on-write extent size hint of a file, in bytes.
fn hints(place: &VolumeDir, image: &str, path: &str) -> (u64, u64) {
    let found = metadata(place, image, path);
    (found.extent_size_hint_bytes, found.cow_extent_size_hint_bytes)
}

#[test]
fn extent_size_hints_are_copied() {
    const EXTENT: u64 = 1 << 20;
    const COPY: u64 = 64 << 10;
    let place = VolumeDir::new();
    let (extent, copy) = (Some(EXTENT), Some(COPY));
    let mut both = SetAttributes::new();
    both.extent_size_hint_bytes = extent;
    both.cow_extent_size_hint_bytes = copy;
    place.check(&["mkdir", "image:/d"]);
    // It existed before its directory had a hint to pass on.
    place.put("image:/d/plain", b"contents");
    change(&place, "image", &[("/d", both)]);
    place.check(&["touch", "image:/d/hinted", "image:/d/small"]);
    let small = SetAttributes::new().extent_size_hint_bytes(4096);
    change(&place, "image", &[("/d/small", small)]);
    for file in ["hinted", "small"] {
        place.put(&format!("image:/d/{file}"), b"contents");
    }
    for (options, name, expected) in [
        (&["-b", "size=4k"][..], "same", [(EXTENT, COPY), (0, 0), (EXTENT, COPY), (4096, COPY)]),
        (&["-m", "reflink=0"], "bare", [(EXTENT, 0), (0, 0), (EXTENT, 0), (4096, 0)]),
        (&["-b", "size=16k"], "coarse", [(EXTENT, COPY), (0, 0), (EXTENT, COPY), (0, COPY)]),
    ] {
        let mkfs = ["mkfs", "-q", "-d", "size=320m", name];
        place.check(&[&mkfs[..4], options, &mkfs[4..]].concat());
        // The second time replaces the first copy.
        for _ in 0..2 {
            place.check(&["cp", "-a", "image:/d", &format!("{name}:/")]);
            let paths = ["/d", "/d/plain", "/d/hinted", "/d/small"];
            assert_eq!(paths.map(|path| hints(&place, name, path)), expected, "{name}");
        }
    }
    place.check(&["cp", "image:/d/small", "same:/"]);
    assert_eq!(hints(&place, "same", "/small"), (0, 0), "without -a it is another file");
    fs::write(place.path("file"), "contents").unwrap();
    place.check(&["cp", "-a", "file", "same:/d"]);
    assert_eq!(hints(&place, "same", "/d/file"), (EXTENT, COPY), "of the host's nothing is known");
}

/// Checks that the names of one file are names of one file in the copy too, even if the names are
/// in several arguments of the command.
#[test]
fn hard_links_between_arguments_are_kept() {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("hl/sub")).unwrap();
    fs::write(place.path("hl/a"), "contents").unwrap();
    for name in ["hl/b", "hl/sub/c"] {
        fs::hard_link(place.path("hl/a"), place.path(name)).unwrap();
    }
    place.check(&["cp", "-a", "hl/a", "hl/b", "hl/sub", "image:/"]);
    place.make("other");
    place.put("other:/a", b"another of the same number");
    place.check(&["cp", "-a", "image:/a", "image:/b", "image:/sub/c", "other:/"]);
    place.check(&["mkdir", "image:/same", "other:/linked"]);
    place.check(&["cp", "-a", "image:/a", "image:/b", "image:/sub", "image:/same"]);
    for (path, names) in [("image:/sub/c", "3"), ("other:/c", "3"), ("image:/same/sub/c", "3")] {
        assert_eq!(place.fact(path, "Links:"), names, "{path}");
    }
    fs::create_dir(place.path("out")).unwrap();
    let out = ["cp", "-a", "--ignore-owner"];
    place.check(&[&out[..], &["image:/a", "image:/b", "image:/sub", "out"]].concat());
    assert_eq!(fs::metadata(place.path("out/sub/c")).unwrap().nlink(), 3);
    // A file inside two sources is copied with each.
    place.check(&[&out[..], &["image:/sub", "image:/sub", "out"]].concat());
    place.check(&["cp", "-a", "image:/sub", "image:/sub", "image:/same"]);
    // Equal numbers in different images are different files.
    place.make("third");
    place.check(&["cp", "-a", "image:/a", "image:/b", "third:/"]);
    place.check(&["cp", "-a", "image:/a", "third:/b", "other:/linked"]);
    assert_eq!(place.fact("other:/linked/a", "Links:"), "1");
    place.check(&["log", "other"]);
}

/// Checks that a copy that was replaced later in the same run gets no further name. The first
/// source has two names; the copy under the first name is replaced, so the second name must become
/// a new copy.
#[test]
fn copy_replaced_in_the_same_run_is_not_linked() {
    let place = VolumeDir::new();
    for directory in ["one", "two"] {
        fs::create_dir(place.path(directory)).unwrap();
        fs::write(place.path(directory).join("f"), directory).unwrap();
    }
    fs::hard_link(place.path("one/f"), place.path("one/g")).unwrap();
    place.check(&["cp", "-a", "one/f", "two/f", "one/g", "image:/"]);
    assert_eq!(place.check(&["cat", "image:/f", "image:/g"]), "twoone");
}

/// Checks that a file gets its flags only after all arguments have been copied: later arguments may
/// have further names of the file.
#[test]
fn flags_come_when_all_arguments_are_done() {
    let place = flagged();
    place.make("new");
    place.check(&["cp", "-a", "image:/d/linked", "image:/d/again", "image:/d/immutable", "new:/"]);
    let fixed = ExtendedFlags::IMMUTABLE | ExtendedFlags::NODUMP;
    for path in ["/linked", "/again", "/immutable"] {
        assert_eq!(flags_of(&place, "new", path), fixed, "{path}");
    }
    assert_eq!(metadata(&place, "new", "/again").nlink, 2);
}

/// Runs `put` with this file as its standard input, and checks that it fails with this message.
#[track_caller]
fn check_put_fails(place: &VolumeDir, address: &str, input: fs::File, message: &str) {
    let output = place.command(&["put", address]).stdin(input).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(message), "{said}");
}

/// Checks that `put` replaces contents only when they are complete, on volumes that can exchange
/// contents and on those that cannot.
#[test]
fn put_replaces_contents_when_they_are_complete() {
    let place = VolumeDir::new();
    let large = fs::File::create(place.path("large")).unwrap();
    for at in 0..400 {
        large.write_all_at(&vec![1; 1 << 20], at << 20).unwrap();
    }
    for options in
        [&["-i", "exchange=1"][..], &["-i", "exchange=0"], &["-i", "exchange=0", "-m", "reflink=0"]]
    {
        let mkfs = ["mkfs", "-q", "-f", "-d", "size=320m", "volume"];
        place.check(&[&mkfs[..5], options, &mkfs[5..]].concat());
        place.check(&["mkdir", "volume:/d"]);
        let old = vec![7; 3 << 20];
        place.put("volume:/d/f", &old);
        place.check(&["chmod", "4751", "volume:/d/f"]);
        place.check(&["chown", "12:34", "volume:/d/f"]);
        place.check(&["setfattr", "-n", "user.note", "-v", "kept", "volume:/d/f"]);
        place.check(&["ln", "volume:/d/f", "volume:/again"]);
        place.check(&["ln", "-s", "d/f", "volume:/link"]);
        let before = metadata(&place, "volume", "/again");

        let directory = fs::File::open(place.path("")).unwrap();
        check_put_fails(&place, "volume:/d/f", directory, "standard input");
        let input = fs::File::open(place.path("large")).unwrap();
        check_put_fails(&place, "volume:/d/f", input, "no space");
        assert!(place.check(&["cat", "volume:/again"]).into_bytes() == old, "{options:?}");
        assert_eq!(metadata(&place, "volume", "/again"), before, "{options:?}");

        for (number, contents) in
            [vec![8; 5 << 20], b"short".to_vec(), Vec::new(), vec![9; 100]].into_iter().enumerate()
        {
            let address = ["volume:/d/f", "volume:/link"][number % 2];
            match contents.is_empty() {
                true => _ = place.check(&["put", "--allow-empty", address]),
                false => place.put(address, &contents),
            }
            assert!(place.check(&["cat", "volume:/again"]).into_bytes() == contents);
        }
        let after = metadata(&place, "volume", "/again");
        let kept = |facts: &Metadata| (facts.number, facts.mode, facts.uid, facts.gid, facts.nlink);
        assert_eq!(kept(&after), kept(&before), "{options:?}");
        assert_eq!(after.blocks, 8, "nothing is left of what it held");
        assert!(place.check(&["getfattr", "-d", "volume:/d/f"]).contains("user.note=\"kept\""));
        assert_eq!(place.check(&["ls", "-a", "volume:/"]), ".\n..\nagain\nd\nlink\n");
        // The space that it had written is freed.
        place.check(&["fallocate", "-l", "200m", "volume:/room"]);
    }
}

/// Checks that a file keeps its properties when `put` replaces its contents. On a volume that
/// cannot exchange contents, a new file takes its place.
#[test]
fn put_keeps_properties_of_the_file() {
    let place = VolumeDir::new();
    for exchange in ["exchange=1", "exchange=0"] {
        place.check(&["mkfs", "-q", "-f", "-d", "size=320m", "-i", exchange, "volume"]);
        place.check(&["mkdir", "volume:/d"]);
        place.check(&["setfacl", "-d", "-m", "u:7:rwx", "volume:/d"]);
        place.check(&["touch", "volume:/d/f"]);
        let both = SetAttributes::new()
            .extent_size_hint_bytes(64 << 10)
            .cow_extent_size_hint_bytes(128 << 10);
        change(&place, "volume", &[("/d/f", both)]);
        place.put("volume:/d/f", b"old");
        assert_eq!(hints(&place, "volume", "/d/f"), (64 << 10, 128 << 10));
        place.check(&["chmod", "4751", "volume:/d/f"]);
        place.check(&["chown", "12:34", "volume:/d/f"]);
        place.check(&["setfattr", "-n", "trusted.note", "-v", "kept", "volume:/d/f"]);
        place.check(&["setfacl", "-m", "u:1000:rw", "volume:/d/f"]);
        let project = flags(ExtendedFlags::PROJINHERIT).project_id(5);
        let own = flags(ExtendedFlags::NODUMP).project_id(5);
        change(&place, "volume", &[("/d/f", own), ("/d", project)]);
        place.check(&["ln", "-s", "d/f", "volume:/link"]);
        let shown = |what: &[&str]| place.check(&[what, &["volume:/d/f"]].concat());
        let all = || {
            let facts = metadata(&place, "volume", "/d/f");
            let facts =
                (facts.mode, facts.uid, facts.gid, facts.nlink, facts.project_id, facts.xflags);
            let hints = hints(&place, "volume", "/d/f");
            (facts, hints, shown(&["getfacl"]), shown(&["getfattr", "-d", "-m", "-"]))
        };
        let before = all();
        place.put("volume:/link", b"new contents");
        assert_eq!(shown(&["cat"]), "new contents");
        assert_eq!(all(), before, "{exchange}");
        check_put_fails(&place, "volume:/d/f", fs::File::open(place.path("")).unwrap(), "input");
        change(&place, "volume", &[("/d", flags(ExtendedFlags::IMMUTABLE))]);
        place.put("volume:/d/f", b"in a sealed directory");
        assert_eq!(shown(&["cat"]), "in a sealed directory");
        change(&place, "volume", &[("/d/f", flags(ExtendedFlags::APPEND))]);
        let empty = fs::File::open("/dev/null").unwrap();
        check_put_fails(&place, "volume:/d/f", empty, "--allow-empty");
        let input = fs::File::open(place.path("image")).unwrap();
        check_put_fails(&place, "volume:/link", input, "no");
        assert_eq!(shown(&["cat"]), "in a sealed directory");
        assert_eq!(place.check(&["ls", "-a", "volume:/d"]), ".\n..\nf\n");
    }
}

/// Checks that `put` on a full volume loses no contents, even if another file shares the blocks.
/// All space must be reserved before the first block is overwritten.
#[test]
fn put_keeps_blocks_shared_with_other_files() {
    let place = VolumeDir::new();
    let mkfs = ["mkfs", "-q", "-d", "size=320m", "-i", "exchange=0", "volume"];
    place.check(&mkfs);
    let old = vec![7; 100 << 20];
    place.put("volume:/f", &old);
    place.check(&["touch", "volume:/clone"]);
    let volume = OpenOptions::new().write(true).open(place.path("volume")).unwrap();
    let [file, clone] = ["/f", "/clone"].map(|path| volume.lookup(path).unwrap().open().unwrap());
    clone.clone_range(0, &file, 0, 0).unwrap();
    drop((file, clone));
    volume.close().unwrap();
    // There is space for one copy of the new contents.
    let new = fs::File::create(place.path("new")).unwrap();
    for at in 0..140 {
        new.write_all_at(&vec![1; 1 << 20], at << 20).unwrap();
    }
    let input = fs::File::open(place.path("new")).unwrap();
    check_put_fails(&place, "volume:/f", input, "no space");
    assert!(place.check(&["cat", "volume:/f"]).into_bytes() == old);
    assert_eq!(place.check(&["find", "volume:/f", "-printf", "%s"]), (100 << 20).to_string());
    place.put("volume:/f", b"new");
    assert_eq!(place.check(&["cat", "volume:/f"]), "new");
    assert!(place.check(&["cat", "volume:/clone"]).into_bytes() == old);
}
