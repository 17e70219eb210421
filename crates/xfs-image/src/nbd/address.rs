//! Addresses of exports: `nbd://HOST:PORT/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::NbdError;
use crate::remote::{NOT_ESCAPED, percent_decoded};

/// The port of a server whose address names none.
const DEFAULT_PORT: u16 = 10809;
/// The longest name of an export in bytes, as in the protocol.
const MAX_NAME_BYTES: usize = 4096;
const SCHEMES: [&str; 4] = ["nbd://", "nbd+unix://", "nbds://", "nbds+unix://"];

/// The place where an NBD server listens: a TCP port or a Unix socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The address of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) server: Server,
    pub(crate) export: Vec<u8>,
}

/// Returns whether the path is written as the address of an NBD export.
pub(crate) fn is_address(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    SCHEMES.iter().any(|scheme| bytes.starts_with(scheme.as_bytes()))
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    ///
    /// [`NbdError::Tls`] for the schemes with TLS, and [`NbdError::Address`].
    pub(crate) fn parse(path: &Path) -> Result<Self, NbdError> {
        let text = path.to_str().ok_or(NbdError::Address("it is not UTF-8"))?;
        let (scheme, rest) = text.split_once("://").ok_or(NbdError::Address("it has no scheme"))?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let export = percent_decoded(export).ok_or(NbdError::Address(NOT_ESCAPED))?;
        if export.len() > MAX_NAME_BYTES {
            return Err(NbdError::Address("the name of the export is too long"));
        }
        let server = match scheme {
            "nbds" | "nbds+unix" => return Err(NbdError::Tls),
            "nbd+unix" if host.is_empty() => {
                let path = query.and_then(|query| query.strip_prefix("socket="));
                let path = path.ok_or(NbdError::Address("?socket=PATH is missing"))?;
                Server::Unix(
                    OsString::from_vec(
                        percent_decoded(path).ok_or(NbdError::Address(NOT_ESCAPED))?,
                    )
                    .into(),
                )
            }
            "nbd+unix" => return Err(NbdError::Address("a socket has no host")),
            _ if query.is_some() => return Err(NbdError::Address("it has an unknown option")),
            _ => tcp(host)?,
        };
        Ok(Self { server, export })
    }
}

fn tcp(host: &str) -> Result<Server, NbdError> {
    let bad = |reason| move || NbdError::Address(reason);
    // The address of IPv6 is in brackets, because it has colons.
    let (host, port) = match host.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(bad("a bracket is missing"))?;
            (host, port.strip_prefix(':'))
        }
        None => match host.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host, None),
        },
    };
    if host.is_empty() {
        return Err(NbdError::Address("the host is missing"));
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| NbdError::Address("the port is not a number"))?,
        None => DEFAULT_PORT,
    };
    Ok(Server::Tcp { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Address, Server, is_address};
    use crate::nbd::NbdError;

    #[test]
    fn addresses_are_parsed() {
        let tcp = |host: &str, port| Server::Tcp { host: host.to_owned(), port };
        for (text, server, export) in [
            ("nbd://localhost", tcp("localhost", 10809), ""),
            ("nbd://h:1/a%20b", tcp("h", 1), "a b"),
            ("nbd://[::1]:2/x/y", tcp("::1", 2), "x/y"),
            ("nbd://[::1]", tcp("::1", 10809), ""),
            ("nbd+unix:///e?socket=/run/s%2Cock", Server::Unix("/run/s,ock".into()), "e"),
        ] {
            let export = export.as_bytes().to_vec();
            assert_eq!(Address::parse(Path::new(text)).unwrap(), Address { server, export });
            assert!(is_address(Path::new(text)));
        }
    }

    #[test]
    fn other_addresses_are_refused_with_the_reason() {
        for (text, reason) in [
            ("nbd:///e", "host is missing"),
            ("nbd://h:x/e", "not a number"),
            ("nbd://[::1/e", "bracket"),
            ("nbd://h/%4", "two digits"),
            ("nbd://h/e?tls=on", "unknown option"),
            ("nbd+unix:///e", "socket=PATH"),
            ("nbd+unix://h/e?socket=/s", "no host"),
        ] {
            let error = Address::parse(Path::new(text)).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
        for text in ["nbds://h/e", "nbds+unix:///e?socket=/s"] {
            assert!(matches!(Address::parse(Path::new(text)), Err(NbdError::Tls)), "{text}");
        }
        assert!(!is_address(Path::new("/nbd://x")));
    }
}
