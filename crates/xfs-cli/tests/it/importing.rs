//! Tests of importing tar archives into an image, and of exporting them.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::changing::{VolumeDir, digest_of, tree};

/// Packs `tree` with GNU tar into `archive`.
fn pack(place: &VolumeDir, archive: &str, options: &[&str]) {
    let packed = Command::new("tar")
        .args(["--numeric-owner", "--sort=name", "-C", "tree", "-cf", archive])
        .args(options)
        .arg(".")
        .current_dir(place.path(""))
        .status();
    assert!(packed.unwrap().success());
}

/// Imports an archive into a new image and checks that its files are the same as in `tree`.
#[track_caller]
fn check_import(place: &VolumeDir, archive: &str, image: &str) {
    place.make(image);
    place.check(&["import", archive, image]);
    let back = format!("back of {image}");
    place.check(&["cp", "-a", "--ignore-owner", &format!("{image}:/"), &back]);
    assert_eq!(digest_of(&place.path(&back)), digest_of(&place.path("tree")));
    let holes = place.check(&["find", &format!("{image}:/holes"), "-printf", "%b"]);
    assert_eq!(holes, "8", "holes stay holes");
}

#[test]
fn archives_of_every_format_come_in_whole() {
    let place = VolumeDir::new();
    tree(&place.path("tree"));
    let long = "a directory of a long name/".repeat(12);
    fs::create_dir_all(place.path("tree").join(&long)).unwrap();
    fs::write(place.path("tree").join(long).join("f"), "deep").unwrap();
    // The metadata that survives in a format without attributes and fractions of seconds.
    let bare = || {
        let path = place.path("tree/text");
        let _ = rustix::fs::removexattr(&path, "user.note");
        let options = ["-exec", "touch", "-hd", "@1500000000", "{}", "+"];
        let touched = Command::new("find").arg(place.path("tree")).args(options).status();
        assert!(touched.unwrap().success());
    };
    pack(&place, "pax.tar", &["--format=posix", "-S", "--xattrs"]);
    check_import(&place, "pax.tar", "of-pax");
    bare();
    pack(&place, "gnu.tar", &["--format=gnu", "-S"]);
    check_import(&place, "gnu.tar", "of-gnu");
    let old = ["--format=posix", "-S", "--sparse-version=0.1"];
    pack(&place, "old.tar", &old);
    check_import(&place, "old.tar", "of-old");
}

#[test]
fn archive_written_twice_gives_the_same_bytes() {
    let place = VolumeDir::new();
    tree(&place.path("tree"));
    pack(&place, "a.tar", &["--format=posix", "--xattrs"]);
    for image in ["one", "two"] {
        place.make(image);
    }
    place.check(&["import", "a.tar", "one"]);
    let mut import = place.command(&["import", "-", "two"]);
    import.stdin(Stdio::from(fs::File::open(place.path("a.tar")).unwrap()));
    assert!(import.status().unwrap().success());
    assert!(fs::read(place.path("one")).unwrap() == fs::read(place.path("two")).unwrap());
    place.check(&["import", "--all-root", "a.tar", "image:/a/b"]);
    assert_eq!(place.check(&["find", "image", "!", "-uid", "0"]), "");
    assert_eq!(place.check(&["cat", "image:/a/b/text"]), "some text\n");
    // Once more, over the existing files.
    place.check(&["import", "a.tar", "image:/a/b"]);
    assert_eq!(place.fact("image:/a/b/text", "Links:"), "2");
}

#[test]
fn import_reads_archives_of_tar() {
    let place = VolumeDir::new();
    tree(&place.path("tree"));
    place.check(&["import", "tree", "image"]);
    place.check(&["setfacl", "-m", "u:1234567:rw", "image:/text"]);
    place.check(&["setfacl", "-d", "-m", "g:8:rx", "image:/sub"]);
    place.check(&["setfattr", "-n", "user.odd=%", "-v", "0x0a0a00ff", "image:/text"]);
    place.check(&["setfattr", "-n", "trusted.mine", "-v", "x", "image:/sub/empty"]);
    place.check(&["tar", "-o", "out.tar", "image"]);
    place.make("other");
    place.check(&["import", "out.tar", "other"]);
    for question in [
        &["getfacl", "-R"][..],
        &["getfattr", "-d", "-m", "-"],
        &["find", "-printf", "%p %m %n %s %b %U:%G %T@ %A@ %l\\n"],
    ] {
        let ask = |image: &str| {
            let mut arguments = question.to_vec();
            let place_of_image = arguments.len().min(if question[0] == "find" { 1 } else { 9 });
            let path =
                if question[0] == "getfattr" { format!("{image}:/text") } else { image.into() };
            arguments.insert(place_of_image, &path);
            let mut lines: Vec<_> = place.check(&arguments).lines().map(str::to_owned).collect();
            if question[0] == "find" {
                lines.sort();
            }
            lines
        };
        assert_eq!(ask("image"), ask("other"));
    }
}

