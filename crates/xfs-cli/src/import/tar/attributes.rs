//! The extended attributes of a member of a tar archive, access control lists included.
//!
//! Writers differ. GNU tar, star and bsdtar use `SCHILY.xattr`. libarchive also uses
//! `LIBARCHIVE.xattr`, with the name in URL escapes and the value in base64. GNU tar has its own
//! keyword for labels of SELinux. All of them write access control lists as text.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::header::senseless;
use super::records::ExtendedRecords;
use crate::file::source::{NamedValue, is_carried_over};
use crate::terminal::names;
use crate::text::acl::{self, InvalidEntry};

const SCHILY: &[u8] = b"SCHILY.xattr.";
const LIBARCHIVE: &[u8] = b"LIBARCHIVE.xattr.";
/// The keyword for the label of SELinux in archives of GNU tar.
const LABEL: &[u8] = b"RHT.security.selinux";
const LABEL_NAME: &[u8] = b"security.selinux";
/// The keywords for access control lists as text, each with the name of its attribute.
const LISTS: [(&[u8], &[u8]); 2] = [
    (b"SCHILY.acl.access", b"system.posix_acl_access"),
    (b"SCHILY.acl.default", b"system.posix_acl_default"),
];
/// The base64 of libarchive, which omits the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns the attributes in the records. A message about each invalid attribute goes to
/// `problems`.
pub(super) fn read(records: &ExtendedRecords, problems: &mut Vec<String>) -> Vec<NamedValue> {
    let mut found = Vec::new();
    for (name, value) in records.below(LIBARCHIVE) {
        let name = url_decode(name);
        match BASE64.decode(value) {
            Ok(value) => put(&mut found, name, value),
            Err(_) => {
                let name = names::in_message(&name).into_owned();
                problems.push(format!("attribute {name} is not base64, and is left out"));
            }
        }
    }
    for (name, value) in records.below(SCHILY) {
        // libarchive does not escape here, and GNU tar does.
        let is_exact = found.iter().any(|known| known.name == name);
        let name = if is_exact { name.to_vec() } else { unescape(name) };
        put(&mut found, name, value.to_vec());
    }
    if let Some(label) = records.value(LABEL)
        && found.iter().all(|known| known.name != LABEL_NAME)
    {
        // The kernel and libselinux store labels with their terminating zero byte.
        put(&mut found, LABEL_NAME.to_vec(), [label, b"\0"].concat());
    }
    found.retain(|attribute| is_carried_over(&attribute.name));
    for (keyword, name) in LISTS {
        let Some(text) = records.value(keyword) else { continue };
        if found.iter().all(|known| known.name != name)
            && let Some(value) = list(text, problems)
        {
            put(&mut found, name.to_vec(), value);
        }
    }
    found
}

/// Adds an attribute to the list. It replaces an earlier attribute of the same name.
fn put(found: &mut Vec<NamedValue>, name: Vec<u8>, value: Vec<u8>) {
    match found.iter_mut().find(|known| known.name == name) {
        Some(known) => known.value = value,
        None => found.push(NamedValue { name, value }),
    }
}

/// Parses an access control list. Entries for users and groups that this host does not know are
/// left out, and the rest of the list is kept. Without any list, the group would get the
/// permissions of the mask, because the group bits of the mode then hold the mask.
fn list(text: &[u8], problems: &mut Vec<String>) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(text);
    let (value, wrong) = acl::archived_value(&text);
    for entry in wrong {
        let shown = |text: &str| names::in_message(text.as_bytes()).into_owned();
        problems.push(match entry {
            InvalidEntry::User(name) => {
                format!(
                    "access control list: user {} is not known, and its entry is left out",
                    shown(&name)
                )
            }
            InvalidEntry::Group(name) => {
                format!(
                    "access control list: group {} is not known, and its entry is left out",
                    shown(&name)
                )
            }
            InvalidEntry::Entry(entry) => {
                format!("access control list: entry {} is invalid, and is left out", shown(&entry))
            }
        });
    }
    if value.is_none() {
        problems.push(format!(
            "{}, and is left out",
            senseless("access control list", text.as_bytes())
        ));
    }
    value
}

/// Decodes the name of an attribute, with `=` and `%` escaped as in GNU tar and star.
fn unescape(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let (byte, after) = match rest {
            [b'%', b'3', b'D' | b'd', after @ ..] => (b'=', after),
            [b'%', b'2', b'5', after @ ..] => (b'%', after),
            _ => (*first, after),
        };
        plain.push(byte);
        rest = after;
    }
    plain
}

/// Decodes the name of an attribute in URL escapes: any byte may be written as `%` and two
/// hexadecimal digits.
fn url_decode(name: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                plain.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}
