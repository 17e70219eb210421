//! Addresses of objects: `http://HOST/PATH`, `https://HOST/PATH` and `s3://BUCKET/KEY`.
//!
//! Owns: the address on the server, the form without credentials, and the way to authenticate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ureq::http::Uri;

use super::error::ObjectError;
use super::options::ObjectOptions;
use super::signature::{S3Credentials, escape_key};
use crate::remote::{NOT_ESCAPED, percent_decoded};

/// The longest address in bytes.
const MAX_ADDRESS_BYTES: usize = 8192;
const DEFAULT_REGION: &str = "us-east-1";

/// An object on a server.
#[derive(Debug)]
pub(super) struct ObjectAddress {
    pub(super) uri: Uri,
    /// The URI without credentials, for messages (I5).
    pub(super) shown: String,
    pub(super) authentication: Authentication,
}

/// The way in which a request proves the rights of its sender.
pub(super) enum Authentication {
    /// The request has no credentials, or they are in the query of the address.
    None,
    /// The header `Authorization` with this value, which contains a user name and a password.
    Basic(String),
    /// A signature of S3, version 4.
    S3(S3Credentials),
}

/// Formats the value without the credentials.
impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Basic(_) => "Basic",
            Self::S3(_) => "S3",
        })
    }
}

impl ObjectAddress {
    /// Parses an address. Credentials of S3 come from the environment.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Address`] and [`ObjectError::Environment`].
    pub(super) fn parse(text: &str, options: &ObjectOptions) -> Result<Self, ObjectError> {
        if text.len() > MAX_ADDRESS_BYTES {
            return Err(ObjectError::Address("it is too long"));
        }
        let (scheme, rest) = text.split_once("://").ok_or(ObjectError::Address("no scheme"))?;
        match scheme {
            "http" | "https" => Self::of_web(scheme, rest),
            "s3" => Self::of_s3(rest, options),
            "gs" | "az" => Err(ObjectError::Address(
                "gs:// and az:// are not read; use the https:// address of the object, which can \
                 be presigned",
            )),
            _ => Err(ObjectError::Address("its scheme is unknown")),
        }
    }

    fn of_web(scheme: &str, rest: &str) -> Result<Self, ObjectError> {
        // A fragment is for browsers, and is not sent.
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (authority, path) = match rest.find(['/', '?']).and_then(|at| rest.split_at_checked(at))
        {
            Some((authority, path)) => (authority, path),
            None => (rest, "/"),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if host.is_empty() {
            return Err(ObjectError::Address("the host is missing"));
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let uri = uri(&format!("{scheme}://{host}{path}"))?;
        let authentication = match user {
            Some(user) => {
                let user = percent_decoded(user).ok_or(ObjectError::Address(NOT_ESCAPED))?;
                Authentication::Basic(format!("Basic {}", STANDARD.encode(user)))
            }
            None => Authentication::None,
        };
        let shown = without_query(&uri);
        Ok(Self { uri, shown, authentication })
    }

    fn of_s3(rest: &str, options: &ObjectOptions) -> Result<Self, ObjectError> {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_plain) {
            return Err(ObjectError::Address("the name of the bucket is missing or wrong"));
        }
        if key.is_empty() {
            return Err(ObjectError::Address("the key of the object is missing"));
        }
        let region = ["AWS_REGION", "AWS_DEFAULT_REGION"];
        let region = region.into_iter().find_map(|name| options.variable(name));
        let region = region.unwrap_or_else(|| DEFAULT_REGION.to_owned());
        if !region.bytes().all(is_plain) {
            let problem = "is not the name of a region".to_owned();
            return Err(ObjectError::Environment { name: "AWS_REGION", problem });
        }
        let uri = uri(&format!("{}/{}", s3_base(bucket, &region, options)?, escape_key(key)))?;
        let authentication = match S3Credentials::of(options, &region)? {
            Some(credentials) => Authentication::S3(credentials),
            None => Authentication::None,
        };
        let shown = without_query(&uri);
        Ok(Self { uri, shown, authentication })
    }

    /// Returns the value of the header `Host`: the host, and its port unless that is the default
    /// port of the scheme.
    pub(super) fn host(&self) -> String {
        let default = if self.uri.scheme_str() == Some("https") { 443 } else { 80 };
        let host = self.uri.host().unwrap_or_default();
        match self.uri.port_u16() {
            Some(port) if port != default => format!("{host}:{port}"),
            _ => host.to_owned(),
        }
    }
}

/// Returns the address of the bucket, without a slash at its end. The bucket is a part of the host
/// name, except in two cases: the environment names a server, or the bucket has a dot, so that no
/// certificate of AWS covers the host name. In these cases the bucket is the first part of the
/// path.
fn s3_base(bucket: &str, region: &str, options: &ObjectOptions) -> Result<String, ObjectError> {
    let names = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"];
    let named = names.into_iter().find_map(|name| Some((name, options.variable(name)?)));
    if let Some((name, endpoint)) = named {
        let endpoint = endpoint.trim_end_matches('/');
        let is_web = endpoint.starts_with("http://") || endpoint.starts_with("https://");
        if !is_web || endpoint.contains(['@', '?', '#']) {
            let problem = "is not the address of a server, such as https://HOST:PORT".to_owned();
            return Err(ObjectError::Environment { name, problem });
        }
        return Ok(format!("{endpoint}/{bucket}"));
    }
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    Ok(match bucket.contains('.') {
        true => format!("https://s3.{region}.{domain}/{bucket}"),
        false => format!("https://{bucket}.s3.{region}.{domain}"),
    })
}

fn uri(text: &str) -> Result<Uri, ObjectError> {
    let bad = ObjectError::Address("it has a character that must be written as %XX");
    text.parse::<Uri>().map_err(|_| bad)
}

/// Returns the URI with `?...` in place of its query (I5).
pub(super) fn without_query(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let query = if uri.query().is_some() { "?..." } else { "" };
    format!("{scheme}://{host}{}{query}", uri.path())
}

#[cfg(test)]
mod tests;
