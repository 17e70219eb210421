//! Requests for ranges of one object.
//!
//! Owns: how a request is sent, checked and sent again. Does **not** own which ranges are needed.
//!
//! ```text
//! fetch --> attempt --(the range)--> done
//!             ^  |
//!             |  +--(transient failure: connection, time-out, 408, 429, 5xx)--> pause --+
//!             |  +--(any other failure)--> error                                        |
//!             +---------------------------------(attempts are left)---------------------+
//! ```

use std::io::Read;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use ureq::config::RedirectAuthHeaders;
use ureq::http::Response;
use ureq::http::header::{HeaderName, HeaderValue};
use ureq::http::uri::Scheme;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Proxy, ResponseExt};
use xfs_sync::{Condvar, Mutex, Volume};

use super::address::{Authentication, ObjectAddress, without_query};
use super::answer::{ContentRange, Version, check_encoding, error_detail};
use super::error::{ObjectError, RequestFailure};
use super::options::{ObjectOptions, ObjectRequest};
use super::read_ahead::MAX_WINDOW_BYTES;
use super::resolver::KeepingResolver;
use super::signature::{EMPTY_HASH, Signable};

/// The most requests for one object at a time.
pub(super) const MAX_REQUESTS: usize = 8;
/// The most redirections from the address of the user to that of the object.
const MAX_REDIRECTIONS: u32 = 5;
/// The pause after the first failed attempt. Each further pause is twice as long.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(2);
/// The longest part of an error document that is read, in bytes.
const MAX_ERROR_BYTES: u64 = 4096;
/// The time limit for a whole body, as a multiple of the time limit for one step of a request.
const BODY_STEPS: u32 = 10;

/// A range of an object: its first byte, and its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    pub(super) length: u64,
}

impl ByteRange {
    const fn last(self) -> u64 {
        self.start + self.length.saturating_sub(1)
    }
}

/// The client of one object.
pub(super) struct RangeClient {
    agent: Agent,
    address: ObjectAddress,
    options: ObjectOptions,
    /// The number of requests that may be started now.
    permits: Mutex<usize, Volume>,
    returned: Condvar<Volume>,
}

/// The version and the length of an object.
#[derive(Debug)]
pub(super) struct ObjectFacts {
    pub(super) version: Version,
    pub(super) length_bytes: u64,
}

/// The response to the first request.
pub(super) struct Opened {
    pub(super) facts: ObjectFacts,
    /// The first bytes of the object: as many as were asked for, or the whole object.
    pub(super) first: Vec<u8>,
}

/// The progress of an attempt so far, for the observer.
#[derive(Default)]
struct Progress {
    status: Option<u16>,
    received: u64,
}

impl RangeClient {
    pub(super) fn new(
        address: ObjectAddress,
        options: &ObjectOptions,
    ) -> Result<Self, ObjectError> {
        let agent = agent(options)?;
        let permits = Mutex::new(MAX_REQUESTS);
        let options = options.clone();
        Ok(Self { agent, address, options, permits, returned: Condvar::new() })
    }

    /// Sends the first request, which asks for the first `length` bytes. The response also contains
    /// the version and the length of the object. A HEAD request is not used: presigned addresses do
    /// not allow it, and the first bytes are needed next. Only this request follows redirections.
    pub(super) fn open(&mut self, length: u64) -> Result<Opened, ObjectError> {
        let range = ByteRange { start: 0, length };
        let (opened, moved_to) = self.with_retries(range, |progress| {
            let mut response = self.send(range, None)?;
            let head = self.head(&mut response, progress)?;
            let version = Version::of(response.headers()).ok_or(RequestFailure::NoVersion)?;
            if head.first != 0 || head.last != range.last().min(head.total - 1) {
                return Err(RequestFailure::WrongAnswer("the server sent another range"));
            }
            let moved_to = response.get_uri().clone();
            let first = body(&mut response, head.last + 1, progress)?;
            let facts = ObjectFacts { version, length_bytes: head.total };
            Ok((Opened { facts, first }, moved_to))
        })?;
        if moved_to != self.address.uri {
            // The credentials were not sent there (I5), and were not needed.
            self.address.authentication = Authentication::None;
            self.address.shown = without_query(&moved_to);
            self.address.uri = moved_to;
        }
        Ok(opened)
    }

