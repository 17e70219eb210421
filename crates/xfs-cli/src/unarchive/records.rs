//! Extended records of pax: `LENGTH KEYWORD=VALUE\n`, where the length counts itself.

use std::collections::HashSet;

use crate::facts::Time;
use crate::source::NamedValue;

/// What stands in front of the name of an extended attribute.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";

/// Extended records; of several of one keyword the last counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Records(Vec<(Vec<u8>, Vec<u8>)>);

impl Records {
    /// Reads records; `None` for what is none.
    pub(super) fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut records = Vec::new();
        // Some writers fill up with zeros.
        while bytes.first().is_some_and(|byte| *byte != 0) {
            let space = bytes.iter().position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(bytes.get(..space)?).ok()?.parse().ok()?;
            let record = bytes.get(space + 1..length)?.strip_suffix(b"\n")?;
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let (keyword, value) = record.split_at(equals);
            records.push((keyword.to_vec(), value.get(1..)?.to_vec()));
            bytes = bytes.get(length..)?;
        }
        Some(Self(records))
    }

    /// Adds a record.
    pub(super) fn push(&mut self, keyword: &[u8], value: Vec<u8>) {
        self.0.push((keyword.to_vec(), value));
    }

    /// Adds records that count instead of these.
    pub(super) fn extend(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    /// Adds records that stand in place of those of the same keywords, which go.
    pub(super) fn replace(&mut self, others: Self) {
        let new: HashSet<_> = others.0.iter().map(|(keyword, _)| keyword).collect();
        self.0.retain(|(keyword, _)| !new.contains(keyword));
        self.extend(others);
    }

    /// The bytes of all keywords and values, and of what keeps them.
    pub(super) fn bytes(&self) -> u64 {
        let of =
            |record: &(Vec<u8>, Vec<u8>)| size_of_val(record) + record.0.len() + record.1.len();
        self.0.iter().map(|record| of(record) as u64).sum()
    }

    /// The value of a keyword; an empty one means that there is none.
    pub(super) fn value(&self, keyword: &[u8]) -> Option<&[u8]> {
        let found = self.0.iter().rev().find(|(known, _)| known == keyword);
        found.map(|(_, value)| value.as_slice()).filter(|value| !value.is_empty())
    }

    /// The values of a keyword that may stand several times, in their order.
    pub(super) fn values<'a>(&'a self, keyword: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(known, _)| known == keyword).map(|(_, value)| value.as_slice())
    }

    /// A number; `None` for what is none.
    pub(super) fn number(&self, keyword: &[u8]) -> Option<u64> {
        number(self.value(keyword)?)
    }

    /// The extended attributes.
    pub(super) fn attributes(&self) -> Vec<NamedValue> {
        let named = |(keyword, value): &(Vec<u8>, Vec<u8>)| {
            let name = unescape(keyword.strip_prefix(ATTRIBUTE)?);
            Some(NamedValue { name, value: value.clone() })
        };
        self.0.iter().filter_map(named).collect()
    }
}

/// A decimal number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A time: decimal seconds, perhaps with a sign in front and a fraction behind.
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

/// The name of an attribute, in which `=` and `%` are written as GNU tar and star write them.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match rest {
            [b'%', b'3', b'D' | b'd', behind @ ..] => (b'=', behind),
            [b'%', b'2', b'5', behind @ ..] => (b'%', behind),
            _ => (*first, behind),
        };
        plain.push(byte);
        rest = behind;
    }
    plain
}
