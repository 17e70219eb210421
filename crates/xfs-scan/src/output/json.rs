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
    if is_plain(text.as_bytes()) {
        push_plain(out, text.as_bytes());
    } else {
        // Writing a string to memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

#[inline]
fn push_plain(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Returns whether `text` is ASCII without characters that JSON must escape. Such bytes are UTF-8,
/// and are their own form in JSON.
#[inline]
pub(crate) fn is_plain(text: &[u8]) -> bool {
    let (words, rest) = text.as_chunks::<8>();
    let special = words.iter().fold(0, |special, word| special | special_bytes(*word));
    match text.last_chunk::<8>() {
        // The last word overlaps the one before it, which costs less than single bytes.
        Some(last) => special | special_bytes(*last) == 0,
        None => rest.iter().all(|byte| (b' '..0x80).contains(byte) && !b"\"\\".contains(byte)),
    }
}

/// Returns a number that is 0 if each of the eight bytes is plain, as [`is_plain`] defines it.
#[inline]
const fn special_bytes(word: [u8; 8]) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * ONES;
    let word = u64::from_be_bytes(word);
    let quotes = word ^ (b'"' as u64 * ONES);
    let backslashes = word ^ (b'\\' as u64 * ONES);
    // A subtraction borrows from a byte that is less than the subtrahend. The high bit of that byte
    // is then set. A borrow into the next byte can only report a plain word as special if another
    // byte of the word is special.
    let below = word.wrapping_sub(b' ' as u64 * ONES)
        | quotes.wrapping_sub(ONES)
        | backslashes.wrapping_sub(ONES);
    (below | word) & HIGH
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
        if is_plain(item) {
            out.push(separator);
            push_plain(out, item);
        } else if let Ok(text) = std::str::from_utf8(item) {
            out.push(separator);
            push_string(out, text);
        } else {
            others = true;
            continue;
        }
        separator = b',';
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

#[cfg(test)]
mod tests {
    use super::{is_plain, push_string};

    #[test]
    fn bytes_that_json_escapes_are_not_plain_at_any_place() {
        for length in 1..30 {
            assert!(is_plain(&vec![b'~'; length]));
            for (at, byte) in (0..length).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut text = vec![b'a'; length];
                if let Some(place) = text.get_mut(at) {
                    *place = byte;
                }
                let expected = (b' '..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                assert_eq!(is_plain(&text), expected, "byte {byte} at {at} of {length}");
            }
        }
        assert!(is_plain(b""));
    }

    #[test]
    fn names_with_special_characters_are_escaped() {
        let mut out = Vec::new();
        push_string(&mut out, "long enough \u{fc}\"\\\n\u{7f}");
        assert_eq!(out, "\"long enough \u{fc}\\\"\\\\\\n\u{7f}\"".as_bytes());
    }
}
