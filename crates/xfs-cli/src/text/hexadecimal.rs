//! Bytes as hexadecimal digits, such as those of a digest.

use std::fmt::Write;

/// Returns the bytes as lower-case digits, two for each byte.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text grows as needed");
        text
    })
}
