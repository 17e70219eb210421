use ureq::http::{HeaderMap, HeaderName, HeaderValue};

use super::{ContentRange, Version, check_encoding, error_detail};
use crate::object::RequestFailure;

fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
    let header = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    all.iter().map(header).collect()
}

#[test]
fn version_is_a_strong_tag_or_the_time_of_the_last_change() {
    let time = "Wed, 21 Oct 2015 07:28:00 GMT";
    let tag = headers(&[("etag", "\"a\""), ("last-modified", time)]);
    let weak = headers(&[("etag", "W/\"a\""), ("last-modified", time)]);
    assert_eq!(Version::of(&tag).unwrap().condition(), ("if-match", "\"a\""));
    assert_eq!(Version::of(&weak).unwrap().condition(), ("if-unmodified-since", time));
    assert_eq!(Version::of(&headers(&[("etag", "W/\"a\"")])), None);
    let long = "x".repeat(2000);
    assert_eq!(Version::of(&headers(&[("etag", &long)])), None);
    let version = Version::of(&tag).unwrap();
    assert_eq!(version.check(&weak), Err(RequestFailure::Changed));
    assert_eq!(version.check(&tag), Ok(()));
    let missing = version.check(&headers(&[])).unwrap_err();
    assert!(matches!(missing, RequestFailure::WrongAnswer(_)), "{missing}");
}

#[test]
fn ranges_are_parsed_and_checked() {
    let parse = |text| ContentRange::of(&headers(&[("content-range", text)]));
    assert_eq!(parse("bytes 0-9/10").unwrap(), ContentRange { first: 0, last: 9, total: 10 });
    for wrong in [
        "bytes 0-9/*",
        "bytes */10",
        "bytes 5-4/10",
        "bytes 0-10/10",
        "0-9/10",
        "bytes 0-9",
        "bytes 0-99999999999999999999/10",
        "bytes -1-9/10",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    assert!(ContentRange::of(&headers(&[])).is_err());
    assert!(check_encoding(&headers(&[("content-encoding", "gzip")])).is_err());
    assert!(check_encoding(&headers(&[("content-encoding", "identity")])).is_ok());
}

#[test]
fn details_of_errors_are_words_only() {
    let region = headers(&[("x-amz-bucket-region", "eu-west-1")]);
    let body = b"<?xml?><Error><Code>PermanentRedirect</Code><Message>...";
    let both = "PermanentRedirect; the bucket is in eu-west-1";
    assert_eq!(error_detail(&region, body).as_deref(), Some(both));
    assert_eq!(error_detail(&headers(&[]), body).as_deref(), Some("PermanentRedirect"));
    for wrong in [&b"<Code>\x1b[31m</Code>"[..], b"<Code></Code>", b"<Code>a", b"\xff\xfe", b""] {
        assert_eq!(error_detail(&headers(&[]), wrong), None);
    }
}
