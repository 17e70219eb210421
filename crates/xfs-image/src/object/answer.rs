//! Reads the heads of HTTP responses: the version of the object, the range, and errors.
//!
//! Nothing here is trusted. A number is only compared with the number that was asked for (I2).

use ureq::http::HeaderMap;
use ureq::http::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, LAST_MODIFIED};

use super::error::RequestFailure;

/// The longest ETag or date that is kept, in bytes.
const MAX_VERSION_BYTES: usize = 1024;
/// The longest error code of S3, in bytes.
const MAX_CODE_BYTES: usize = 64;

/// The version of an object (I1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// A strong ETag.
    Tag(String),
    /// The time of the last change (`Last-Modified`), which has a resolution of a second.
    Modified(String),
}

/// The range of a response, and the length of the whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) total: u64,
}

impl Version {
    /// Returns the version of the object from the headers of a response, or `None` if they contain
    /// no version. A weak ETag is not used: two versions with different bytes may have the same
    /// weak ETag.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name| {
            let text = headers.get(name)?.to_str().ok()?.trim();
            (!text.is_empty() && text.len() <= MAX_VERSION_BYTES).then(|| text.to_owned())
        };
        let tag = text(ETAG).filter(|tag| !tag.starts_with("W/"));
        tag.map(Self::Tag).or_else(|| text(LAST_MODIFIED).map(Self::Modified))
    }

    /// Returns the header by which a request asks for this version only.
    pub(super) fn condition(&self) -> (&'static str, &str) {
        match self {
            Self::Tag(tag) => ("if-match", tag),
            Self::Modified(time) => ("if-unmodified-since", time),
        }
    }

    /// Checks that a response is of this version.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), RequestFailure> {
        let name = match self {
            Self::Tag(_) => ETAG,
            Self::Modified(_) => LAST_MODIFIED,
        };
        let (_, expected) = self.condition();
        match headers.get(name).map(|value| value.to_str().map(str::trim)) {
            // I1 of `xfs_image::object`
            Some(Ok(found)) if found == expected => Ok(()),
            Some(_) => Err(RequestFailure::Changed),
            None => Err(RequestFailure::WrongAnswer("it does not repeat the object's version")),
        }
    }
}

impl ContentRange {
    /// Parses the header `Content-Range`: `bytes FIRST-LAST/TOTAL`.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, RequestFailure> {
        let wrong = || RequestFailure::WrongAnswer("its Content-Range cannot be read");
        let text = headers.get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
        let text = text.and_then(|text| text.trim().strip_prefix("bytes ")).ok_or_else(wrong)?;
        let (range, total) = text.split_once('/').ok_or_else(wrong)?;
        let (first, last) = range.split_once('-').ok_or_else(wrong)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
        let range = Self { first: number(first)?, last: number(last)?, total: number(total)? };
        let is_inside = range.first <= range.last && range.last < range.total;
        if is_inside { Ok(range) } else { Err(wrong()) }
    }
}

/// Checks that the bytes of a response are those of the object, and not a compressed form.
pub(super) fn check_encoding(headers: &HeaderMap) -> Result<(), RequestFailure> {
    match headers.get(CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            Err(RequestFailure::WrongAnswer("the server has compressed it"))
        }
        _ => Ok(()),
    }
}

/// Returns the details of an error: the code in the document of S3, or the region of the bucket in
/// the headers. Returns `None` if the response has neither. A code or a region with other
/// characters than letters, digits, `-`, `_` and `.` is dropped, so that a server cannot send
/// control characters to the terminal.
pub(super) fn error_detail(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let is_word = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !text.is_empty() && text.len() <= MAX_CODE_BYTES && text.bytes().all(is_plain)
    };
    let body = String::from_utf8_lossy(body);
    let code = body.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map(|(code, _)| code).filter(|code| is_word(code));
    let region = headers.get("x-amz-bucket-region").and_then(|value| value.to_str().ok());
    match (code, region.filter(|region| is_word(region))) {
        (Some(code), Some(region)) => Some(format!("{code}; the bucket is in {region}")),
        (Some(code), None) => Some(code.to_owned()),
        (None, Some(region)) => Some(format!("the bucket is in {region}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests;
