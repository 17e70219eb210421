//! The byte stream between the kernel and a server, and its setup.
//!
//! Owns: the form of requests and answers, the descriptors, the threads that serve them, mounting.
//! Does **not** own: the meaning of a request. The transport knows nothing of XFS.
//! docs/adr/0004-fuse-transport.md explains why ferroxfs has its own transport and how a crate
//! could replace it: the server sees only [`Request`], [`Reply`], [`Handler`] and the structures of
//! [`wire`].

mod channel;
mod device;
mod handshake;
mod mounting;
mod mounts;
mod pages;
mod pipe;
mod reply;
mod request;
mod ring;
mod session;
pub(crate) mod wire;
mod worker_gate;

pub(crate) use channel::rings;
pub(crate) use mounting::MountPoint;
pub use mounting::{MountFacts, Unmount, is_mount_point, remount, unmount};
pub(crate) use mounts::ReadOnlyProbe;
pub use mounts::{MountEntry, mounts, source_of, sources};
pub(crate) use pipe::PipeLease;
pub use reply::Reply;
pub use request::Request;
pub(crate) use request::{split_argument, split_name};
pub use session::{Halter, Handler, Invalidator, MAX_WRITE_BYTES, Session, WaitOutcome};