#[test]
fn hostile_archives_stay_inside() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/f"), "f").unwrap();
    fs::write(place.path("above"), "above").unwrap();
    let out = ["--transform=s,^./f,../../f,", "-P"];
    pack(&place, "out.tar", &out);
    place.check_failure(&["import", "out.tar", "image"], 1, "leads out of the archive");
    // The target of the link leads out, and its name does not.
    std::fs::hard_link(place.path("tree/f"), place.path("tree/g")).unwrap();
    pack(&place, "link.tar", &["--transform=flags=h;s,^./,../../,", "-P"]);
    fs::remove_file(place.path("tree/g")).unwrap();
    place.make("linked");
    let said = "linked: ./g: is a link to ../../f, which leads out of the archive, and is left out";
    place.check_failure(&["import", "link.tar", "linked"], 1, said);
    fs::write(place.path("zip"), b"PK\x03\x04 and so on").unwrap();
    place.check_failure(&["import", "zip", "image"], 1, "is a zip archive");
    place.check_failure(&["import", "none", "image"], 1, "No such file");
    // A symbolic link leads a later member to its target inside the directory of the import.
    std::os::unix::fs::symlink("/", place.path("tree/link")).unwrap();
    let link = ["--no-recursion", "./link", "--transform=s,^./f,./link/f,", "./f"];
    pack(&place, "link.tar", &link);
    place.check(&["import", "link.tar", "image:/sub"]);
    assert_eq!(place.check(&["ls", "image"]), "sub\n");
    assert_eq!(place.check(&["ls", "image:/sub"]), "f\nlink\n");
    assert_eq!(place.check(&["cat", "image:/sub/f"]), "f");
    pack(&place, "cut.tar", &["--format=gnu"]);
    let bytes = fs::read(place.path("cut.tar")).unwrap();
    let mut child = place
        .command(&["import", "-", "image:/cut"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes[..700]).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

/// Checks that the properties of a volume are not copied to another volume or to a directory of the
/// host. These properties are stored as attributes of the root directory.
#[test]
fn properties_stay_with_their_volume() {
    let place = VolumeDir::new();
    let property = "trusted.xfs:autofsck";
    assert!(place.check(&["getfattr", "-m", "-", "image:/"]).contains(property));
    place.check(&["setfattr", "-n", "user.note", "-v", "x", "image:/"]);
    place.check(&["tar", "-o", "out.tar", "image:/"]);
    let packed = fs::read(place.path("out.tar")).unwrap();
    let holds = |text: &str| packed.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(holds("user.note") && !holds(property));
    // A user that may not set the attribute gets no error either.
    place.check(&["cp", "-a", "--ignore-owner", "image:/", "out"]);
    let mut value = [0; 64];
    let got =
        |path: &str, value: &mut [u8]| rustix::fs::getxattr(place.path(path), property, value);
    assert!(got("out", &mut value).is_err());
    let without = ["mkfs", "-q", "-d", "size=320m", "-n", "parent=0", "other"];
    place.check(&without);
    place.check(&["import", "out.tar", "other"]);
    place.check(&["mkdir", "other:/sub"]);
    place.check(&["cp", "-a", "image:/", "other:/sub"]);
    for path in ["other:/", "other:/sub"] {
        let listed = place.check(&["getfattr", "-m", "-", path]);
        assert!(listed.contains("user.note") && !listed.contains(property), "{path}: {listed}");
    }
    // Only root can set it on a directory of the host.
    fs::create_dir(place.path("tree")).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(place.path("tree"), property, b"none", flags);
    place.check(&["import", "tree", "other"]);
    let listed = place.check(&["getfattr", "-m", "-", "other:/"]);
    assert!(!listed.contains(property), "{set:?}: {listed}");
}

/// Checks that the image that an import writes to is left out if it lies in the imported directory.
/// Otherwise the image would grow by its own contents.
#[test]
fn image_is_not_imported_into_itself() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    fs::write(place.path("tree/file"), "contents").unwrap();
    let left_out = "ferroxfs: tree/new: is the image that is written to, and is left out\n";
    let check_told = |arguments: &[&str], expected: &str| {
        let output = place.command(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        assert_eq!(told, expected);
        assert_eq!(place.check(&["find", "tree/new", "-printf", "%P "]), " file ");
    };
    let check = |arguments: &[&str]| check_told(arguments, left_out);
    // Until it is filled it has no name there.
    check_told(&["mkfs", "-q", "-dsize=300m", "--from", "tree", "tree/new"], "");
    check(&["mkfs", "-q", "-f", "-dsize=300m", "-ptree", "tree/new"]);
    check(&["import", "tree", "tree/new"]);
    place.check(&["import", "tree", "image:/tree"]);
    assert_eq!(place.check(&["find", "image:/tree", "-printf", "%P "]), " file new ");
    check(&["cp", "tree/new", "tree/file", "tree/new:/"]);
}

/// Checks the import of times before 1970. GNU tar writes them as negative numbers of base 256,
/// where other headers have octal digits.
#[test]
fn times_before_1970_come_in() {
    let place = VolumeDir::new();
    fs::create_dir(place.path("tree")).unwrap();
    let file = fs::File::create(place.path("tree/old")).unwrap();
    let old = std::time::UNIX_EPOCH - std::time::Duration::from_secs(315_619_200);
    file.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
    for format in ["--format=gnu", "--format=oldgnu", "--format=posix"] {
        pack(&place, "old.tar", &[format]);
        place.check(&["import", "old.tar", &format!("image:/{format}")]);
        let found = place.check(&["find", &format!("image:/{format}/old"), "-printf", "%T@"]);
        assert!(found.starts_with("-315619200."), "{format}: {found}");
    }
}

#[test]
fn unsupported_member_metadata_is_reported_with_its_name() {
    let place = VolumeDir::new();
    fs::create_dir_all(place.path("tree/d")).unwrap();
    fs::write(place.path("tree/d/f"), "f").unwrap();
    let with = |record: &str, message: &str| {
        pack(&place, "odd.tar", &["--format=posix", &format!("--pax-option={record}")]);
        place.check_failure(&["import", "odd.tar", "image:/d"], 1, message);
    };
    with("uid:=5000000000", "image: ./d/f: has the invalid uid 5000000000, and gets 0");
    with("mtime:=1e9", "image: ./d/f: has the invalid mtime 1e9, and is ignored");
    let message = "image: d/f: attribute user.a: value too long\n";
    let long = format!("SCHILY.xattr.user.a:={}", "x".repeat(70_000));
    with(&long, message);
    with("SCHILY.xattr.odd.a:=x", "image: d/f: attribute odd.a: ");
    with("SCHILY.xattr.odd.a:=x", "image: /: attribute odd.a: ");
    assert_eq!(place.check(&["cat", "image:/d/d/f"]), "f");
}

/// Packs `members` into `archive` with GNU tar, in this order. A member is given as
/// `DIRECTORY/NAME`: the file NAME of DIRECTORY becomes the member NAME.
fn pack_in_order(place: &VolumeDir, archive: &str, members: &[&str]) {
    let mut tar = Command::new("tar");
    tar.args(["--no-recursion", "-cf", archive]).current_dir(place.path(""));
    for member in members {
        let (directory, name) = member.split_once('/').unwrap();
        tar.arg("-C").arg(place.path(directory)).arg(name);
    }
    assert!(tar.status().unwrap().success());
}

/// Checks that a later member of an archive replaces an earlier one as in GNU tar. A directory
/// replaces any file, and any file replaces an empty directory.
#[test]
fn later_member_replaces_an_earlier_one() {
    let place = VolumeDir::new();
    for directory in ["directory/x", "file", "link", "linked"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    fs::write(place.path("directory/x/below"), "below").unwrap();
    fs::write(place.path("file/x"), "file").unwrap();
    fs::write(place.path("linked/a"), "linked").unwrap();
    fs::hard_link(place.path("linked/a"), place.path("linked/x")).unwrap();
    std::os::unix::fs::symlink("a", place.path("link/x")).unwrap();
    let members = |names: &str| {
        let known = |name| match name {
            "directory" | "file" | "link" => format!("{name}/x"),
            other => other.to_owned(),
        };
        names.split(' ').map(known).collect::<Vec<_>>()
    };
    for (number, (names, last)) in [
        ("file directory", "d"),
        ("link directory directory/x/below", "d"),
        ("directory file", "f"),
        ("directory link", "l"),
        ("directory file directory directory/x/below", "d"),
        ("directory linked/a linked/x", "f"),
    ]
    .into_iter()
    .enumerate()
    {
        let members = members(names);
        let members: Vec<_> = members.iter().map(String::as_str).collect();
        pack_in_order(&place, "order.tar", &members);
        let to = format!("image:/{number}");
        place.check(&["import", "order.tar", &to]);
        // The result of tar.
        let beside = place.path(&format!("tar {number}"));
        fs::create_dir(&beside).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&beside).arg("-xf").arg(place.path("order.tar"));
        assert!(tar.status().unwrap().success());
        let found = place.check(&["find", &format!("{to}/x"), "-maxdepth", "0", "-printf", "%y"]);
        assert_eq!(found, last, "{names}");
        place.check(&["cp", "-a", "--ignore-owner", &to, &format!("back {number}")]);
        let names = |path: &str| {
            let mut find = Command::new("find");
            let output =
                find.arg(place.path(path)).args(["-printf", "%y %P %l\n"]).output().unwrap();
            let mut lines: Vec<_> =
                String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(names(&format!("back {number}")), names(&format!("tar {number}")));
    }
    let full = ["directory/x", "directory/x/below", "file/x"];
    pack_in_order(&place, "full.tar", &full);
    place.check_failure(&["import", "full.tar", "image:/full"], 1, "image: x: directory not empty");
    assert_eq!(place.check(&["cat", "image:/full/x/below"]), "below");
    // A tree is copied as by cp(1), which does not replace across kinds.
    place.check(&["touch", "image:/tree"]);
    place.check_failure(&["cp", "-a", "directory/x", "image:/tree"], 1, "not a directory");
    place.check(&["log", "image"]);
}

/// Checks that the run ends if there is no space for an attribute, as with any other lack of space.
#[test]
fn attribute_without_space_ends_the_run() {
    let place = VolumeDir::new();
    for name in ["a", "b"] {
        fs::create_dir_all(place.path("tree").join(name)).unwrap();
    }
    let long = format!("SCHILY.xattr.user.a:={}", "x".repeat(60_000));
    pack(&place, "a.tar", &["--format=posix", &format!("--pax-option={long}")]);
    place.check(&["mkdir", "image:/a", "image:/b", "image:/full"]);
    let (mut bytes, mut files) = (320_u64 << 20, 0);
    while bytes >= 4096 {
        let (file, length) = (format!("image:/full/{files}"), bytes.to_string());
        let output = place.command(&["fallocate", "-l", &length, &file]).output().unwrap();
        match output.status.success() {
            true => files += 1,
            false => bytes /= 2,
        }
    }
    let output = place.command(&["import", "a.tar", "image"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let failures = said.lines().filter(|line| line.starts_with("ferroxfs: ")).count();
    assert_eq!((output.status.code(), failures), (Some(1), 1), "{said}");
    assert!(said.contains("attribute user.a: no space"), "{said}");
}

#[test]
fn empty_input_is_refused_and_an_empty_archive_accepted() {
    let place = VolumeDir::new();
    fs::write(place.path("nothing.tar"), "").unwrap();
    fs::write(place.path("end.tar"), [0; 10240]).unwrap();
    let said = "is empty, and not a tar archive";
    for source in ["nothing.tar", "-"] {
        place.check_failure(&["import", source, "image:/new"], 1, said);
        let arguments = ["mkfs", "-q", "-d", "size=320m", "--from", source, "made"];
        place.check_failure(&arguments, 1, said);
    }
    assert!(!place.path("made").exists());
    assert_eq!(place.check(&["ls", "image"]), "");
    place.check(&["import", "end.tar", "image"]);
    place.check(&["mkfs", "-q", "-d", "size=320m", "--from", "end.tar", "made"]);
}