    /// Reads a range of the version of the object that was opened.
    pub(super) fn fetch(
        &self,
        range: ByteRange,
        facts: &ObjectFacts,
    ) -> Result<Vec<u8>, ObjectError> {
        self.with_retries(range, |progress| {
            let mut response = self.send(range, Some(&facts.version))?;
            let head = self.head(&mut response, progress)?;
            facts.version.check(response.headers())?;
            // I1 of `xfs_image::object`
            if head.total != facts.length_bytes {
                return Err(RequestFailure::Changed);
            }
            if (head.first, head.last) != (range.start, range.last()) {
                return Err(RequestFailure::WrongAnswer("the server sent another range"));
            }
            body(&mut response, range.length, progress)
        })
    }

    /// Runs attempts until one succeeds, one fails for good, or none is left. Reports each attempt
    /// to the observer.
    fn with_retries<T>(
        &self,
        range: ByteRange,
        attempt: impl Fn(&mut Progress) -> Result<T, RequestFailure>,
    ) -> Result<T, ObjectError> {
        let mut pause = FIRST_PAUSE;
        let mut number = 1;
        loop {
            let failure = match self.observed(range, number, &attempt) {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            if number >= self.options.max_attempts() || !failure.is_transient() {
                return Err(ObjectError::Request {
                    url: self.address.shown.clone(),
                    first: range.start,
                    last: range.last(),
                    attempts: number,
                    failure,
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_PAUSE);
            number += 1;
        }
    }

    fn observed<T>(
        &self,
        range: ByteRange,
        number: u32,
        attempt: impl Fn(&mut Progress) -> Result<T, RequestFailure>,
    ) -> Result<T, RequestFailure> {
        self.acquire();
        let (mut progress, began) = (Progress::default(), Instant::now());
        let done = attempt(&mut progress);
        if let Some(observer) = self.options.observed_by() {
            observer.request(&ObjectRequest {
                url: &self.address.shown,
                offset: range.start,
                length: range.length,
                received: progress.received,
                elapsed: began.elapsed(),
                attempt: number,
                status: progress.status,
            });
        }
        self.release();
        done
    }

    fn acquire(&self) {
        let mut permits = self.permits.lock();
        while *permits == 0 {
            self.returned.wait(&mut permits);
        }
        *permits -= 1;
    }

    fn release(&self) {
        *self.permits.lock() += 1;
        self.returned.notify_one();
    }

    fn send(
        &self,
        range: ByteRange,
        version: Option<&Version>,
    ) -> Result<Response<Body>, RequestFailure> {
        let bytes = format!("bytes={}-{}", range.start, range.last());
        let mut headers =
            vec![("range", bytes.clone()), ("accept-encoding", "identity".to_owned())];
        if let Some((name, value)) = version.map(Version::condition) {
            headers.push((name, value.to_owned()));
        }
        match &self.address.authentication {
            Authentication::None => {}
            Authentication::Basic(value) => headers.push(("authorization", value.clone())),
            Authentication::S3(credentials) => headers.extend(credentials.sign(&Signable {
                method: "GET",
                host: &self.address.host(),
                path: self.address.uri.path(),
                range: Some(&bytes),
                body_hash: EMPTY_HASH,
                time: Timestamp::now(),
            })),
        }
        let mut request = self.agent.get(self.address.uri.clone());
        for (name, value) in headers {
            let value = HeaderValue::from_str(&value).map_err(|_| bad_header())?;
            request = request.header(HeaderName::from_static(name), value);
        }
        let is_signed = matches!(self.address.authentication, Authentication::S3(_));
        let redirections = match version {
            None if !is_signed => MAX_REDIRECTIONS,
            _ => 0,
        };
        // An encrypted request never leads to one that is not.
        let is_encrypted = self.address.uri.scheme() == Some(&Scheme::HTTPS);
        let request = request.config().max_redirects(redirections).https_only(is_encrypted).build();
        request.call().map_err(|error| failure_of(&error))
    }

    /// Checks the head of a response, and returns its range.
    fn head(
        &self,
        response: &mut Response<Body>,
        progress: &mut Progress,
    ) -> Result<ContentRange, RequestFailure> {
        let code = response.status().as_u16();
        progress.status = Some(code);
        match code {
            206 => {
                check_encoding(response.headers())?;
                ContentRange::of(response.headers())
            }
            200 => Err(RequestFailure::NoRanges),
            412 => Err(RequestFailure::Changed),
            _ => Err(refused(response)),
        }
    }
}

/// Returns the agent that sends the requests for an object.
pub(super) fn agent(options: &ObjectOptions) -> Result<Agent, ObjectError> {
    let timeout = options.step_timeout();
    let proxy = options.uses_process_environment().then(Proxy::try_from_env).flatten();
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .redirect_auth_headers(RedirectAuthHeaders::Never)
        .allow_non_standard_methods(true)
        .timeout_connect(Some(timeout))
        .timeout_send_request(Some(timeout))
        .timeout_per_write(Some(timeout))
        .timeout_recv_response(Some(timeout))
        .timeout_per_read(Some(timeout))
        .timeout_recv_body(Some(timeout * BODY_STEPS))
        .max_idle_connections_per_host(MAX_REQUESTS)
        .user_agent(concat!("ferroxfs/", env!("CARGO_PKG_VERSION")))
        .tls_config(TlsConfig::builder().root_certs(root_certificates(options)?).build())
        .proxy(proxy)
        .build();
    let resolver = KeepingResolver::new(options.observed_by().cloned());
    Ok(Agent::with_parts(config, DefaultConnector::default(), resolver))
}

/// Returns the failure of a request that the server has answered with an error.
pub(super) fn refused(response: &mut Response<Body>) -> RequestFailure {
    let mut text = Vec::new();
    let reader = response.body_mut().as_reader();
    // The status says more than a failure to read its explanation.
    _ = reader.take(MAX_ERROR_BYTES).read_to_end(&mut text);
    let detail = error_detail(response.headers(), &text);
    RequestFailure::Status { code: response.status().as_u16(), detail }
}

/// Reads a body of exactly `length` bytes.
fn body(
    response: &mut Response<Body>,
    length: u64,
    progress: &mut Progress,
) -> Result<Vec<u8>, RequestFailure> {
    assert!(length <= MAX_WINDOW_BYTES, "a request asks for a window at most (I2)");
    let mut bytes = Vec::with_capacity(length as usize);
    let mut reader = response.body_mut().as_reader().take(length + 1);
    let read = reader.read_to_end(&mut bytes);
    progress.received = bytes.len() as u64;
    read.map_err(|error| failure_of_io(&error))?;
    match (bytes.len() as u64).cmp(&length) {
        std::cmp::Ordering::Equal => Ok(bytes),
        std::cmp::Ordering::Less => {
            Err(RequestFailure::Connection("it ended before the end of the range".to_owned()))
        }
        std::cmp::Ordering::Greater => Err(RequestFailure::WrongAnswer("its body is too long")),
    }
}

pub(super) fn bad_header() -> RequestFailure {
    RequestFailure::BadCredentials
}

pub(super) fn failure_of(error: &ureq::Error) -> RequestFailure {
    match error {
        ureq::Error::Timeout(_) => RequestFailure::TimedOut,
        ureq::Error::Io(error) => failure_of_io(error),
        ureq::Error::HostNotFound => {
            RequestFailure::Connection("the name of the server is unknown".to_owned())
        }
        ureq::Error::Rustls(error) => RequestFailure::Tls(error.to_string()),
        ureq::Error::Tls(error) => RequestFailure::Tls((*error).to_owned()),
        ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed => {
            RequestFailure::WrongAnswer("it leads to other addresses again and again")
        }
        ureq::Error::RequireHttpsOnly(_) => {
            RequestFailure::WrongAnswer("it leads to an address without encryption")
        }
        ureq::Error::BadUri(_) => RequestFailure::WrongAnswer("it leads to no valid address"),
        ureq::Error::LargeResponseHeader(..) => RequestFailure::WrongAnswer("its head is too long"),
        ureq::Error::Protocol(_) | ureq::Error::Http(_) => {
            RequestFailure::WrongAnswer("it is not HTTP")
        }
        other => RequestFailure::Connection(other.to_string()),
    }
}

fn failure_of_io(error: &std::io::Error) -> RequestFailure {
    match error.kind() {
        std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => RequestFailure::TimedOut,
        // The errors of rustls have this kind.
        std::io::ErrorKind::InvalidData => RequestFailure::Tls(error.to_string()),
        _ => RequestFailure::Connection(error.to_string()),
    }
}

/// Returns the certificates that are trusted: those in the file that the environment names, or
/// Mozilla's.
fn root_certificates(options: &ObjectOptions) -> Result<RootCerts, ObjectError> {
    let names = ["AWS_CA_BUNDLE", "SSL_CERT_FILE"];
    let Some((name, path)) =
        names.into_iter().find_map(|name| Some((name, options.variable(name)?)))
    else {
        return Ok(RootCerts::WebPki);
    };
    let failed = |problem| ObjectError::Environment { name, problem };
    let bytes = std::fs::read(&path)
        .map_err(|error| failed(format!("names a file that cannot be read: {path}: {error}")))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&bytes) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(failed(format!("names a file with a bad item: {error}"))),
        }
    }
    if certificates.is_empty() {
        return Err(failed(format!("names a file without certificates: {path}")));
    }
    Ok(certificates.into())
}
