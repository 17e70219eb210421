//! Tests of the import of archives, compared with GNU tar, bsdtar, cpio and Docker.

mod comparison;
mod decisions;
mod generator;
pub(crate) mod writer;

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use writer::{Head, Writer};

use crate::changing::VolumeDir;

/// Writes the archive `name`, with members that `make` adds.
fn write(place: &VolumeDir, name: &str, make: impl Fn(&mut Writer)) {
    let mut writer = Writer::new(7);
    make(&mut writer);
    writer.end();
    fs::write(place.path(name), writer.bytes()).unwrap();
}

/// Checks that a command ends with this exit code and prints exactly these lines on standard error.
#[track_caller]
fn check_said(place: &VolumeDir, arguments: &[&str], code: i32, said: &[&str]) {
    let output = place.command(arguments).stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((output.status.code(), lines.as_slice()), (Some(code), said), "{arguments:?}");
}

#[test]
fn metadata_that_cannot_be_applied_costs_no_contents() {
    let place = VolumeDir::new();
    write(&place, "a.tar", |to| {
        to.pax(&[(
            "SCHILY.acl.access",
            "user::rw-,user:no-such-user:rwx,group::r--,mask::rwx,other::r--",
        )]);
        to.file("list", b"1");
        to.pax(&[("uid", "5000000000")]);
        to.add(&Head { mode: *b"0004755\0", ..Head::new("owner") }, b"2");
        to.pax(&[("LIBARCHIVE.xattr.user.a", "?")]);
        to.file("attribute", b"3");
        to.raw(&Head { kind: b'x', ..Head::new("x") }, b"99 not a record\n");
        to.file("records", b"4");
        to.add(&Head { mtime: *b"99999999999\0", ..Head::new("time") }, b"5");
    });
    let said = [
        "ferroxfs: image: list: access control list: user no-such-user is not known, and its entry is left out",
        "ferroxfs: image: owner: has the invalid uid 5000000000, and gets 0",
        "ferroxfs: image: attribute: attribute user.a is not base64, and is left out",
        "ferroxfs: image: records: has invalid extended records, which are ignored",
        "ferroxfs: image: time: has the invalid mtime 99999999999, and gets 1970-01-01",
    ];
    check_said(&place, &["import", "a.tar", "image"], 1, &said);
    let files =
        ["image:/list", "image:/owner", "image:/attribute", "image:/records", "image:/time"];
    assert_eq!(place.check(&[&["cat"], &files[..]].concat()), "12345");
    assert_eq!(place.check(&["find", "image:/owner", "-printf", "%m %U"]), "755 0");
    assert!(place.check(&["getfacl", "image:/list"]).contains("group::r--\nmask::rwx\n"));
}

/// Checks that an access control list overrides the mode in the header. In the mode of the header,
/// the group bits are the permissions of the owning group. In the mode of a file with a list, they
/// are the mask of the list.
#[test]
fn access_lists_override_the_header_mode() {
    let place = VolumeDir::new();
    let list = "user::rw-,user:77:rwx,group::r--,mask::rwx,other::r--";
    write(&place, "a.tar", |to| {
        to.pax(&[("SCHILY.acl.access", list)]);
        to.file("f", b"x");
        to.pax(&[("SCHILY.acl.access", list), ("SCHILY.acl.default", list)]);
        to.directory("d");
        to.pax(&[("SCHILY.acl.access", "user::r--,group::---,other::---")]);
        to.file("plain", b"x");
    });
    place.check(&["import", "a.tar", "image"]);
    for path in ["image:/f", "image:/d"] {
        let text = place.check(&["getfacl", path]);
        assert!(text.contains("user:77:rwx\ngroup::r--\nmask::rwx\n"), "{text}");
    }
    assert_eq!(place.check(&["find", "image:/f", "image:/plain", "-printf", "%m "]), "674 400 ");
}

