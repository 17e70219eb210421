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
