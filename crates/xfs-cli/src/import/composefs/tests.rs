//! Tests of reading dumps. The expected fs-verity digests come from `fsverity digest --compact` of
//! fsverity-utils 1.5.

use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{is_dump, unescape, verity};
use crate::file::source::Source;
use crate::import::archive::{ArchiveReader, MemberKind};

const DUMP: &str = "\
/ 4096 40755 4 1000 1001 0 1695372970.944925700 - - - security.selinux=root_t:s0\\x00
/a\\x20dir 27 40711 2 0 0 0 1.2 - - -
/a\\x20dir/file 5 100644 1 0 0 0 -1.1 large/object - @VERITY@ user.a\\x3db=c\\\\d
/link 18446744073709551615 120777 1 0 0 0 1.0 \\x2d - -
/hard 5 @100644 2 0 0 0 1.0 /a\\x20dir/file - -
/inline 10 100644 1 0 0 0 1.0 - some-text\\n -
/tty 0 20600 1 0 0 1281 1.0 - - -";

fn open(text: &str, objects: Option<&Path>) -> ArchiveReader {
    let input = Box::new(Cursor::new(text.as_bytes().to_vec()));
    let archive = ArchiveReader::open(input, b"dump", false).unwrap();
    archive.with_objects(objects).unwrap()
}

fn contents(member: &impl Source) -> Vec<u8> {
    let mut bytes = vec![0; member.facts().size as usize];
    if let Some(range) = member.data_after(0).unwrap() {
        let (start, end) = (range.start as usize, range.end as usize);
        member.read_at(&mut bytes[start..end], range.start).unwrap();
    }
    bytes
}

#[test]
fn members_have_what_the_lines_say() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("large")).unwrap();
    std::fs::write(place.path().join("large/object"), "hello").unwrap();
    let file = File::open(place.path().join("large/object")).unwrap();
    let digest = verity::digest(&file, 5).unwrap();
    let mut archive = open(&DUMP.replace("@VERITY@", &digest), Some(place.path()));
    let root = archive.next().unwrap().unwrap();
    let facts = root.facts();
    assert_eq!((root.path.as_slice(), facts.uid, facts.gid), (&b"/"[..], 1000, 1001));
    assert_eq!((facts.modified.seconds, facts.modified.nanoseconds), (1_695_372_970, 944_925_700));
    assert_eq!(root.attributes().remove(0).unwrap().value, b"root_t:s0\0");
    drop(root);
    let directory = archive.next().unwrap().unwrap();
    assert_eq!((&directory.path[..], &directory.kind), (&b"/a dir"[..], &MemberKind::Directory));
    drop(directory);
    let file = archive.next().unwrap().unwrap();
    assert_eq!((file.kind.clone(), contents(&file)), (MemberKind::File, b"hello".to_vec()));
    let attribute = file.attributes().remove(0).unwrap();
    assert_eq!((&attribute.name[..], &attribute.value[..]), (&b"user.a=b"[..], &b"c\\d"[..]));
    drop(file);
    let link = archive.next().unwrap().unwrap();
    assert_eq!((link.target().unwrap(), link.facts().size), (b"-".to_vec(), 1));
    drop(link);
    let link = archive.next().unwrap().unwrap();
    assert_eq!(link.kind, MemberKind::HardLink(b"/a dir/file".to_vec()));
    assert!(!link.has_contents());
    drop(link);
    assert_eq!(contents(&archive.next().unwrap().unwrap()), b"some-text\n");
    assert_eq!(archive.next().unwrap().unwrap().facts().device, (5, 1));
    assert!(archive.next().unwrap().is_none());
    assert_eq!(archive.take_remarks().len(), 1, "the volume keeps no digests");
}