#[test]
fn members_below_a_link_go_where_it_leads_inside() {
    let place = VolumeDir::new();
    write(&place, "base.tar", |to| {
        to.directory("usr/lib");
        to.link("lib", "usr/lib");
        to.link("abs", "/usr/lib");
        to.link("out", "../../../../usr");
        to.link("chain", "abs/../lib");
        to.link("later", "not/yet");
        to.link("circle", "circle");
        to.file("plain", b"");
    });
    place.check(&["import", "base.tar", "image:/top"]);
    write(&place, "layer.tar", |to| {
        to.file("lib/modules/m", b"1");
        to.file("abs/a", b"2");
        to.file("out/o", b"3");
        to.file("chain/c", b"4");
        to.file("later/l", b"5");
        to.hard_link("lib/h", "chain/c");
        to.file("lib/./x/../y", b"6");
        to.file("lib/../z", b"7");
        to.file("missing/../in", b"8");
    });
    place.check(&["import", "layer.tar", "image:/top"]);
    let found = [
        "usr/lib/modules/m",
        "usr/lib/a",
        "usr/o",
        "usr/lib/c",
        "not/yet/l",
        "usr/lib/h",
        "usr/lib/y",
        "usr/z",
        "in",
    ];
    let found = found.map(|path| format!("image:/top/{path}"));
    let arguments: Vec<_> = ["cat"].into_iter().chain(found.iter().map(String::as_str)).collect();
    assert_eq!(place.check(&arguments), "123454678");
    assert_eq!(place.check(&["ls", "image"]), "top\n");
    assert!(!place.check(&["ls", "image:/top"]).contains("missing"));
    write(&place, "bad.tar", |to| {
        to.file("circle/x", b"");
        to.file("plain/x", b"");
        to.file("../x", b"");
        to.file("lib/../../x", b"");
        to.hard_link("h", "../plain");
    });
    let said = [
        "ferroxfs: image: circle/x: is below more than 40 symbolic links",
        "ferroxfs: image: plain/x: not a directory",
        "ferroxfs: image: ../x: leads out of the archive, and is left out",
        "ferroxfs: image: h: is a link to ../plain, which leads out of the archive, and is left out",
    ];
    check_said(&place, &["import", "bad.tar", "image:/top"], 1, &said);
    assert_eq!(place.check(&["readlink", "image:/top/lib"]), "usr/lib\n");
}

#[test]
fn directories_replace_links_unless_they_are_kept() {
    let place = VolumeDir::new();
    let base = |to: &mut Writer| {
        to.add(&Head { mode: *b"0000711\0", ..Head::directory("usr/lib") }, b"");
        to.link("lib", "usr/lib");
        to.link("dangling", "nothing");
        to.link("file", "plain");
        to.file("plain", b"");
    };
    let layer = |to: &mut Writer| {
        to.directory("lib");
        to.file("lib/f", b"x");
        to.directory("dangling");
        to.directory("file");
    };
    write(&place, "base.tar", base);
    write(&place, "layer.tar", layer);
    for (to, options) in [("image:/a", &[][..]), ("image:/b", &["--keep-directory-symlink"])] {
        place.check(&["import", "base.tar", to]);
        place.check(&[&["import"], options, &["layer.tar", to]].concat());
        let is_kept = !options.is_empty();
        let kinds = |path: &str| {
            let path = format!("{to}/{path}");
            place.check(&["find", &path, "-maxdepth", "0", "-printf", "%y%m"])
        };
        assert_eq!(kinds("lib"), if is_kept { "l777" } else { "d755" });
        assert_eq!(kinds("usr/lib"), "d711", "the target of a kept link is left alone");
        assert_eq!((kinds("dangling"), kinds("file")), ("d755".into(), "d755".into()));
        let below = if is_kept { "usr/lib/f" } else { "lib/f" };
        assert_eq!(place.check(&["cat", &format!("{to}/{below}")]), "x");
    }
    // mkfs reads one archive with the same members.
    write(&place, "both.tar", |to| {
        base(to);
        layer(to);
    });
    let options =
        ["mkfs", "-q", "-d", "size=320m", "--keep-directory-symlink", "--from", "both.tar", "made"];
    place.check(&options);
    assert_eq!(place.check(&["cat", "made:/usr/lib/f"]), "x");
}

