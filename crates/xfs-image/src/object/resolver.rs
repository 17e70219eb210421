//! Looks up the name of each server once, before the first connection to the server (I4).

use std::collections::HashMap;
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;
use xfs_sync::{Mutex, Volume};

use super::options::ObjectObserver;

/// The most addresses of a server that are tried.
const MAX_ADDRESSES: usize = 16;

/// A resolver that keeps the addresses of every server, so that a later connection to the server
/// needs no look-up. It resolves names in the calling thread, because Linux lets only a process
/// with one thread enter a new user namespace.
pub(super) struct KeepingResolver {
    known: Mutex<HashMap<String, Vec<SocketAddr>>, Volume>,
    observer: Option<Arc<dyn ObjectObserver>>,
}

impl KeepingResolver {
    pub(super) fn new(observer: Option<Arc<dyn ObjectObserver>>) -> Self {
        Self { known: Mutex::new(HashMap::new()), observer }
    }

    fn addresses(&self, server: &str) -> Result<Vec<SocketAddr>, ureq::Error> {
        if let Some(addresses) = self.known.lock().get(server) {
            return Ok(addresses.clone());
        }
        let found = server.to_socket_addrs()?;
        let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
        if let Some(observer) = &self.observer {
            observer.resolved(&addresses);
        }
        self.known.lock().insert(server.to_owned(), addresses.clone());
        Ok(addresses)
    }
}

impl Resolver for KeepingResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let unknown = || ureq::Error::HostNotFound;
        let scheme = uri.scheme().ok_or_else(unknown)?;
        let authority = uri.authority().ok_or_else(unknown)?;
        let server = DefaultResolver::host_and_port(scheme, authority).ok_or_else(unknown)?;
        let mut resolved = self.empty();
        for address in self.addresses(&server)? {
            resolved.push(address);
        }
        if resolved.is_empty() { Err(unknown()) } else { Ok(resolved) }
    }
}

impl fmt::Debug for KeepingResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeepingResolver").finish_non_exhaustive()
    }
}