#[test]
fn files_without_their_contents_are_left_out() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("object"), "hello").unwrap();
    symlink("/etc/passwd", place.path().join("out")).unwrap();
    let check = |fields: &str, objects: Option<&Path>, said: &str| {
        let text = format!("/ 0 40755 1 0 0 0 1.0 - - -\n/f {fields}\n");
        let mut archive = open(&text, objects);
        archive.next().unwrap();
        match archive.next().unwrap().unwrap().kind {
            MemberKind::LeftOut(reason) => assert!(reason.contains(said), "{fields}: {reason}"),
            kind => panic!("{fields}: {kind:?}"),
        }
    };
    let objects = Some(place.path());
    check("5 100644 1 0 0 0 1.0 object - -", None, "--composefs-objects");
    check("6 100644 1 0 0 0 1.0 object - -", objects, "has 5 bytes");
    check("5 100644 1 0 0 0 1.0 object - 00", objects, "another digest");
    check("5 100644 1 0 0 0 1.0 none - -", objects, "No such file");
    check("5 100644 1 0 0 0 1.0 out - -", objects, "object out");
    check("5 100644 1 0 0 0 1.0 ../object - -", objects, "object ../object");
    check("5 100644 1 0 0 0 1.0 - four -", objects, "another size");
    check("0 644 1 0 0 0 1.0 - - -", objects, "without a type");
}

#[test]
fn invalid_lines_end_the_dump() {
    for line in [
        "",
        "/f",
        "f 0 100644 1 0 0 0 1.0 - - -",
        "/f x 100644 1 0 0 0 1.0 - - -",
        "/f 0 100649 1 0 0 0 1.0 - - -",
        "/f 0 100644 1 -1 0 0 1.0 - - -",
        "/f 0 100644 1 0 0 0 1 - - -",
        "/f 0 100644 1 0 0 0 1.1000000000 - - -",
        "/f 0 100644 1 0 0 0 1.0 - \\q -",
        "/f 0 100644 1 0 0 0 1.0 - - - attribute",
    ] {
        let mut archive = open(&format!("/ 0 40755 1 0 0 0 1.0 - - -\n{line}\n"), None);
        archive.next().unwrap();
        let failed = archive.next().err().map(|failure| failure.to_string());
        assert!(failed.is_some_and(|said| said.contains("line 2 is not a line")), "{line:?}");
    }
}

#[test]
fn dumps_are_recognised_and_escapes_replaced() {
    assert!(is_dump(DUMP.as_bytes()));
    for text in ["", "/", "/ 1 2 3", "/a 1 40755 1", "/ 1 40755x 1", "/ 1 40755", "// 1 40755 1 "] {
        assert!(!is_dump(text.as_bytes()), "{text:?}");
    }
    assert_eq!(unescape(b"a\\x00\\\\\\n\\r\\t-").unwrap(), b"a\0\\\n\r\t-");
    for text in ["\\", "\\x", "\\x0", "\\xgg", "\\a"] {
        assert_eq!(unescape(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn digests_are_those_of_fsverity() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("f");
    for (length, expected) in [
        (0, "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"),
        (1, "bce75948b9e7510293f8f2720412af9697c1479281323f3f220623fb8e94b557"),
        (4096, "a2a808ddaced77f0b6b3068f47b14b5a1fb3fc43674993ab11b8e7e6f2d089e2"),
        (4097, "18b155c0b6e054f3f7d22488ed15340e74dc161ce2d123e13eb685c3ce565f70"),
        (524_288, "35ce0df2a57eb54aeba7969570bac9dfadfac295ec181a03f13ac7a7da54909e"),
        (524_289, "cc4f297494cf9e0b6f159db6d30a62d3fcc219fc9c0cbc2d8792bd264da4d9cb"),
        (600_000, "1dbcfd45ca6c4a34e3bdd875ae84c6624a0cbe31327e0d5ddb6e08b89a9140ab"),
    ] {
        std::fs::write(&path, vec![b'a'; length]).unwrap();
        let found = verity::digest(&File::open(&path).unwrap(), length as u64).unwrap();
        assert_eq!(found, expected, "{length}");
    }
}
