//! Extended records of a pax archive: `LENGTH KEYWORD=VALUE\n`, where the length counts the whole
//! record, itself included.

use std::collections::HashSet;

use crate::file::facts::Time;

/// The limit, in bytes, on three things: the extended records of one member, the map of one sparse
/// file, and all global records (those for all later members) that are kept.
pub(in crate::import) const MAX_RECORDS_BYTES: u64 = 16 << 20;
/// The message for extended records that are longer than `MAX_RECORDS_BYTES`.
pub(super) const TOO_MANY_RECORDS: &str = "has extended records of more than 16 MiB";
/// Keywords that the import uses.
const TAKEN: [&[u8]; 14] = [
    b"atime",
    b"gid",
    b"linkpath",
    b"mtime",
    b"path",
    b"size",
    b"uid",
    b"LIBARCHIVE.creationtime",
    b"RHT.security.selinux",
    b"SCHILY.acl.access",
    b"SCHILY.acl.default",
    b"SCHILY.devmajor",
    b"SCHILY.devminor",
    b"SCHILY.fflags",
];
/// Keywords that the import ignores, because a volume has no counterpart. They are names of owners
/// (whose numbers are used), change times, inode numbers, and facts about the archive.
const PASSED_OVER: [&[u8]; 18] = [
    b"charset",
    b"comment",
    b"ctime",
    b"gname",
    b"hdrcharset",
    b"uname",
    b"GNU.dumpdir",
    b"LIBARCHIVE.symlinktype",
    b"SCHILY.archtype",
    b"SCHILY.dev",
    b"SCHILY.dino",
    b"SCHILY.dir",
    b"SCHILY.filetype",
    b"SCHILY.ino",
    b"SCHILY.nlink",
    b"SCHILY.offset",
    b"SCHILY.release",
    b"SCHILY.tarfiletype",
];
/// Prefixes of keywords that the import knows.
const PREFIXES: [&[u8]; 5] =
    [b"GNU.sparse.", b"GNU.volume.", b"LIBARCHIVE.xattr.", b"SCHILY.volhdr.", b"SCHILY.xattr."];

/// A keyword and its value.
type Record = (Vec<u8>, Vec<u8>);

/// A list of extended records. If a keyword occurs several times, the last record counts.
#[derive(Clone, Debug, Default)]
pub(in crate::import) struct ExtendedRecords(Vec<Record>);

impl ExtendedRecords {
    /// Parses records up to the first invalid one. Returns the records, and true if none was
    /// invalid.
    pub(in crate::import) fn parse(mut bytes: &[u8]) -> (Self, bool) {
        let mut records = Vec::new();
        // Some writers pad with zeros.
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let Some((record, rest)) = parse_one(bytes) else { return (Self(records), false) };
            records.push(record);
            bytes = rest;
        }
        (Self(records), true)
    }

    /// Adds a record.
    pub(in crate::import) fn push(&mut self, keyword: &[u8], value: Vec<u8>) {
        self.0.push((keyword.to_vec(), value));
    }

    /// Adds records, which override earlier records with the same keywords.
    pub(in crate::import) fn extend(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Adds records, and removes earlier records with the same keywords.
    pub(in crate::import) fn replace(&mut self, others: Self) {
        let new: HashSet<_> = others.0.iter().map(|(keyword, _)| keyword).collect();
        self.0.retain(|(keyword, _)| !new.contains(keyword));
        self.extend(others);
    }

    /// Returns the number of bytes of memory that all keywords and values take.
    pub(in crate::import) fn bytes(&self) -> u64 {
        let of = |record: &Record| size_of_val(record) + record.0.len() + record.1.len();
        self.0.iter().map(|record| of(record) as u64).sum()
    }

    /// Returns the value of a keyword; `None` if the keyword is missing or its value is empty.
    pub(in crate::import) fn value(&self, keyword: &[u8]) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(known, _)| known == keyword);
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    /// Returns the values of a keyword that may occur several times, in order.
    pub(in crate::import) fn values<'a>(
        &'a self,
        keyword: &'a [u8],
    ) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(known, _)| known == keyword).map(|(_, value)| value.as_slice())
    }

    /// Returns the value of a keyword as a number; `None` if it is missing or invalid.
    pub(in crate::import) fn number(&self, keyword: &[u8]) -> Option<u64> {
        number(self.value(keyword)?)
    }

    /// Returns the records whose keywords start with `prefix`, as pairs of the text after the
    /// prefix and the value.
    pub(in crate::import) fn below<'a>(
        &'a self,
        prefix: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        self.0.iter().filter_map(move |(keyword, value)| {
            Some((keyword.strip_prefix(prefix)?, value.as_slice()))
        })
    }

    /// Returns the keywords that the import does not know. Their meaning may be lost.
    pub(in crate::import) fn unknown(&self) -> impl Iterator<Item = &[u8]> {
        let is_known = |keyword: &[u8]| {
            TAKEN.contains(&keyword)
                || PASSED_OVER.contains(&keyword)
                || PREFIXES.iter().any(|prefix| keyword.starts_with(prefix))
        };
        self.0
            .iter()
            .map(|(keyword, _)| keyword.as_slice())
            .filter(move |keyword| !is_known(keyword))
    }
}

/// Parses the first record of `bytes`. Returns the record and the bytes after it; `None` if the
/// record is invalid.
fn parse_one(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let space = bytes.iter().position(|byte| *byte == b' ')?;
    let length: usize = std::str::from_utf8(bytes.get(..space)?).ok()?.parse().ok()?;
    let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let (keyword, value) = record.split_at(equals);
    Some(((keyword.to_vec(), value.get(1..)?.to_vec()), bytes.get(length..)?))
}

/// Parses a decimal number; `None` if the text is invalid.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a time: decimal seconds, with an optional sign and fraction. `None` if the text is
/// invalid.
pub(super) fn time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if [seconds, fraction].iter().any(|digits| digits.bytes().any(|byte| !byte.is_ascii_digit())) {
        return None;
    }
    let nanoseconds: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    let (seconds, nanoseconds): (i64, u32) = (seconds.parse().ok()?, nanoseconds.parse().ok()?);
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Time::from_total_nanoseconds(sign * total)
}
