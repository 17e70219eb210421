//! Signatures of requests to S3, version 4.
//!
//! Owns: the credentials, and the signatures of a GET without a body and of a PUT. Does **not**
//! own: hashes (`ring`).
//!
//! ```text
//! canonical request: method \n path \n \n headers \n names of headers \n hash of the body
//! to sign:           AWS4-HMAC-SHA256 \n time \n scope \n hash of the canonical request
//! key:               HMAC(HMAC(HMAC(HMAC("AWS4" + secret, day), region), "s3"), "aws4_request")
//! ```

use std::fmt::Write;

use jiff::Timestamp;
use ring::{digest, hmac};

use super::error::ObjectError;
use super::options::ObjectOptions;

/// SHA-256 of an empty body: a GET has no body.
pub(super) const EMPTY_HASH: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// The bytes of an object's key, in addition to letters and digits, that are not escaped.
const UNRESERVED: &[u8] = b"-_.~/";

/// The credentials of a user of S3, and the region of the bucket.
#[derive(Clone)]
pub(super) struct S3Credentials {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
    region: String,
}

/// The parts of a request that are signed.
pub(super) struct Signable<'a> {
    pub(super) method: &'static str,
    pub(super) host: &'a str,
    /// The path of the object on the server, escaped as it is sent.
    pub(super) path: &'a str,
    /// The value of the header `Range`.
    pub(super) range: Option<&'a str>,
    /// SHA-256 of the body, in hexadecimal digits.
    pub(super) body_hash: &'a str,
    pub(super) time: Timestamp,
}

impl S3Credentials {
    /// Reads the credentials from the environment. Returns `None` if the environment has no
    /// credentials: then requests are not signed, and only public objects can be read.
    pub(super) fn of(options: &ObjectOptions, region: &str) -> Result<Option<Self>, ObjectError> {
        let (access, secret) = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY");
        let missing = |name, other: &str| ObjectError::Environment {
            name,
            problem: format!("is not set, but {other} is"),
        };
        match (options.variable(access), options.variable(secret)) {
            (Some(access_key), Some(secret_key)) => Ok(Some(Self {
                access_key,
                secret_key,
                session_token: options.variable("AWS_SESSION_TOKEN"),
                region: region.to_owned(),
            })),
            (None, None) => Ok(None),
            (Some(_), None) => Err(missing(secret, access)),
            (None, Some(_)) => Err(missing(access, secret)),
        }
    }

    /// Returns the headers that authenticate a request: `Authorization` and the headers that only
    /// the signature needs.
    pub(super) fn sign(&self, request: &Signable<'_>) -> Vec<(&'static str, String)> {
        let time = request.time.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = time.split_once('T').map_or(time.as_str(), |(day, _)| day);
        let mut headers = vec![("host", request.host.to_owned())];
        headers.extend(request.range.map(|range| ("range", range.to_owned())));
        headers.push(("x-amz-content-sha256", request.body_hash.to_owned()));
        headers.push(("x-amz-date", time.clone()));
        headers.extend(self.session_token.clone().map(|token| ("x-amz-security-token", token)));
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let mut canonical = format!("{}\n{}\n\n", request.method, request.path);
        for (name, value) in &headers {
            canonical.push_str(&format!("{name}:{value}\n"));
        }
        canonical.push_str(&format!("\n{names}\n{}", request.body_hash));
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let signature = self.mac(day, &format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}"));
        let credential = format!("{}/{scope}", self.access_key);
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={credential},SignedHeaders={names},Signature={signature}"
        );
        // The client sends `host` and `range` in any case.
        headers.retain(|(name, _)| name.starts_with("x-amz-"));
        headers.push(("authorization", authorization));
        headers
    }

    fn mac(&self, day: &str, text: &str) -> String {
        let key = format!("AWS4{}", self.secret_key).into_bytes();
        let key = [day, &self.region, "s3", "aws4_request"].into_iter().fold(key, |key, part| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            hmac::sign(&key, part.as_bytes()).as_ref().to_vec()
        });
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        hex(hmac::sign(&key, text.as_bytes()).as_ref())
    }
}

/// Escapes the key of an object for the path of a URI, once, as S3 signs it.
pub(super) fn escape_key(key: &str) -> String {
    let mut escaped = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || UNRESERVED.contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("a string takes every text");
        }
    }
    escaped
}

/// Returns the bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes every text");
        text
    })
}

#[cfg(test)]
mod tests;
