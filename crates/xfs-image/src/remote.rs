//! Addresses of remote disks.
//!
//! Owns: which paths are addresses, and of which kind. Does **not** own the grammar of an address.

use std::borrow::Cow;
use std::path::Path;

use crate::nbd;

/// The schemes of objects, whether this build reads them or not.
const OBJECT_SCHEMES: [&str; 5] = ["http://", "https://", "s3://", "gs://", "az://"];

/// The kinds of remote disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    /// An export of an NBD server.
    Export,
    /// An object of a web or S3 server.
    Object,
}

impl Remote {
    /// Returns the kind of the address `path`; `None` if it is the path of a file.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        if nbd::is_address(path) {
            return Some(Self::Export);
        }
        let bytes = path.as_os_str().as_encoded_bytes();
        let is_object = OBJECT_SCHEMES.iter().any(|scheme| bytes.starts_with(scheme.as_bytes()));
        is_object.then_some(Self::Object)
    }
}

/// Returns whether the path is written as the address of a remote disk: of an NBD export or of an
/// object.
#[must_use]
pub fn is_address(path: &Path) -> bool {
    Remote::of(path).is_some()
}

/// Returns the address of an object without its credentials, for messages: without a name and a
/// password before the host, and with `?...` in place of a query, which can be a signature. Returns
/// any other path as it is.
#[must_use]
pub fn without_credentials(path: &Path) -> Cow<'_, Path> {
    let text = match (Remote::of(path), path.to_str()) {
        (Some(Remote::Object), Some(text)) => text,
        _ => return path.into(),
    };
    let Some((scheme, rest)) = text.split_once("://") else { return path.into() };
    let (rest, query) = match rest.split_once(['?', '#']) {
        Some((rest, _)) => (rest, "?..."),
        None => (rest, ""),
    };
    let (authority, key) = match rest.find('/').and_then(|at| rest.split_at_checked(at)) {
        Some(parts) => parts,
        None => (rest, ""),
    };
    // A key of S3 can have a question mark, but a reader of the message can do without the rest.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    Path::new(&format!("{scheme}://{host}{key}{query}")).to_owned().into()
}

/// The message about an address that [`percent_decoded`] refuses.
pub(crate) const NOT_ESCAPED: &str = "a % is not followed by two digits";

/// Replaces each `%XX` of an address with its byte. Returns `None` if a `%` is not followed by two
/// hexadecimal digits.
pub(crate) fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push((high << 4 | low) as u8);
    }
    Some(bytes)
}

/// The error for the address of an object in a build without the feature `object_store`.
#[cfg(not(feature = "object_store"))]
#[derive(Debug, thiserror::Error)]
#[error("is the address of an object, which this build of ferroxfs does not read")]
pub(crate) struct NoObjects;

#[cfg(not(feature = "object_store"))]
impl xfs_device::SourceError for NoObjects {
    fn kind(&self) -> xfs_device::SourceErrorKind {
        xfs_device::SourceErrorKind::Refused
    }

    fn hint(&self) -> Option<&'static str> {
        Some("use a build with the feature object_store")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Remote, is_address, without_credentials};

    #[test]
    fn addresses_of_remote_disks_are_recognised() {
        for text in ["http://h/a", "https://h/a", "s3://b/k", "gs://b/k", "az://c/k"] {
            assert_eq!(Remote::of(Path::new(text)), Some(Remote::Object), "{text}");
        }
        assert_eq!(Remote::of(Path::new("nbd://h/e")), Some(Remote::Export));
        for text in ["disk.img", "/http://h", "s3:/b", "ftp://h/a", "http:"] {
            assert!(!is_address(Path::new(text)), "{text}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        for (address, shown) in [
            ("http://user:pass@host:80/a/b", "http://host:80/a/b"),
            ("https://host/a?X-Amz-Signature=1", "https://host/a?..."),
            ("https://u@host?sig=1/2@3", "https://host?..."),
            ("https://host/a@b", "https://host/a@b"),
            ("s3://bucket/key", "s3://bucket/key"),
            ("nbd://host/export", "nbd://host/export"),
            ("a@b?c", "a@b?c"),
        ] {
            let found = without_credentials(Path::new(address));
            assert_eq!(found, Path::new(shown), "{address}");
        }
    }
}
