//! The reasons why an export is not opened.

use std::io;

use xfs_device::{DeviceFailure, SourceError, SourceErrorKind};

/// The reason why an export of an NBD server is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The address is not the address of an export.
    #[error("is not the address of an NBD export: {0}")]
    Address(&'static str),
    /// The address or the server asks for TLS.
    #[error("needs TLS, which the NBD client of ferroxfs does not have")]
    Tls,
    /// The server cannot be reached.
    #[error("the NBD server cannot be reached: {0}")]
    Connect(io::Error),
    /// The connection failed during the handshake.
    #[error("the connection to the NBD server failed: {0}")]
    Io(#[from] io::Error),
    /// The server does not follow the protocol.
    #[error("the server does not speak the NBD protocol: {0}")]
    Protocol(&'static str),
    /// The server has no such export.
    #[error("the NBD server has no export {0:?}")]
    UnknownExport(String),
    /// The server refuses the export, with this error code and text.
    #[error("the NBD server refuses the export (error {code}): {text}")]
    Refused {
        /// The error code of the NBD protocol that the server sent.
        code: u32,
        /// The error text that the server sent.
        text: String,
    },
    /// The export is read-only.
    #[error("the NBD export is read-only")]
    ReadOnly,
    /// The server does not offer to flush its caches.
    #[error("the NBD server does not offer FLUSH, without which no write is durable")]
    NoFlush,
}

impl SourceError for NbdError {
    fn kind(&self) -> SourceErrorKind {
        match self {
            Self::Tls | Self::ReadOnly | Self::NoFlush | Self::Address(_) => {
                SourceErrorKind::Refused
            }
            _ => SourceErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Address(_) => "write nbd://HOST:PORT/EXPORT or nbd+unix:///EXPORT?socket=PATH",
            Self::Tls => "reach the server through a tunnel (ssh -L, stunnel)",
            Self::Connect(_) => "check that the server runs and that the address is right",
            Self::UnknownExport(_) => {
                "list the exports of the server (nbdinfo --list, qemu-nbd -L)"
            }
            Self::ReadOnly => "only reading is possible; mount it with -o ro",
            Self::NoFlush => {
                "start the server with a cache mode that flushes, or open it read-only"
            }
            Self::Io(_) | Self::Protocol(_) | Self::Refused { .. } => return None,
        })
    }
}

impl From<NbdError> for DeviceFailure {
    fn from(error: NbdError) -> Self {
        Self::Source(Box::new(error))
    }
}
