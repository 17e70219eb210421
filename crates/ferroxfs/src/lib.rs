//! XFS in user space: open a volume, read everything in it and change it.
//!
//! The API follows `std::fs`. [`Volume::open`] opens a volume. [`Volume::metadata`],
//! [`Volume::read_dir`] and [`Volume::open_file`] take paths inside it. A [`Node`] is a handle on
//! one inode, for programs that work with inodes instead of paths.
//!
//! ```no_run
//! use std::io::Read;
//!
//! let volume = ferroxfs::Volume::open("disk.img")?;
//! for entry in volume.read_dir("/")? {
//!     println!("{}", entry?.name().display());
//! }
//! let mut text = String::new();
//! volume.open_file("/etc/hostname")?.read_to_string(&mut text)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Owns: opening, path resolution, handles and tree walks.
//! Does **not** own: operations (`xfs-vfs`), the on-disk form of anything, terminals, exit codes.
//!
//! # Changes
//!
//! A volume that was [opened for writing](OpenOptions::write) is changed inode by inode through
//! [`Node`], by path through [`Volume`], and in the contents of a [`File`]. Unless an operation
//! says otherwise:
//!
//! - **It is atomic.** No reader sees a part of it, and after a crash it has happened whole or not
//!   at all. When it fails nothing has changed, or the volume is shut down.
//! - **It is durable** once [`Volume::sync`], [`Volume::close`], or [`Node::sync`] or
//!   [`File::sync_all`] of the changed inode has returned, and within five seconds without any of
//!   them ([`OpenOptions::upkeep`]). After [`File::sync_data`] contents and size are durable. The
//!   flag `SYNC` of an inode is stored, and makes nothing durable by itself.
//! - **Order is kept.** Changes become durable in the order in which they were made: a crash leaves
//!   all changes up to some point, and none after it. Contents are independent of that: see
//!   [`File`].
//! - **It waits** while the volume is [frozen](Volume::freeze), and for [leases](File::set_lease)
//!   that it breaks.
//!
//! # Errors
//!
//! ENOENT and other errno names stand for the [`PosixError`] whose
//! [`errno`](PosixError::errno) is that number. Each operation lists its own. Every operation that reads can also return the device's
//! error ([`Error::Io`]) and damage ([`Error::Corrupt`], EUCLEAN). Every change can also return:
//!
//! - EROFS on a volume that is open for reading.
//! - [`Error::Shutdown`] (EIO) on a volume that was shut down: by [`Volume::shut_down`], because
//!   log or metadata could not be written, or because a change failed half way. From then on every
//!   change, sync and close fails, and reading continues with cached and on-disk state. Whether the
//!   change that met it is durable is unknown; the next open recovers what is.
//! - ENOSPC; a removal returns it only once the reserved blocks are used up too.
//! - [`Error::Unsupported`] (EOPNOTSUPP) if the log is smaller than any that mkfs.xfs makes.
//!
//! # Promises
//!
//! - **I1** A volume opened for reading never writes a byte, even if its log is dirty: the log is
//!   replayed in memory.
//! - **I2** There is no process-wide state: no signals, no environment. A volume that is open for
//!   reading has no threads. One that is open for writing has threads for its log and its
//!   background work, until it is closed.
//! - **I3** Whatever the image holds, a call returns an error that says what is wrong and where.
//!   Iterators continue after an error with everything that can still be read.

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod api;
mod attributes;
mod change;
mod directory;
mod extents;
mod file;
mod inode_paths;
mod node;
mod open;
mod resolve;
pub mod scratch;
mod space;
pub mod stats;
mod volume;
mod volume_ref;
mod walk;
pub mod watch;

#[cfg(feature = "bench")]
pub use api::bench;
#[cfg(feature = "raw")]
pub use api::raw;
pub use api::{admin, attr, contents, device, dir, error, lock};

pub use directory::{DirEntry, ReadDir};
pub use file::File;
pub use node::Node;
pub use open::{OpenError, OpenOptions};
pub use space::Space;
pub use volume::Volume;
pub use walk::{Walk, WalkEntry, WalkError};
pub use xfs_buffer::{Error, IoError, PosixError, Result};
pub use xfs_format::inode::{DeviceNumber, FileType};
pub use xfs_format::timestamp::Timestamp;
pub use xfs_format::{Corruption, Geometry, InodeNumber};
pub use xfs_vfs::{
    Access, Capabilities, CreateOptions, Credentials, Metadata, NewKind, RenameMode, SetAttributes,
};
