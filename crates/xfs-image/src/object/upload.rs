//! Files of the host as new objects of a web or S3 server.
//!
//! Owns: the address of an object below a folder, and the requests that store it: PUT, and MKCOL
//! for a WebDAV server that wants its folders made first. Does **not** own: which objects exist.
//!
//! A server stores the body of a PUT when it has all of it, and replaces an earlier object in one
//! step. So a reader sees the earlier object or the new one. S3 promises this; a web server
//! promises what its documentation says.

use std::fs::File;
use std::io::{self, Read, Seek};

use jiff::Timestamp;
use ring::digest::{Context, SHA256};
use ureq::Agent;
use ureq::http::header::{HeaderName, HeaderValue};
use ureq::http::{Request, Uri};

use super::address::{Authentication, ObjectAddress};
use super::client::{FIRST_PAUSE, MAX_PAUSE, agent, bad_header, failure_of, refused};
use super::error::{MAX_PUT_BYTES, ObjectError, RequestFailure};
use super::options::ObjectOptions;
use super::signature::{Signable, hex};

/// The size of one read when a file is hashed, in bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// The type of block that Azure wants to be named. Other servers ignore the header.
const AZURE_BLOB: (&str, &str) = ("x-ms-blob-type", "BlockBlob");

/// A folder of a web or S3 server, in which objects are stored: `s3://BUCKET/PREFIX`,
/// `http://HOST/PATH` or `https://HOST/PATH`. The query of a web address, such as a signature that
/// is valid for the whole folder, becomes that of each object.
pub struct ObjectFolder {
    before: String,
    query: String,
    options: ObjectOptions,
    agent: Agent,
}

impl ObjectFolder {
    /// Checks the address and the environment. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Address`] and [`ObjectError::Environment`].
    pub fn new(address: &str, options: &ObjectOptions) -> Result<Self, ObjectError> {
        let is_web = address.starts_with("http://") || address.starts_with("https://");
        let (before, query) = match address.split_once('?').filter(|_| is_web) {
            Some((before, query)) => (before, format!("?{query}")),
            None => (address, String::new()),
        };
        let before = before.trim_end_matches('/').to_owned();
        let folder = Self { before, query, options: options.clone(), agent: agent(options)? };
        ObjectAddress::parse(&folder.address_of("object"), options)?;
        Ok(folder)
    }

    fn address_of(&self, name: &str) -> String {
        format!("{}/{name}{}", self.before, self.query)
    }

    /// Stores the contents of a file as the object `name` below this folder, in place of an earlier
    /// one. `name` has letters, digits and `-_.=/` only. Returns the address without credentials.
    ///
    /// # Errors
    ///
    /// See [`ObjectError`]. The object is then absent, or the earlier one. If the connection broke
    /// after the body, it may also be the new one.
    pub fn store(&self, name: &str, file: &File) -> Result<String, ObjectError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.=/".contains(&byte);
        assert!(name.bytes().all(is_plain), "the name needs no escapes");
        let address = ObjectAddress::parse(&self.address_of(name), &self.options)?;
        let url = address.shown.clone();
        let unread =
            |error: io::Error| ObjectError::File { url: url.clone(), reason: error.to_string() };
        let length = file.metadata().map_err(unread)?.len();
        if matches!(address.authentication, Authentication::S3(_)) && length > MAX_PUT_BYTES {
            return Err(ObjectError::TooLong { url, length });
        }
        let hash = match address.authentication {
            Authentication::S3(_) => hash_of(file).map_err(unread)?,
            _ => String::new(),
        };
        let upload = Upload { agent: &self.agent, address: &address, file, hash };
        let mut pause = FIRST_PAUSE;
        let mut attempts = 1;
        let mut has_folders = false;
        loop {
            let failure = match upload.put() {
                Ok(()) => return Ok(url),
                // WebDAV: the folder of the object does not exist.
                Err(RequestFailure::Status { code: 409, .. })
                    if !has_folders && !upload.is_s3() =>
                {
                    has_folders = true;
                    match upload.make_folders(name) {
                        Ok(()) => continue,
                        Err((method, failure)) => {
                            return Err(ObjectError::Upload { method, url, attempts, failure });
                        }
                    }
                }
                Err(failure) => failure,
            };
            if attempts >= self.options.max_attempts() || !failure.is_transient() {
                return Err(ObjectError::Upload { method: "PUT", url, attempts, failure });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_PAUSE);
            attempts += 1;
        }
    }
}

