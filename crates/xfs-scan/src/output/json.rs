//! Writes fragments of JSON directly into the buffer of the output.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::row::{ByteList, Moment};

/// Appends a number.
#[inline]
pub(crate) fn push_number(out: &mut Vec<u8>, number: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a key and an array of numbers. `key` includes the comma, the quotes and the colon.
pub(crate) fn push_numbers<N: itoa::Integer>(
    out: &mut Vec<u8>,
    key: &[u8],
    numbers: impl Iterator<Item = N>,
) {
    out.extend_from_slice(key);
    out.push(b'[');
    for (index, number) in numbers.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_number(out, number);
    }
    out.push(b']');
}

/// Appends a time as nanoseconds since 1970.
#[inline]
pub(crate) fn push_moment(out: &mut Vec<u8>, moment: Moment) {
    let (is_negative, magnitude) = moment.sign_and_nanoseconds();
    if is_negative {
        out.push(b'-');
    }
    push_number(out, magnitude);
}

/// Appends a quoted string.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &str) {
    // Names seldom have characters that JSON must escape, so check once for all.
    let is_plain = text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if is_plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing a string to memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

/// Appends bytes in base64, quoted.
pub(crate) fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

/// Appends `,"name":["…"]` with the strings that are UTF-8. If there are other strings, also
/// appends `,"name_bytes":["…"]` with these strings in base64.
pub(crate) fn push_list(out: &mut Vec<u8>, keys: &ListKeys, list: &ByteList) {
    out.extend_from_slice(keys.text);
    let mut others = false;
    let mut separator = b'[';
    for item in list.iter() {
        let Ok(text) = std::str::from_utf8(item) else {
            others = true;
            continue;
        };
        out.push(separator);
        separator = b',';
        push_string(out, text);
    }
    out.extend_from_slice(if separator == b'[' { b"[]" } else { b"]" });
    if others {
        push_others(out, keys, list);
    }
}

#[cold]
fn push_others(out: &mut Vec<u8>, keys: &ListKeys, list: &ByteList) {
    out.extend_from_slice(keys.bytes);
    let mut separator = b'[';
    for item in list.iter().filter(|item| std::str::from_utf8(item).is_err()) {
        out.push(separator);
        separator = b',';
        push_base64(out, item);
    }
    out.push(b']');
}

/// The two JSON keys of a list of byte strings: one for those in UTF-8, one for all others. Each is
/// written with its comma, quotes and colon.
pub(crate) struct ListKeys {
    /// The key of the array of strings that are UTF-8.
    pub(crate) text: &'static [u8],
    /// The key of the array of the strings that are not UTF-8, which are in base64.
    pub(crate) bytes: &'static [u8],
}

/// The JSON keys of the list of paths.
pub(crate) const PATHS: ListKeys = ListKeys { text: b",\"paths\":", bytes: b",\"paths_bytes\":" };
/// The JSON keys of the list of extended attribute names.
pub(crate) const XATTRS: ListKeys =
    ListKeys { text: b",\"xattrs\":", bytes: b",\"xattrs_bytes\":" };
