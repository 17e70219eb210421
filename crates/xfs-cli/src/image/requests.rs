//! Requests to web and S3 servers, as the options of the command line ask for.
//!
//! Owns: the options for images on such servers, the log of requests on standard error
//! (`--log-requests`), and the ports that the sandbox must leave open. Does **not** own the
//! requests (`xfs-image`).

#[cfg(feature = "object_store")]
use std::collections::BTreeSet;
#[cfg(feature = "object_store")]
use std::io::{self, Write};
#[cfg(feature = "object_store")]
use std::net::SocketAddr;
use std::sync::Arc;

use ferroxfs::OpenOptions;
#[cfg(feature = "object_store")]
use ferroxfs::device::{ObjectObserver, ObjectOptions, ObjectRequest};
#[cfg(feature = "object_store")]
use xfs_sync::{AtomicU64, Mutex, Ordering, Volume};

use crate::cli::options::GlobalOptions;
use crate::terminal::console::Console;
#[cfg(feature = "object_store")]
use crate::terminal::{names, plural};

/// The log of the requests of one run. Clones share one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(Arc<RequestLog>);

/// The log in a build without the feature `object_store`. Such a build makes no requests.
#[cfg(not(feature = "object_store"))]
#[derive(Debug, Default)]
struct RequestLog;

#[cfg(feature = "object_store")]
#[derive(Default)]
struct RequestLog {
    /// Whether each request is printed.
    is_printed: bool,
    ports: Mutex<BTreeSet<u16>, Volume>,
    count: AtomicU64<Volume>,
    received: AtomicU64<Volume>,
}

#[cfg(not(feature = "object_store"))]
impl Requests {
    pub(crate) fn new(_options: &GlobalOptions) -> Self {
        Self::default()
    }

    pub(crate) fn with(open: OpenOptions, _options: &GlobalOptions) -> OpenOptions {
        open
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        let RequestLog = *self.0;
        Vec::new()
    }

    pub(crate) fn conclude(&self, _console: &mut Console) {}
}

#[cfg(feature = "object_store")]
impl Requests {
    /// Creates an empty log of requests. The options say whether each request is also printed.
    pub(crate) fn new(options: &GlobalOptions) -> Self {
        Self(Arc::new(RequestLog { is_printed: options.log_requests, ..RequestLog::default() }))
    }

    /// Adds the options for images on web and S3 servers to `open`.
    pub(crate) fn with(open: OpenOptions, options: &GlobalOptions) -> OpenOptions {
        let observer = Arc::clone(&options.requests.0);
        open.object_options(
            ObjectOptions::new().cache_bytes(options.object_cache).observer(observer),
        )
    }

    /// Returns the ports of the servers of all objects that have been opened.
    pub(crate) fn ports(&self) -> Vec<u16> {
        self.0.ports.lock().iter().copied().collect()
    }

    /// Prints the number of requests and of the bytes that were received, if the single requests
    /// were printed.
    pub(crate) fn conclude(&self, console: &mut Console) {
        if self.0.is_printed {
            let count = self.0.count.load(Ordering::Relaxed);
            let received = self.0.received.load(Ordering::Relaxed);
            let requests = plural::counted(count, "request");
            console.note(format!("{requests}, {received} bytes received"));
        }
    }
}

#[cfg(feature = "object_store")]
impl ObjectObserver for RequestLog {
    fn request(&self, request: &ObjectRequest<'_>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.received.fetch_add(request.received, Ordering::Relaxed);
        if !self.is_printed {
            return;
        }
        let status = request.status.map_or("no answer".to_owned(), |code| format!("status {code}"));
        let line = format!(
            "ferroxfs: GET {} offset {} length {}: {status}, {} bytes in {:.1} ms",
            request.url,
            request.offset,
            request.length,
            request.received,
            request.elapsed.as_secs_f64() * 1e3,
        );
        // If no program reads standard error, the run continues without its log.
        _ = writeln!(io::stderr(), "{}", names::printable(&line));
    }

    fn resolved(&self, addresses: &[SocketAddr]) {
        self.ports.lock().extend(addresses.iter().map(SocketAddr::port));
    }
}

#[cfg(feature = "object_store")]
impl std::fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestLog").finish_non_exhaustive()
    }
}