/// Formats the value without the query, which can be a credential (I5 of `xfs_image::object`).
impl std::fmt::Debug for ObjectFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectFolder").finish_non_exhaustive()
    }
}

/// Returns SHA-256 of a file, in hexadecimal digits.
fn hash_of(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    let mut context = Context::new(&SHA256);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        match chunk.get(..count) {
            Some(bytes) if !bytes.is_empty() => context.update(bytes),
            _ => return Ok(hex(context.finish().as_ref())),
        }
    }
}

/// The object that is stored.
struct Upload<'a> {
    agent: &'a Agent,
    address: &'a ObjectAddress,
    file: &'a File,
    /// SHA-256 of the file, if the request is signed.
    hash: String,
}

impl Upload<'_> {
    fn is_s3(&self) -> bool {
        matches!(self.address.authentication, Authentication::S3(_))
    }

    fn put(&self) -> Result<(), RequestFailure> {
        let mut file = self.file;
        file.rewind().map_err(|error| RequestFailure::Connection(error.to_string()))?;
        let mut headers = vec![("content-type", "application/octet-stream".to_owned())];
        match &self.address.authentication {
            Authentication::None => headers.push((AZURE_BLOB.0, AZURE_BLOB.1.to_owned())),
            Authentication::Basic(value) => headers.push(("authorization", value.clone())),
            Authentication::S3(credentials) => headers.extend(credentials.sign(&Signable {
                method: "PUT",
                host: &self.address.host(),
                path: self.address.uri.path(),
                range: None,
                body_hash: &self.hash,
                time: Timestamp::now(),
            })),
        }
        // The client sends `host` in any case.
        headers.retain(|(name, _)| *name != "host");
        let mut request = self.agent.put(self.address.uri.clone());
        for (name, value) in headers {
            let value = HeaderValue::from_str(&value).map_err(|_| bad_header())?;
            request = request.header(HeaderName::from_static(name), value);
        }
        let mut response = request.send(file).map_err(|error| failure_of(&error))?;
        match response.status().as_u16() {
            200 | 201 | 204 => Ok(()),
            _ => Err(refused(&mut response)),
        }
    }

    /// Makes the folders of the object `name`, the uppermost first. A server answers with 405 for
    /// one that exists.
    fn make_folders(&self, name: &str) -> Result<(), (&'static str, RequestFailure)> {
        let path = self.address.uri.path();
        let above = path.len().saturating_sub(name.len());
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        // The folder that the user named may be missing too, but nothing above it.
        for end in ends.filter(|at| *at + 1 >= above) {
            let folder = path.get(..=end).unwrap_or_default();
            self.make_folder(folder).map_err(|failure| ("MKCOL", failure))?;
        }
        Ok(())
    }

    fn make_folder(&self, path: &str) -> Result<(), RequestFailure> {
        let bad = || RequestFailure::WrongAnswer("the address of a folder");
        let mut parts = self.address.uri.clone().into_parts();
        let target = match self.address.uri.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        parts.path_and_query = Some(target.parse().map_err(|_| bad())?);
        let uri = Uri::from_parts(parts).map_err(|_| bad())?;
        let mut request = Request::builder().method("MKCOL").uri(uri);
        if let Authentication::Basic(value) = &self.address.authentication {
            request = request.header("authorization", value);
        }
        let request = request.body(()).map_err(|_| bad_header())?;
        let mut response = self.agent.run(request).map_err(|error| failure_of(&error))?;
        match response.status().as_u16() {
            200..=299 | 405 => Ok(()),
            _ => Err(refused(&mut response)),
        }
    }
}

#[cfg(test)]
mod tests;
