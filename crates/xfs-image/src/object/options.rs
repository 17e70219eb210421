//! Options of reading objects, and the observer of requests.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The default size of the cache of an object, in bytes.
const DEFAULT_CACHE_BYTES: u64 = 64 << 20;
/// The smallest size of the cache of an object, in bytes.
const MIN_CACHE_BYTES: u64 = 1 << 20;
/// The default time that a server has for one step of a request: to accept the connection, to send
/// the head of its response, to send the body.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The default number of attempts of a request.
const DEFAULT_ATTEMPTS: u32 = 5;

/// Options of reading objects at `http://`, `https://` and `s3://`.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    cache_bytes: u64,
    timeout: Duration,
    attempts: u32,
    observer: Option<Arc<dyn ObjectObserver>>,
    environment: Environment,
}

/// The source of the environment variables from which credentials and settings are read.
#[derive(Clone)]
enum Environment {
    Process,
    Given(Arc<BTreeMap<String, String>>),
}

/// Receives every request for an object, for a log or for statistics.
pub trait ObjectObserver: Send + Sync + fmt::Debug {
    /// Called at the end of every attempt of a request, from the thread that has made it.
    fn request(&self, request: &ObjectRequest<'_>);

    /// Called when the name of a server has been looked up, before the first request to it. Later
    /// requests use one of the `addresses`.
    fn resolved(&self, addresses: &[SocketAddr]);
}

/// An attempt of a request for a range of an object.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ObjectRequest<'a> {
    /// The address of the object on its server, without credentials.
    pub url: &'a str,
    /// The first byte of the range.
    pub offset: u64,
    /// The length of the range in bytes.
    pub length: u64,
    /// The number of bytes of the object that the server has sent.
    pub received: u64,
    /// The time from the start of the attempt to its end.
    pub elapsed: Duration,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The HTTP status of the response; `None` if there was no response.
    pub status: Option<u16>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ObjectOptions {
    /// Returns the default options: a cache of 64 MiB, 5 attempts of each request, 30 seconds for
    /// each step of a request, and the variables of the process.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            cache_bytes: DEFAULT_CACHE_BYTES,
            timeout: DEFAULT_TIMEOUT,
            attempts: DEFAULT_ATTEMPTS,
            observer: None,
            environment: Environment::Process,
        }
    }

    /// Sets the size of the cache of each object, in bytes. The cache has at least 1 MiB.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes.max(MIN_CACHE_BYTES);
        self
    }

    /// Sets the time that a server has for one step of a request.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often a request is sent before its failure is reported. One attempt is made in any
    /// case.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the observer of requests.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn ObjectObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Reads credentials and settings from these variables, and not from those of the process. The
    /// variables of the process that name a proxy are then not used either.
    #[must_use]
    pub fn environment<K, V>(mut self, variables: impl IntoIterator<Item = (K, V)>) -> Self
    where
        K: Into<String>,
        V: Into<String>,
    {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        self.environment = Environment::Given(Arc::new(variables.collect()));
        self
    }

    pub(super) const fn cache_size(&self) -> u64 {
        self.cache_bytes
    }

    pub(super) const fn step_timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) const fn max_attempts(&self) -> u32 {
        self.attempts
    }

    pub(super) fn observed_by(&self) -> Option<&Arc<dyn ObjectObserver>> {
        self.observer.as_ref()
    }

    /// Returns the value of a variable; `None` if the variable is not set or empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let value = match &self.environment {
            Environment::Process => std::env::var(name).ok(),
            Environment::Given(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    pub(super) const fn uses_process_environment(&self) -> bool {
        matches!(self.environment, Environment::Process)
    }
}

/// Formats the value without the contents of variables, because these can be keys.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Process => "Process",
            Self::Given(_) => "Given",
        })
    }
}
