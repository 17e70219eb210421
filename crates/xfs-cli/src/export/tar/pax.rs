//! Extended records of a pax archive: `LENGTH KEYWORD=VALUE\n`, where the length counts the whole
//! record, itself included.

use tar::Header;

use super::writer::{NAME_BYTES, fill};
use crate::file::facts::Time;
use crate::file::source::NamedValue;

/// The extended records of one member of an archive.
#[derive(Debug, Default)]
pub(super) struct PaxRecords {
    records: Vec<(Vec<u8>, Vec<u8>)>,
}

impl PaxRecords {
    /// Adds a record with this keyword and value.
    pub(super) fn push(&mut self, keyword: &[u8], value: &[u8]) {
        self.records.push((keyword.to_vec(), value.to_vec()));
    }

    /// Removes the record with this keyword.
    pub(super) fn remove(&mut self, keyword: &[u8]) {
        self.records.retain(|(known, _)| known != keyword);
    }

    /// Adds a record for a time: decimal seconds, with an optional sign and fraction.
    pub(super) fn push_time(&mut self, keyword: &[u8], time: Time) {
        let total = time.total_nanoseconds();
        let sign = if total < 0 { "-" } else { "" };
        let (seconds, rest) = (total.abs() / 1_000_000_000, total.abs() % 1_000_000_000);
        let text = if rest == 0 {
            format!("{sign}{seconds}")
        } else {
            format!("{sign}{seconds}.{rest:09}")
        };
        self.push(keyword, text.as_bytes());
    }

    /// Adds a record for an extended attribute. A keyword ends at the first `=`, so a `=` in the
    /// attribute's name is escaped as in GNU tar and star.
    pub(super) fn push_attribute(&mut self, attribute: &NamedValue) {
        let mut keyword = b"SCHILY.xattr.".to_vec();
        for &byte in &attribute.name {
            match byte {
                b'=' => keyword.extend_from_slice(b"%3D"),
                b'%' => keyword.extend_from_slice(b"%25"),
                _ => keyword.push(byte),
            }
        }
        self.records.push((keyword, attribute.value.clone()));
    }

    /// Puts the target of a link into the header. If the header has no room for the whole target,
    /// also adds a record with it.
    pub(super) fn push_optional_link(&mut self, header: &mut Header, target: &[u8]) {
        fill(&mut header.as_old_mut().linkname, target);
        if target.len() > NAME_BYTES {
            self.push(b"linkpath", target);
        }
    }

    /// Returns all records in the form that they have in the archive.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (keyword, value) in self.records {
            // The space, the `=` and the newline.
            let rest = keyword.len() + value.len() + 3;
            let mut length = rest + 1;
            while length.to_string().len() + rest != length {
                length += 1;
            }
            bytes.extend_from_slice(length.to_string().as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(&keyword);
            bytes.push(b'=');
            bytes.extend_from_slice(&value);
            bytes.push(b'\n');
        }
        bytes
    }
}