#[test]
fn impossible_names_are_reported() {
    let place = VolumeDir::new();
    write(&place, "a.tar", |to| {
        to.file("", b"abc");
        to.directory("");
        to.file(".", b"abc");
        to.file("/", b"abc");
        to.pax(&[("path", "a\0b")]);
        to.file("x", b"abc");
        to.file("a/..", b"abc");
        to.add(&Head { mode: *b"0000700\0", ..Head::directory("./") }, b"");
        to.file("after", b"1");
    });
    let said = [
        "ferroxfs: a.tar: a member with an empty name is left out",
        "ferroxfs: image: .: has the name of a directory, and is left out",
        "ferroxfs: image: 'a'$'\\000''b': has a name with a zero byte, and is left out",
        "ferroxfs: image: a/..: has the name of a directory, and is left out",
    ];
    let output = place.command(&["import", "a.tar", "image"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    for line in said {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(place.check(&["find", "image", "-printf", "%P %m,"]), " 700,after 644,");
}

/// Compresses a file with a program and returns the result; `None` if the program is missing.
fn compress(place: &VolumeDir, program: &[&str], from: &str) -> Option<Vec<u8>> {
    let (name, options) = program.split_first().unwrap();
    let input = fs::File::open(place.path(from)).unwrap();
    let output = Command::new(name).args(options).stdin(input).output().ok()?;
    assert!(output.status.success());
    Some(output.stdout)
}

const COMPRESSIONS: [&[&str]; 7] = [
    &["gzip", "-c"],
    &["xz", "-0c"],
    &["zstd", "-qc"],
    &["bzip2", "-c"],
    &["lz4", "-qc"],
    &["lz4", "-lqc"],
    &["zstd", "-qc", "--no-check"],
];

#[test]
fn compressed_archives_are_recognised_by_their_contents() {
    let place = VolumeDir::new();
    let long: Vec<u8> = (0..700_000_u32).map(|at| (at / 7 % 251) as u8).collect();
    write(&place, "a.tar", |to| to.file("f", &long));
    let plain = fs::read(place.path("a.tar")).unwrap();
    let (front, back) = plain.split_at(300_000);
    fs::write(place.path("front"), front).unwrap();
    fs::write(place.path("back"), back).unwrap();
    let mut tried = 0;
    for (number, program) in COMPRESSIONS.iter().enumerate() {
        let Some(whole) = compress(&place, program, "a.tar") else { continue };
        tried += 1;
        let is_legacy = program.contains(&"-lqc");
        fs::write(place.path("whole"), &whole).unwrap();
        let to = format!("image:/{number}");
        place.check(&["import", "whole", &to]);
        place.check(&["get", "-o", "out", &format!("{to}/f")]);
        assert!(fs::read(place.path("out")).unwrap() == long, "{program:?}");
        // Members that follow each other, on standard input.
        let mut two = compress(&place, program, "front").unwrap();
        two.extend(compress(&place, program, "back").unwrap());
        if !is_legacy {
            let mut import = place.command(&["import", "-", &format!("image:/two-{number}")]);
            let mut child = import.stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(&two).unwrap();
            assert!(child.wait().unwrap().success(), "{program:?}");
            place.check(&["get", "-o", "out", &format!("image:/two-{number}/f")]);
            assert!(fs::read(place.path("out")).unwrap() == long, "{program:?}");
        }
        let end = whole.len() / 2;
        fs::write(place.path("cut"), &whole[..end]).unwrap();
        let said = format!("its {} data is cut off: it ends at byte {end}", program[0]);
        if !is_legacy {
            place.check_failure(&["import", "cut", &format!("image:/cut-{number}")], 1, &said);
            // The cut file is gone, and so is the directory that was created for it.
            assert!(!place.check(&["ls", "image"]).contains("cut"));
        }
    }
    assert!(tried >= 3, "gzip, xz and bzip2 are everywhere");
    let twice = compress(&place, &["gzip", "-c"], "whole").unwrap();
    fs::write(place.path("twice"), twice).unwrap();
    place.check_failure(&["import", "twice", "image"], 1, "data inside of gzip data");
    place.check(&["log", "image"]);
}

/// Checks the import of an archive that is cut off. The members before the cut exist, directories
/// have their metadata, and one line on standard error reports the cut.
#[test]
fn cut_archives_leave_complete_members_and_directories() {
    let place = VolumeDir::new();
    write(&place, "a.tar", |to| {
        to.add(
            &Head { mode: *b"0000711\0", mtime: *b"00000001750\0", ..Head::directory("d") },
            b"",
        );
        to.file("d/whole", &[7; 5000]);
        to.file("d/cut", &[7; 5000]);
    });
    let bytes = fs::read(place.path("a.tar")).unwrap();
    fs::write(place.path("cut.tar"), &bytes[..9000]).unwrap();
    let said = ["ferroxfs: cut.tar: ends in the middle of a member"];
    check_said(&place, &["import", "cut.tar", "image"], 1, &said);
    let found = place.check(&["find", "image", "-mindepth", "1", "-printf", "%P %m %s %T@,"]);
    assert!(
        found.starts_with("d 711 19 1000.") && found.contains(",d/whole 644 5000 0."),
        "{found}"
    );
    assert!(!found.contains("d/cut"));
}

/// Packs `tree` with cpio(1) into an archive of this format, and returns the archive. `names` are
/// the names of the files, one per line.
fn cpio(place: &VolumeDir, format: &str, names: &str) -> Vec<u8> {
    let mut child = Command::new("cpio")
        .args(["-o", "--quiet", "-H", format])
        .current_dir(place.path("tree"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(names.as_bytes()).unwrap();
    child.wait_with_output().unwrap().stdout
}

#[test]
fn cpio_archives_come_in_whole() {
    let place = VolumeDir::new();
    if Command::new("cpio").arg("--version").output().is_err() {
        return;
    }
    let tree = place.path("tree");
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/f"), "contents of f").unwrap();
    fs::hard_link(tree.join("d/f"), tree.join("d/g")).unwrap();
    fs::hard_link(tree.join("d/f"), tree.join("h")).unwrap();
    symlink("d/f", tree.join("l")).unwrap();
    let touched = Command::new("find")
        .arg(&tree)
        .args(["-exec", "touch", "-hd", "@1500000000", "{}", "+"])
        .status();
    assert!(touched.unwrap().success());
    let names = "d\nd/f\nd/g\nh\nl\n";
    for format in ["newc", "crc", "odc"] {
        fs::write(place.path("a.cpio"), cpio(&place, format, names)).unwrap();
        let to = format!("image:/{format}");
        place.check(&["import", "a.cpio", &to]);
        let back = format!("back-{format}");
        place.check(&["cp", "-a", "--ignore-owner", &to, &back]);
        let rows = |path: &Path| {
            let options = ["-mindepth", "1", "-printf", "%P %y %m %n %T@ %l\n"];
            let output = Command::new("find").arg(path).args(options).output().unwrap();
            let mut lines: Vec<_> =
                String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(rows(&place.path(&back)), rows(&tree), "{format}");
        for file in ["d/f", "d/g", "h"] {
            assert_eq!(place.check(&["cat", &format!("{to}/{file}")]), "contents of f");
        }
    }
    // As in an initramfs: an uncompressed archive, and then a compressed one.
    fs::write(place.path("rest"), cpio(&place, "newc", "l\n")).unwrap();
    let mut both = cpio(&place, "newc", "d\nd/f\n");
    both.extend(compress(&place, &["xz", "-c"], "rest").unwrap());
    fs::write(place.path("both"), both).unwrap();
    place.check(&["mkfs", "-q", "-d", "size=320m", "--from", "both", "initramfs"]);
    assert_eq!(place.check(&["find", "initramfs", "-printf", "%P "]), " d d/f l ");
}

#[test]
fn data_after_zeros_is_reported() {
    let place = VolumeDir::new();
    let mut bytes = Vec::new();
    for name in ["a", "b"] {
        let mut writer = Writer::new(7);
        writer.file(name, b"x");
        writer.end();
        bytes.extend_from_slice(writer.bytes());
    }
    fs::write(place.path("two.tar"), &bytes).unwrap();
    let said = [
        "ferroxfs: two.tar: another archive follows the end, at byte 2048, and is left out",
        "hint: import --ignore-zeros continues after zeros",
    ];
    check_said(&place, &["import", "two.tar", "image:/one"], 1, &said);
    check_said(&place, &["import", "--ignore-zeros", "two.tar", "image:/two"], 0, &[]);
    assert_eq!(
        place.check(&["ls", "image:/one"]) + &place.check(&["ls", "image:/two"]),
        "a\na\nb\n"
    );
    fs::write(place.path("lone.tar"), [&bytes[..1024], &[0; 512]].concat()).unwrap();
    let said = ["ferroxfs: lone.tar: a lone block of zeros at byte 1024 ends the archive"];
    check_said(&place, &["import", "lone.tar", "image:/lone"], 0, &said);
}

#[test]
fn unknown_keywords_are_reported_once_without_failure() {
    let place = VolumeDir::new();
    write(&place, "a.tar", |to| {
        for name in ["a", "b"] {
            to.pax(&[("VENDOR.odd", "1"), ("comment", "no word of it")]);
            to.file(name, b"x");
        }
    });
    let said = ["ferroxfs: a.tar: pax keyword VENDOR.odd is not known, and is ignored"];
    check_said(&place, &["import", "a.tar", "image"], 0, &said);
    assert_eq!(place.check(&["ls", "image"]), "a\nb\n");
}
