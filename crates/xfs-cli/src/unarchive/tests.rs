use std::io::Read;

use tar::{EntryType, Header};

use super::records::Records;
use super::{Member, MemberKind, Unarchive};
use crate::facts::Time;
use crate::source::Source;

/// A header and its body, filled up to a block.
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

/// A regular file behind extended records.
fn extended(records: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let records: String = records.iter().map(|(keyword, value)| record(keyword, value)).collect();
    let head = member(EntryType::XHeader, "PaxHeaders/f", records.as_bytes());
    [head, member(EntryType::Regular, "f", body)].concat()
}

/// Contents of a member, with zeros for holes.
fn contents<R: Read>(member: &Member<'_, R>) -> Vec<u8> {
    let mut bytes = vec![0; member.facts().size as usize];
    let mut offset = 0;
    while let Some(range) = member.data_after(offset).unwrap() {
        member.read_at(range.start, &mut bytes[range.start as usize..range.end as usize]).unwrap();
        offset = range.end;
    }
    bytes
}

/// Why an archive is refused.
fn refusal(bytes: &[u8]) -> String {
    let mut archive = Unarchive::new(bytes, b"archive");
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
    let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
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
fn extended_records_count_more_than_the_header() {
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
    let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
    let file = archive.next().unwrap().unwrap();
    assert_eq!(file.path, long.as_bytes());
    assert_eq!(file.facts().uid, 3_000_000_000);
    let quarter = Time { seconds: -2, nanoseconds: 750_000_000 };
    assert_eq!((file.facts().modified, file.facts().accessed), (quarter, quarter));
    let attributes: Vec<_> = file.attributes().into_iter().map(Result::unwrap).collect();
    let names: Vec<_> = attributes.iter().map(|attribute| attribute.name.as_slice()).collect();
    assert_eq!(names, [b"user.a=b%".as_slice(), b"system.posix_acl_access"]);
    assert_eq!(attributes[0].value, b"x\ny");
    let list = crate::acl::value_text(&attributes[1].value).unwrap();
    assert_eq!(list, "user::rw-,user:7:r--,group::r--,mask::r--,other::---");
}

/// The times in headers, which are those of GNU tar 1.34 for files of these dates.
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
        let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
        let file = archive.next().unwrap().unwrap();
        let time = Time { seconds, nanoseconds: 0 };
        assert_eq!((&file.kind, file.facts().modified), (&MemberKind::File, time));
    }
}

/// A member with a changed header.
fn with_header(change: impl Fn(&mut Header)) -> Vec<u8> {
    let mut header = Header::from_byte_slice(&member(EntryType::Regular, "f", b"")).clone();
    change(&mut header);
    header.set_cksum();
    [header.as_bytes().as_slice(), &member(EntryType::Regular, "g", b"")].concat()
}

/// Checks that the first member is left out for this reason, and the second one is read.
#[track_caller]
fn check_left_out(bytes: &[u8], reason: &str) {
    let mut archive = Unarchive::new(bytes, b"archive");
    let first = archive.next().unwrap().unwrap();
    assert_eq!(first.kind, MemberKind::LeftOut(format!("has the {reason}, and is left out")));
    drop(first);
    assert_eq!(archive.next().unwrap().unwrap().kind, MemberKind::File);
}

#[test]
fn what_cannot_be_an_owner_or_a_time_is_said() {
    for (keyword, value) in [
        ("uid", "5000000000"),
        ("uid", "4294967295"),
        ("gid", "-1"),
        ("gid", "root"),
        ("mtime", "1e9"),
        ("mtime", "--5"),
        ("mtime", "1.5x"),
        ("mtime", "-"),
        ("atime", "99999999999999999999"),
        ("SCHILY.acl.access", "nobody"),
    ] {
        let good = member(EntryType::Regular, "g", b"");
        let bytes = [extended(&[(keyword, value)], b"contents"), good].concat();
        let keyword = keyword.replace("SCHILY.acl.access", "access control list");
        check_left_out(&bytes, &format!("{keyword} {value}, which makes no sense"));
    }
    let id = |id: [u8; 8]| move |header: &mut Header| header.as_old_mut().uid = id;
    let none = with_header(id([0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]));
    check_left_out(&none, "uid 4294967295, which makes no sense");
    check_left_out(&with_header(id([0xff; 8])), "uid -1, which makes no sense");
    check_left_out(&with_header(id(*b"12345x7\0")), "uid 12345x7, which makes no sense");
    let mode = with_header(|header| header.as_old_mut().mode = *b"0009000\0");
    check_left_out(&mode, "mode 0009000, which makes no sense");
    let size = extended(&[("size", "8x")], b"contents");
    assert!(refusal(&size).contains("f: has the size 8x, which makes no sense"));
}

