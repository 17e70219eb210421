use std::io::Cursor;

use tar::{EntryType, Header};

use super::{ArchiveReader, Member, MemberKind};
use crate::file::facts::Time;
use crate::file::source::Source;
use crate::import::tar::records::ExtendedRecords;

/// Returns the bytes of a member: its header, and its contents, padded to a block.
fn member(kind: EntryType, name: &str, body: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_size(body.len() as u64);
    header.set_mode(0o640);
    header.set_mtime(1000);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn record(keyword: &str, value: &str) -> String {
    let rest = keyword.len() + value.len() + 2;
    let length = (rest..).find(|length| length.to_string().len() + rest + 1 == *length);
    format!("{} {keyword}={value}\n", length.unwrap())
}

/// Returns the bytes of an archive member: a regular file, with these extended records before its
/// header.
fn extended(records: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let records: String = records.iter().map(|(keyword, value)| record(keyword, value)).collect();
    let head = member(EntryType::XHeader, "PaxHeaders/f", records.as_bytes());
    [head, member(EntryType::Regular, "f", body)].concat()
}

/// Reads the contents of a member and returns them, with zeros for holes.
fn contents(member: &Member<'_>) -> Vec<u8> {
    let mut bytes = vec![0; member.facts().size as usize];
    let mut offset = 0;
    while let Some(range) = member.data_after(offset).unwrap() {
        member.read_at(&mut bytes[range.start as usize..range.end as usize], range.start).unwrap();
        offset = range.end;
    }
    bytes
}

/// Opens an archive with these bytes.
#[track_caller]
fn open(bytes: &[u8]) -> ArchiveReader {
    ArchiveReader::open(Box::new(Cursor::new(bytes.to_vec())), b"archive", false).unwrap()
}

/// Returns the reason why an archive is refused, when it is opened or when its members are read.
fn refusal(bytes: &[u8]) -> String {
    let opened = ArchiveReader::open(Box::new(Cursor::new(bytes.to_vec())), b"archive", false);
    let mut archive = match opened {
        Ok(archive) => archive,
        Err(failure) => return failure.to_string(),
    };
    loop {
        match archive.next() {
            Ok(Some(_)) => {}
            Ok(None) => return String::new(),
            Err(failure) => return failure.to_string(),
        }
    }
}

#[test]
fn members_come_in_their_order() {
    let bytes = [
        member(EntryType::Directory, "d/", b""),
        member(EntryType::Regular, "d/f", &[7; 700]),
        member(EntryType::Regular, "d/unread", &[7; 1024]),
        member(EntryType::Regular, "old/", b""),
        vec![0; 1024],
        b"behind the end".to_vec(),
    ]
    .concat();
    let mut archive = open(&bytes);
    let directory = archive.next().unwrap().unwrap();
    assert_eq!((directory.path.as_slice(), &directory.kind), (&b"d/"[..], &MemberKind::Directory));
    let file = archive.next().unwrap().unwrap();
    assert_eq!(contents(&file), [7; 700]);
    assert_eq!((file.facts().mode, file.facts().modified.seconds), (0o100_640, 1000));
    assert_eq!(archive.next().unwrap().unwrap().path, b"d/unread");
    assert_eq!(archive.next().unwrap().unwrap().kind, MemberKind::Directory);
    assert!(archive.next().unwrap().is_none());
}

#[test]
fn extended_records_override_the_header() {
    let long = "n".repeat(300);
    let records = [
        ("path", long.as_str()),
        ("uid", "3000000000"),
        ("mtime", "-1.25"),
        ("SCHILY.xattr.user.a%3Db%25", "x\ny"),
        ("SCHILY.xattr.trusted.SGI_ACL_FILE", "?"),
        ("SCHILY.xattr.trusted.xfs:autofsck", "repair"),
        ("SCHILY.acl.access", "user::rw-,user:nobody-known:r--:7,group::r--,mask::r--,other::---"),
    ];
    let bytes = extended(&records, b"x");
    let mut archive = open(&bytes);
    let file = archive.next().unwrap().unwrap();
    assert_eq!(file.path, long.as_bytes());
    assert_eq!(file.facts().uid, 3_000_000_000);
    let quarter = Time { seconds: -2, nanoseconds: 750_000_000 };
    assert_eq!((file.facts().modified, file.facts().accessed), (quarter, quarter));
    let attributes: Vec<_> = file.attributes().into_iter().map(Result::unwrap).collect();
    let names: Vec<_> = attributes.iter().map(|attribute| attribute.name.as_slice()).collect();
    assert_eq!(names, [b"user.a=b%".as_slice(), b"system.posix_acl_access"]);
    assert_eq!(attributes[0].value, b"x\ny");
    let list = crate::text::acl::value_text(&attributes[1].value).unwrap();
    assert_eq!(list, "user::rw-,user:7:r--,group::r--,mask::r--,other::---");
}

/// Checks the times that are read from time fields of headers. The fields are those that GNU tar
/// 1.34 writes for files with these times.
#[test]
fn times_before_1970_are_read() {
    for (field, seconds) in [
        (*b"\xff\xff\xff\xff\xff\xff\xff\xff\xed\x30\x08\x80", -315_619_200),
        (*b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", -1),
        (*b"\x80\x00\x00\x00\x00\x00\x00\x02\x54\x0b\xe4\x00", 10_000_000_000),
        (*b"00000001750\0", 1000),
        ([0; 12], 0),
    ] {
        let bytes = with_header(|header| header.as_old_mut().mtime = field);
        let mut archive = open(&bytes);
        let file = archive.next().unwrap().unwrap();
        let time = Time { seconds, nanoseconds: 0 };
        assert_eq!((&file.kind, file.facts().modified), (&MemberKind::File, time));
    }
}

/// Returns an archive with two members. `change` has changed the header of the first one.
fn with_header(change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut header = Header::from_byte_slice(&member(EntryType::Regular, "f", b"")).clone();
    change(&mut header);
    header.set_cksum();
    [header.as_bytes().as_slice(), &member(EntryType::Regular, "g", b"")].concat()
}

/// Takes the problems of a member (its invalid metadata, and notes) and returns their messages.
fn problems(member: &mut Member<'_>) -> Vec<String> {
    let problems = member.take_problems();
    problems.iter().map(|problem| problem.to_string().replace("ferroxfs: ", "")).collect()
}

/// Checks that the first member of an archive is read as a file whose only problem is `said`, and
/// that the second member has no problem.
#[track_caller]
fn check_said(bytes: &[u8], said: &str) {
    let mut archive = open(bytes);
    let mut first = archive.next().unwrap().unwrap();
    assert_eq!(problems(&mut first), [said]);
    assert_eq!(first.kind, MemberKind::File);
    drop(first);
    let mut second = archive.next().unwrap().unwrap();
    assert_eq!(problems(&mut second), [""; 0]);
    assert_eq!(second.kind, MemberKind::File);
}

/// Checks I2 of `xfs_cli::import::archive`: a member with invalid metadata keeps its contents.
#[test]
fn invalid_metadata_is_reported_and_the_member_kept() {
    for (keyword, value, said) in [
        ("uid", "5000000000", ", and gets 0"),
        ("uid", "4294967295", ", and gets 0"),
        ("gid", "-1", ", and gets 0"),
        ("gid", "root", ", and gets 0"),
        ("mtime", "1e9", ", and is ignored"),
        ("mtime", "--5", ", and is ignored"),
        ("mtime", "1.5x", ", and is ignored"),
        ("mtime", "-", ", and is ignored"),
        ("atime", "99999999999999999999", ", and is ignored"),
        ("mtime", "99999999999", ", which XFS cannot store, and gets the nearest time"),
    ] {
        let good = member(EntryType::Regular, "g", b"");
        let bytes = [extended(&[(keyword, value)], b"contents"), good].concat();
        let invalid = if said.contains("XFS") { "" } else { "invalid " };
        check_said(&bytes, &format!("has the {invalid}{keyword} {value}{said}"));
    }
    let id = |id: [u8; 8]| {
        move |header: &mut Header| {
            header.as_old_mut().uid = id;
            header.set_mode(0o6755);
        }
    };
    let none = with_header(id([0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]));
    check_said(&none, "has the invalid uid 4294967295, and gets 0");
    let negative = with_header(id([0xff; 8]));
    check_said(&negative, "has the invalid uid -1, and gets 0");
    let facts = open(&negative).next().unwrap().unwrap().facts();
    assert_eq!((facts.mode, facts.uid), (0o100_755, 0), "it acts as no other user");
    let odd = with_header(id(*b"12345x7\0"));
    check_said(&odd, "has the invalid uid 12345x7, and gets 0");
    let mode = with_header(|header| header.as_old_mut().mode = *b"0009000\0");
    check_said(&mode, "has the invalid mode 0009000: only its owner gets permissions");
    let size = extended(&[("size", "8x")], b"contents");
    assert!(refusal(&size).contains("f: has the invalid size 8x"));
    let negative = with_header(|header| header.as_old_mut().size = [0xff; 12]);
    assert!(refusal(&negative).contains("f: has the invalid size -1"));
}

#[test]
fn empty_and_odd_fields_are_numbers() {
    for (field, uid) in [
        (*b"\0\0\0\0\0\0\0\0", 0),
        (*b"        ", 0),
        (*b"   12 \0\0", 0o12),
        (*b"00000017", 0o17),
        (*b"17\0junk\0", 0o17),
        (*b"17 junk ", 0o17),
        (*b"\x80\0\0\0\x80\0\0\x01", 0x8000_0001),
    ] {
        let bytes = with_header(|header| header.as_old_mut().uid = field);
        let mut archive = open(&bytes);
        let mut file = archive.next().unwrap().unwrap();
        assert_eq!((problems(&mut file), file.facts().uid), (Vec::new(), uid), "{field:?}");
    }
    let bytes = with_header(|header| {
        let old = header.as_old_mut();
        (old.size, old.mtime, old.mode) = ([0; 12], [b' '; 12], [0; 8]);
    });
    let mut archive = open(&bytes);
    assert_eq!(archive.next().unwrap().unwrap().facts().mode, 0o100_000);
    assert_eq!(archive.next().unwrap().unwrap().path, b"g");
}

/// Checks that the size of a link, a directory or a device is ignored: no contents follow.
#[test]
fn sizes_of_members_without_contents_are_ignored() {
    use EntryType::{Block, Char, Directory, Fifo, Link, Symlink};
    for kind in [Link, Symlink, Directory, Char, Block, Fifo] {
        let mut header = Header::from_byte_slice(&member(kind, "f", b"")).clone();
        header.set_size(700);
        header.set_link_name("t").unwrap();
        header.set_cksum();
        let bytes = [header.as_bytes(), &member(EntryType::Regular, "g", b"x")[..]].concat();
        let mut archive = open(&bytes);
        let first = archive.next().unwrap().unwrap();
        assert!(!first.has_contents(), "{kind:?}");
        drop(first);
        let second = archive.next().unwrap().unwrap();
        assert_eq!((second.path.as_slice(), contents(&second)), (&b"g"[..], b"x".to_vec()));
    }
    // libarchive stores the contents of a hard link in pax archives.
    let mut header = Header::from_byte_slice(&member(Link, "l", b"hello")[..512]).clone();
    header.set_link_name("f").unwrap();
    header.set_cksum();
    let body = &member(Link, "l", b"hello")[512..];
    let bytes = [header.as_bytes(), body, &member(EntryType::Regular, "g", b"x")[..]].concat();
    let mut archive = open(&bytes);
    let link = archive.next().unwrap().unwrap();
    assert_eq!(link.kind, MemberKind::HardLink(b"f".to_vec()));
    assert_eq!(contents(&link), b"hello");
    drop(link);
    assert_eq!(archive.next().unwrap().unwrap().path, b"g");
}

/// Returns the attributes of a regular file that has these records, and the messages of its
/// problems.
fn attributes_of(records: &[(&str, &str)]) -> (Vec<(String, String)>, Vec<String>) {
    let bytes = extended(records, b"");
    let mut archive = open(&bytes);
    let mut file = archive.next().unwrap().unwrap();
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let attributes = file.attributes().into_iter().map(Result::unwrap);
    let attributes = attributes.map(|attribute| (text(&attribute.name), text(&attribute.value)));
    (attributes.collect(), problems(&mut file))
}

#[test]
fn attributes_come_from_every_keyword() {
    let check = |records: &[(&str, &str)], expected: &[(&str, &str)]| {
        let (found, said) = attributes_of(records);
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!((found, said), (expected, Vec::<String>::new()), "{records:?}");
    };
    let label = ("RHT.security.selinux", "system_u:object_r:etc_t:s0");
    check(&[label], &[("security.selinux", "system_u:object_r:etc_t:s0\\x00")]);
    let exact = ("SCHILY.xattr.security.selinux", "exact");
    check(&[label, exact], &[("security.selinux", "exact")]);
    check(&[("LIBARCHIVE.xattr.user.a%20b%3D", "AP8K")], &[("user.a b=", "\\x00\\xff\\n")]);
    check(&[("LIBARCHIVE.xattr.user.p", "eA")], &[("user.p", "x")]);
    check(&[("LIBARCHIVE.xattr.user.p", "eA==")], &[("user.p", "x")]);
    check(&[("SCHILY.xattr.user.e", "")], &[("user.e", "")]);
    // libarchive escapes the name only in its own keyword.
    let both = [("LIBARCHIVE.xattr.user.a%253D", "eA"), ("SCHILY.xattr.user.a%3D", "x")];
    check(&both, &[("user.a%3D", "x")]);
    let (found, said) = attributes_of(&[("LIBARCHIVE.xattr.user.bad", "??"), ("uid", "7")]);
    assert_eq!(found, []);
    assert_eq!(said, ["attribute user.bad is not base64, and is left out"]);
}

#[test]
fn lists_of_unknown_users_keep_the_other_entries() {
    let text = "user::rw-,user:no-such-user:rwx,user:no-one:r--:7,group::r--,mask::rwx,other::r--";
    let bytes = extended(&[("SCHILY.acl.access", text)], b"");
    let mut archive = open(&bytes);
    let mut file = archive.next().unwrap().unwrap();
    let said = "access control list: user no-such-user is not known, and its entry is left out";
    assert_eq!(problems(&mut file), [said]);
    let list = crate::text::acl::value_text(&file.attributes().remove(0).unwrap().value).unwrap();
    assert_eq!(list, "user::rw-,user:7:r--,group::r--,mask::rwx,other::r--");
    drop(file);
    let (found, said) = attributes_of(&[("SCHILY.acl.access", "nobody")]);
    assert_eq!(found, []);
    assert_eq!(said.last().unwrap(), "has the invalid access control list nobody, and is left out");
}

#[test]
fn flags_creation_and_large_devices_are_taken() {
    let records = [
        ("SCHILY.fflags", "nodump,schg,compress"),
        ("LIBARCHIVE.creationtime", "5.5"),
        ("SCHILY.dev", "1"),
        ("SCHILY.ino", "2"),
        ("SCHILY.nlink", "3"),
    ];
    let bytes = extended(&records, b"");
    let mut archive = open(&bytes);
    let mut file = archive.next().unwrap().unwrap();
    assert_eq!(problems(&mut file), ["has the flag compress, which XFS does not support"]);
    let facts = file.facts();
    assert_eq!((facts.xflags, facts.links), (0x88, 1));
    assert_eq!(facts.created, Some(Time { seconds: 5, nanoseconds: 500_000_000 }));
    drop(file);
    assert_eq!(remarks(archive), [""; 0]);
    let records = [("SCHILY.devmajor", "3000"), ("SCHILY.devminor", "100000")];
    let records = records.map(|(keyword, value)| record(keyword, value)).concat();
    let head = member(EntryType::XHeader, "x", records.as_bytes());
    let bytes = [head, member(EntryType::Char, "c", b"")].concat();
    assert_eq!(open(&bytes).next().unwrap().unwrap().facts().device, (3000, 100_000));
}

/// Reads an archive to its end and returns its remarks.
fn remarks(mut archive: ArchiveReader) -> Vec<String> {
    while archive.next().unwrap().is_some() {}
    let remarks = archive.take_remarks();
    remarks.iter().map(|remark| remark.to_string().replace("ferroxfs: archive: ", "")).collect()
}

#[test]
fn unknown_keywords_are_reported_once() {
    let one = extended(&[("VENDOR.odd", "1"), ("comment", "c"), ("uname", "u")], b"");
    let bytes = [one.clone(), one, extended(&[("VENDOR.other", "1")], b"")].concat();
    let said = ["pax keyword VENDOR.odd is not known, and is ignored"];
    assert_eq!(remarks(open(&bytes))[..1], said);
    assert_eq!(remarks(open(&bytes)).len(), 2);
}

#[test]
fn blocks_of_zeros_end_an_archive() {
    let file = |name| member(EntryType::Regular, name, b"");
    let zeros = vec![0; 512];
    let check = |blocks: &[&[u8]], said: &[&str]| {
        let found = remarks(open(&blocks.concat()));
        let lines: Vec<_> = found.iter().map(|text| text.lines().next().unwrap()).collect();
        assert_eq!(lines, said);
    };
    check(&[&file("a"), &zeros, &zeros], &[]);
    check(&[&file("a")], &[]);
    check(&[&file("a"), &zeros], &["a lone block of zeros at byte 512 ends the archive"]);
    let said =
        "a lone block of zeros at byte 512 ends the archive; the members after it are left out";
    check(&[&file("a"), &zeros, &file("b")], &[said]);
    let said = "another archive follows the end, at byte 1536, and is left out";
    check(&[&file("a"), &zeros, &zeros, &file("b"), &zeros, &zeros], &[said]);
    let bytes = [&file("a")[..], &zeros, &file("b"), &zeros, &zeros, &file("c")].concat();
    let input = Box::new(Cursor::new(bytes));
    let mut archive = ArchiveReader::open(input, b"archive", true).unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(archive.next().unwrap().unwrap().path, name.as_bytes());
    }
    assert_eq!(remarks(archive), [""; 0]);
}

#[test]
fn damaged_headers_are_skipped_to_the_next_one() {
    let mut bytes = [
        member(EntryType::Regular, "a", b""),
        extended(&[("path", "lost")], b"contents"),
        member(EntryType::Regular, "b", b""),
    ]
    .concat();
    // The header of the member that the records belong to.
    bytes[1536] ^= 1;
    let mut archive = open(&bytes);
    assert_eq!(archive.next().unwrap().unwrap().path, b"a");
    assert_eq!(archive.next().unwrap().unwrap().path, b"b");
    let said = "is damaged: no header at byte 1536. Skipped up to the next one, at byte 2560";
    assert_eq!(remarks(archive), [said]);
}

#[test]
fn headers_that_are_not_members_give_remarks() {
    let bytes = [
        member(EntryType::new(b'V'), "label", b""),
        member(EntryType::new(b'D'), "d/", b"Yf\0\0"),
        member(EntryType::new(b'M'), "rest", b"rest"),
        member(EntryType::new(b'z'), "odd", b"odd"),
        member(EntryType::new(b'A'), "acl", b"acl"),
        member(EntryType::Regular, "f", b""),
    ]
    .concat();
    let mut archive = open(&bytes);
    assert_eq!(archive.next().unwrap().unwrap().kind, MemberKind::Directory);
    let rest = archive.next().unwrap().unwrap().kind.clone();
    assert!(matches!(rest, MemberKind::LeftOut(reason) if reason.contains("another volume")));
    let mut odd = archive.next().unwrap().unwrap();
    assert_eq!(problems(&mut odd), ["is of the unknown type 'z', and becomes a regular file"]);
    assert_eq!(contents(&odd), b"odd");
    drop(odd);
    assert_eq!(archive.next().unwrap().unwrap().path, b"f");
    assert_eq!(archive.take_remarks().len(), 1);
}

#[test]
fn signed_checksums_are_accepted() {
    let mut bytes = member(EntryType::Regular, "\u{e9}", b"");
    let sum = |(at, byte): (usize, &u8)| {
        i32::from(if (148..156).contains(&at) { 32 } else { byte.cast_signed() })
    };
    let sum: i32 = bytes.iter().enumerate().map(sum).sum();
    bytes[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(open(&bytes).next().unwrap().unwrap().path, "\u{e9}".as_bytes());
}

#[test]
fn other_files_are_refused_by_name() {
    for (head, name, hint) in [
        (&b"PK\x03\x04 and so on"[..], "a zip archive", "bsdtar"),
        (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "bsdtar"),
        (b"\xed\xab\xee\xdb\x03", "an rpm package", "rpm2cpio"),
        (b"!<arch>\ndebian-binary   ", "a Debian package", "dpkg-deb"),
        (b"!<arch>\n", "an ar archive", "bsdtar"),
        (b"hsqs", "a squashfs image", "sqfs2tar"),
        (b"\x1f\x9d\x90", "compressed by compress(1)", "gzip"),
        (b"XFSB", "an XFS image", "cp -a"),
        (
            b"anything else",
            "is neither a tar archive nor a cpio archive",
            "gzip, xz, zstd, bzip2 or lz4",
        ),
    ] {
        let said = refusal(head);
        assert!(said.contains(name) && said.contains(hint), "{head:?}: {said}");
    }
}

#[test]
fn file_that_begins_with_zeros_is_refused_unless_an_archive_follows() {
    let after_zeros =
        |zeros: usize, bytes: &[u8]| [&vec![0; zeros][..], bytes, &[0; 4096]].concat();
    for (bytes, name) in [
        (after_zeros(32_769, b"CD001"), "an ISO 9660 image"),
        (after_zeros(1024, b"\xe2\xe1\xf5\xe0"), "an EROFS image"),
        (after_zeros(1080, b"\x53\xef"), "an ext2, ext3 or ext4 image"),
        (after_zeros(10_000, b"data"), "neither a tar archive"),
    ] {
        let said = refusal(&bytes);
        assert!(said.contains(name), "{said}");
    }
    assert_eq!(remarks(open(&[0; 1024])), [""; 0]);
    let late = after_zeros(512, &member(EntryType::Regular, "a", b""));
    assert_eq!(remarks(open(&late)).len(), 1);
}

#[test]
fn invalid_records_are_reported() {
    for text in
        ["x", "5 a=b\n", "8 a=b\n", "6 ab\n", "99 a=b\n", "0 a=b\n", "18446744073709551616 a=b\n"]
    {
        assert!(!ExtendedRecords::parse(text.as_bytes()).1, "{text:?}");
    }
    assert!(ExtendedRecords::parse(b"6 a=b\n\0\0").1);
    let (records, is_whole) = ExtendedRecords::parse(b"6 a=b\nx");
    assert_eq!((records.value(b"a"), is_whole), (Some(&b"b"[..]), false));
}

#[test]
fn sparse_files_of_pax() {
    let with = |major: &str, body: &[u8]| {
        let records = [
            ("GNU.sparse.major", major),
            ("GNU.sparse.realsize", "5000"),
            ("GNU.sparse.name", "s"),
        ];
        extended(&records, body)
    };
    let mut body = b"2\n1000\n3\n4999\n1\n".to_vec();
    body.resize(512, 0);
    body.extend_from_slice(b"abcd");
    let bytes = with("1", &body);
    let mut archive = open(&bytes);
    let file = archive.next().unwrap().unwrap();
    let found = contents(&file);
    assert_eq!((found.len(), &found[1000..1003], found[4999]), (5000, &b"abc"[..], b'd'));
    for map in
        ["2\n1000\n3\n", "x\n", "1\n0\n5001\n", "2\n10\n5\n14\n1\n", "1\n2\n18446744073709551615\n"]
    {
        let mut body = map.as_bytes().to_vec();
        body.resize(512, 0);
        let bytes = [with("1", &body), member(EntryType::Regular, "after", b"")].concat();
        let mut archive = open(&bytes);
        if map == "2\n1000\n3\n" {
            // Its map is longer than its contents.
            assert!(archive.next().is_err());
            continue;
        }
        let kind = archive.next().unwrap().unwrap().kind;
        assert!(matches!(kind, MemberKind::LeftOut(_)), "{map:?}: {kind:?}");
        assert_eq!(archive.next().unwrap().unwrap().path, b"after");
    }
    let records = [("GNU.sparse.size", "100"), ("GNU.sparse.map", "0,1,99,1")];
    let bytes = extended(&records, b"ab");
    let mut archive = open(&bytes);
    let found = contents(&archive.next().unwrap().unwrap());
    assert_eq!((found.len(), found[0], found[99]), (100, b'a', b'b'));
}

#[test]
fn inconsistent_archives_are_refused() {
    let good = [extended(&[("path", "p")], &[7; 600]), vec![0; 1024]].concat();
    assert_eq!(refusal(&good), "");
    for end in [1, 511, 513, 1025, 1600, 2100] {
        assert!(!refusal(&good[..end]).is_empty(), "cut at {end}");
    }
    assert!(refusal(b"\x1f\x8b not a tar").contains("is neither a tar archive nor a cpio archive"));
    let mut huge = member(EntryType::XHeader, "x", b"");
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::XHeader);
    header.set_size(1 << 40);
    header.set_cksum();
    huge.splice(.., header.as_bytes().iter().copied());
    assert!(refusal(&huge).contains("16 MiB"));
}

/// Checks that reading arbitrary bytes as an archive comes to an end and does not panic.
#[test]
fn any_bytes_end_without_panic() {
    let map = b"1\n0\n5\n".iter().copied().chain([0; 506]).chain(*b"abcde").collect::<Vec<_>>();
    let sparse = [("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "9")];
    let good = [extended(&sparse, &map), member(EntryType::GNULongName, "l", b"name\0")].concat();
    let good = [good, member(EntryType::GNUSparse, "s", b""), vec![0; 1024]].concat();
    let mut prng = xfs_testkit::Prng::new(0x7a7);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        let block = prng.within(0..bytes.len() / 512) * 512;
        let block = &mut bytes[block..block + 512];
        prng.mutate(block);
        // The checksum is corrected, so that the change is parsed.
        let sum = |(at, byte): (usize, &u8)| {
            u32::from(if (148..156).contains(&at) { b' ' } else { *byte })
        };
        let sum: u32 = block.iter().enumerate().map(sum).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let input = Box::new(Cursor::new(bytes));
        let Ok(mut archive) = ArchiveReader::open(input, b"archive", false) else { continue };
        while let Ok(Some(member)) = archive.next() {
            if member.facts().size < 1 << 20 {
                let mut buffer = vec![0; 4096];
                let mut offset = 0;
                while let Ok(Some(range)) = member.data_after(offset) {
                    let length = ((range.end - range.start) as usize).min(buffer.len());
                    if member.read_at(&mut buffer[..length], range.start).is_err() {
                        break;
                    }
                    offset = range.end;
                }
            }
        }
    }
}

#[test]
fn global_records_stay_bounded() {
    let global = |keyword: &str, value: &str| {
        member(EntryType::XGlobalHeader, "g", record(keyword, value).as_bytes())
    };
    let large = "v".repeat(6 << 20);
    let same = global("comment", &large).repeat(3);
    let file = member(EntryType::Regular, "f", b"");
    let bytes = [same, global("uid", "7"), global("uid", "8"), file].concat();
    let mut archive = open(&bytes);
    assert_eq!(archive.next().unwrap().unwrap().facts().uid, 8, "the last one counts");
    let others = ["one", "two", "three"].map(|keyword| global(keyword, &large)).concat();
    assert!(refusal(&others).contains("more than 16 MiB"));
}

/// Returns the bytes of an entry of a newc archive with this name, mode, inode number, number of
/// names and contents. If `check` is given, it is the checksum in the header.
fn newc(
    name: &str,
    (mode, inode, links): (u32, u32, u32),
    body: &[u8],
    check: Option<u32>,
) -> Vec<u8> {
    let magic = if check.is_some() { "070702" } else { "070701" };
    let (size, name_bytes) = (body.len(), name.len() + 1);
    let mut bytes = format!(
        "{magic}{inode:08x}{mode:08x}{:08x}{:08x}{links:08x}{:08x}{size:08x}{:08x}{:08x}{:08x}{:08X}\
         {name_bytes:08x}{:08x}{name}\0",
        1000, 2000, 1_500_000_000, 8, 1, 5, 0xabc, check.unwrap_or(0),
    )
    .into_bytes();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn trailer() -> Vec<u8> {
    newc("TRAILER!!!", (0, 0, 1), b"", None)
}

#[test]
fn cpio_entries_come_in_their_order() {
    let bytes = [
        newc("d", (0o040_711, 1, 2), b"", None),
        newc("d/f", (0o100_644, 2, 1), b"hello", None),
        newc("d/l", (0o120_777, 3, 1), b"f", None),
        newc("d/c", (0o020_600, 4, 1), b"", None),
        newc("d/x", (0o100_600, 5, 3), b"", None),
        newc("d/y", (0o100_600, 5, 3), b"", None),
        newc("d/z", (0o100_600, 5, 3), b"of all three", None),
        newc("d/w", (0o100_600, 5, 2), b"", None),
        trailer(),
    ]
    .concat();
    let mut archive = open(&bytes);
    let directory = archive.next().unwrap().unwrap();
    let facts = directory.facts();
    assert_eq!(
        (&directory.kind, facts.mode, facts.uid, facts.gid),
        (&MemberKind::Directory, 0o040_711, 1000, 2000)
    );
    assert_eq!(facts.modified.seconds, 1_500_000_000);
    assert_eq!(contents(&archive.next().unwrap().unwrap()), b"hello");
    assert_eq!(archive.next().unwrap().unwrap().target().unwrap(), b"f");
    assert_eq!(archive.next().unwrap().unwrap().facts().device, (5, 0xabc));
    assert_eq!(archive.next().unwrap().unwrap().kind, MemberKind::File);
    let link = MemberKind::HardLink(b"d/x".to_vec());
    assert_eq!(archive.next().unwrap().unwrap().kind, link);
    let last = archive.next().unwrap().unwrap();
    assert_eq!((&last.kind, contents(&last)), (&link, b"of all three".to_vec()));
    drop(last);
    assert_eq!(archive.next().unwrap().unwrap().kind, MemberKind::File, "another file");
    assert!(archive.next().unwrap().is_none());
    assert_eq!(remarks(archive), [""; 0]);
}

#[test]
fn cpio_archives_may_follow_each_other() {
    let first = [newc("a", (0o100_644, 1, 1), b"1", None), trailer(), vec![0; 300]].concat();
    let second = [newc("b", (0o100_644, 1, 1), b"2", None), trailer()].concat();
    let packed = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&second).unwrap();
        encoder.finish().unwrap()
    };
    for second in [second, packed] {
        let bytes = [first.clone(), second].concat();
        let mut archive = open(&bytes);
        assert_eq!(contents(&archive.next().unwrap().unwrap()), b"1");
        assert_eq!(contents(&archive.next().unwrap().unwrap()), b"2");
        assert_eq!(remarks(archive), [""; 0]);
    }
    let bytes = [first, b"not an archive".to_vec()].concat();
    assert!(remarks(open(&bytes))[0].contains("bytes that are not a cpio archive follow"));
}

#[test]
fn cpio_checksums_are_checked() {
    let sum = b"hello".iter().map(|byte| u32::from(*byte)).sum::<u32>();
    for (check, is_right) in [(sum, true), (sum + 1, false)] {
        let bytes = [newc("f", (0o100_644, 1, 1), b"hello", Some(check)), trailer()].concat();
        let mut archive = open(&bytes);
        assert_eq!(contents(&archive.next().unwrap().unwrap()), b"hello");
        assert_eq!(remarks(archive).is_empty(), is_right);
    }
}

#[test]
fn inconsistent_cpio_archives_are_refused() {
    let file = newc("f", (0o100_644, 1, 1), b"hello", None);
    let good = [file.clone(), trailer()].concat();
    assert_eq!(refusal(&good), "");
    for end in [50, 113, 121] {
        assert!(!refusal(&good[..end]).is_empty(), "cut at {end}");
    }
    assert_eq!(remarks(open(&file)), ["ends without a trailer, and may be cut off"]);
    let junk = [file, b"junk".repeat(40)].concat();
    assert!(refusal(&junk).contains("no cpio header at byte 120"), "{}", refusal(&junk));
    let mut long = good;
    long[94..102].copy_from_slice(b"ffffffff");
    assert!(refusal(&long).contains("has a name of 4294967295 bytes"));
    let mut prng = xfs_testkit::Prng::new(0xc910);
    let good = [
        newc("a", (0o100_644, 9, 2), b"abc", None),
        newc("b", (0o120_777, 8, 1), b"abc", None),
        trailer(),
    ]
    .concat();
    for _ in 0..5000 {
        let mut bytes = good.clone();
        prng.mutate(&mut bytes);
        let _ = refusal(&bytes);
    }
}

#[test]
fn old_cpio_archives_of_posix_are_read() {
    let entry = |name: &str, mode: u32, body: &str| {
        let (name_bytes, size) = (name.len() + 1, body.len());
        format!(
            "070707{:06o}{:06o}{mode:06o}{:06o}{:06o}{:06o}{:06o}{:011o}{name_bytes:06o}{size:011o}{name}\0{body}",
            1, 2, 7, 8, 1, 0x0501, 99
        )
    };
    let text =
        entry("f", 0o100_640, "abc") + &entry("c", 0o020_600, "") + &entry("TRAILER!!!", 0, "");
    let mut archive = open(text.as_bytes());
    let file = archive.next().unwrap().unwrap();
    let facts = file.facts();
    assert_eq!((facts.mode, facts.uid, facts.gid, facts.modified.seconds), (0o100_640, 7, 8, 99));
    assert_eq!(contents(&file), b"abc");
    drop(file);
    assert_eq!(archive.next().unwrap().unwrap().facts().device, (5, 1));
    assert_eq!(remarks(archive), [""; 0]);
}
