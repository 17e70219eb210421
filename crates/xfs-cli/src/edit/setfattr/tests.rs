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

/// Checks how escapes in a text value are decoded. The expected values are the results of
/// setfattr(1) 2.5.1.
#[test]
fn escapes_are_those_that_getfattr_prints() {
    check(r#""a\012b\"c""#, Some(b"a\nb\"c"));
    check(r"a\012b", Some(b"a\nb"));
    check(r#""\1\12\1234""#, Some(b"\x01\nS4"));
    check(r#""\400\777\09\3a""#, Some(b"\0\xff\x009\x03a"));
    check(r#""\q\8\n\x41""#, Some(br"\q\8\n\x41"));
    check(r#""a\\""#, Some(br"a\"));
    check(r#""a\""#, Some(b"a\""));
    check(r"a\", Some(br"a\"));
    check(r"\", Some(br"\"));
    check(r#""\"#, Some(br#""\"#));
    check(r#""a"b""#, Some(br#"a"b"#));
    check(r#""abc"#, Some(br#""abc"#));
    check(r#"abc""#, Some(br#"abc""#));
    check(r#"\\"#, Some(br"\"));
}