#[test]
fn records_that_make_no_sense() {
    for text in
        ["x", "5 a=b\n", "8 a=b\n", "6 ab\n", "99 a=b\n", "0 a=b\n", "18446744073709551616 a=b\n"]
    {
        assert!(Records::parse(text.as_bytes()).is_none(), "{text:?}");
    }
    assert!(Records::parse(b"6 a=b\n\0\0").is_some());
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
    let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
    let file = archive.next().unwrap().unwrap();
    let found = contents(&file);
    assert_eq!((found.len(), &found[1000..1003], found[4999]), (5000, &b"abc"[..], b'd'));
    for map in
        ["2\n1000\n3\n", "x\n", "1\n0\n5001\n", "2\n10\n5\n14\n1\n", "1\n2\n18446744073709551615\n"]
    {
        let mut body = map.as_bytes().to_vec();
        body.resize(512, 0);
        assert!(!refusal(&with("1", &body)).is_empty(), "{map:?}");
    }
    let records = [("GNU.sparse.size", "100"), ("GNU.sparse.map", "0,1,99,1")];
    let bytes = extended(&records, b"ab");
    let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
    let found = contents(&archive.next().unwrap().unwrap());
    assert_eq!((found.len(), found[0], found[99]), (100, b'a', b'b'));
}

#[test]
fn archives_that_do_not_hold_together() {
    let good = [extended(&[("path", "p")], &[7; 600]), vec![0; 1024]].concat();
    assert_eq!(refusal(&good), "");
    for end in [1, 511, 513, 1025, 1600, 2100] {
        assert!(!refusal(&good[..end]).is_empty(), "cut at {end}");
    }
    assert!(refusal(b"\x1f\x8b not a tar").contains("must not be compressed"));
    let mut huge = member(EntryType::XHeader, "x", b"");
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::XHeader);
    header.set_size(1 << 40);
    header.set_cksum();
    huge.splice(.., header.as_bytes().iter().copied());
    assert!(refusal(&huge).contains("16 MiB"));
}

/// Whatever the bytes, reading ends and does not panic.
#[test]
fn any_bytes_are_survived() {
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
        // Mended, so that the change is looked at.
        let sum = |(at, byte): (usize, &u8)| {
            u32::from(if (148..156).contains(&at) { b' ' } else { *byte })
        };
        let sum: u32 = block.iter().enumerate().map(sum).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
        while let Ok(Some(member)) = archive.next() {
            if member.facts().size < 1 << 20 {
                let mut buffer = vec![0; 4096];
                let mut offset = 0;
                while let Ok(Some(range)) = member.data_after(offset) {
                    let length = ((range.end - range.start) as usize).min(buffer.len());
                    if member.read_at(range.start, &mut buffer[..length]).is_err() {
                        break;
                    }
                    offset = range.end;
                }
            }
        }
    }
}

#[test]
fn records_for_all_members_stay_bounded() {
    let global = |keyword: &str, value: &str| {
        member(EntryType::XGlobalHeader, "g", record(keyword, value).as_bytes())
    };
    let large = "v".repeat(6 << 20);
    let same = global("comment", &large).repeat(3);
    let file = member(EntryType::Regular, "f", b"");
    let bytes = [same, global("uid", "7"), global("uid", "8"), file].concat();
    let mut archive = Unarchive::new(bytes.as_slice(), b"archive");
    assert_eq!(archive.next().unwrap().unwrap().facts().uid, 8, "the last one counts");
    let others = ["one", "two", "three"].map(|keyword| global(keyword, &large)).concat();
    assert!(refusal(&others).contains("more than 16 MiB"));
}
