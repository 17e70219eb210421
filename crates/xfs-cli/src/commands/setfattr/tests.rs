use std::ffi::OsStr;

use super::parse_value;

fn check(value: &str, expected: Option<&[u8]>) {
    assert_eq!(parse_value(OsStr::new(value)).as_deref(), expected, "{value}");
}

#[test]
fn values_are_text_digits_or_base64() {
    check("", Some(b""));
    check("0", Some(b"0"));
    check("text", Some(b"text"));
    check("\"quoted text\"", Some(b"quoted text"));
    check("\"", Some(b"\""));
    check("0x", Some(b""));
    check("0x00ff", Some(b"\0\xff"));
    check("0Xab", Some(b"\xab"));
    check("0x0", None);
    check("0xgg", None);
    check("0x+1", None);
    check("0sAP8=", Some(b"\0\xff"));
    check("0s!", None);
}
