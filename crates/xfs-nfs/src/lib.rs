//! Serves a volume through NFS version 3, for machines that mount it without FUSE.
//!
//! Owns: the protocols NFS, MOUNT and RPC over TCP, and the users of calls. Does **not** own:
//! permissions, which the library checks for the user of each call; file locks, for which clients
//! use another protocol (the mount option `nolock` keeps locks on the client).
//!
//! ```text
//!   connection ──> record ──> call ──> program MOUNT or NFS ──> ferroxfs
//!   (one thread)   (framing)  (user)   (arguments, results)
//! ```
//!
//! RFC 5531 describes RPC, RFC 4506 the encoding (XDR), RFC 1813 NFS version 3 and MOUNT version 3.
//! Both programs answer on one port, and there is no port mapper: the client names the port.
//!
//! # Invariants
//!
//! - **I1** The memory for a call is bounded by `record::MOST_BYTES`, whatever lengths it claims.
//! - **I2** The reply to a change is sent when the change is durable, unless the options say that
//!   changes may wait ([`NfsOptions::waits`]).
//! - **I3** A file handle names one file of one volume for ever. A handle of a removed file is
//!   refused as stale, also after its inode number is used again.

mod attributes;
mod call;
mod handle;
mod mount_program;
mod nfs_program;
mod owner;
mod record;
mod server;
mod status;
mod users;
mod xdr;

pub use server::{NfsOptions, NfsServer, Stopper};
pub use users::ActAs;
