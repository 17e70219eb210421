//! XFS in user space: open a volume, read everything in it and change it.
//!
//! The API follows `std::fs`: [`Volume::open`] gives a volume, [`Volume::metadata`],
//! [`Volume::read_dir`], [`Volume::open_file`] take paths inside it. A [`Node`] is a handle on one
//! inode, for those who walk by inode instead of by path.
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
//! Owns: opening, path resolution, walking, the one table from errors to errno. Does **not** own:
//! how anything lies on disk, terminals, exit codes.
//!
//! # Changes
//!
//! A volume that was [opened for writing](Volume::open_writable) is changed inode by inode through [`Node`], by path
//! through [`Volume`], and in the contents of a [`File`]. Unless an operation says otherwise:
//!
//! - **It is atomic.** Nobody sees a part of it, and after a crash it has happened whole or not at all. When it fails
//!   nothing has changed, or the volume is shut down.
//! - **It is durable** once [`Volume::sync`], [`Volume::close`], or [`Node::sync`] or [`File::sync_all`] of what it
//!   changed, has returned, and within five seconds where nobody asks ([`OpenOptions::upkeep`]). Of [`File::sync_data`]
//!   contents and size are. The flag `SYNC` of an inode is kept, and makes nothing durable by itself.
//! - **Order is kept.** Changes become durable in the order in which they were made: a crash leaves all of them up to
//!   some point, and nothing of those behind it. Contents are apart from that: see [`File`].
//! - **It waits** while the volume is [frozen](Volume::freeze), and for [leases](File::set_lease) that it breaks.
//!
//! # Errors
//!
//! ENOENT and its like stand here for the [`PosixError`] to which [`errno()`] gives that number. Each operation names
//! its own. Everything that reads can also meet the device's error ([`Error::Io`]) and damage ([`Error::Corrupt`],
//! EUCLEAN), and every change besides:
//!
//! - EROFS on a volume that is open for reading.
//! - [`Error::Shutdown`] (EIO) on one that was shut down: by [`Volume::shut_down`], because log or metadata could not
//!   be written, or because a change failed half way. From then on every change, sync and close fails, and reading
//!   goes on with what memory and the device have. Whether the change that met it is durable is not known; who opens
//!   the volume next recovers what is.
//! - ENOSPC, for what removes something only once the blocks that are kept back for it are used up too.
//! - [`Error::Unsupported`] (EOPNOTSUPP) where the log is smaller than any that mkfs.xfs makes.
//!
//! # Promises
//!
//! - **I1** A volume opened for reading never writes a byte, also where its log is dirty: that is
//!   replayed in memory.
//! - **I2** There is no state of the process: no signals, no environment. A volume that is open for reading has no
//!   threads; one that is open for writing has those of its log and of its background work, until it is closed.
//! - **I3** Whatever the image holds, a call returns an error that says what is wrong and where.
//!   Iterators go on after an error with what can still be read.

/// Has the compiler check the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod acl;
mod attributes;
mod change;
mod credentials;
mod directory;
mod errno;
mod extents;
mod file;
mod kind;
mod metadata;
mod node;
mod open;
mod permission;
mod resolve;
mod scratch;
mod share;
mod space;
mod statistics;
mod volume;
mod walk;
mod watch;
mod whereabouts;
mod writing;

pub use acl::{Acl, AclKind};
pub use attributes::Attribute;
pub use credentials::{Capabilities, Credentials};
pub use directory::{DirEntry, ListingProgress, ReadDir, ReadDirPlus};
pub use errno::errno;
pub use extents::{FileExtent, FileExtents};
pub use file::{AllocateMode, DirectAlignment, File, LateTimes, LockOwner, Place, RangeMode};
pub use metadata::Metadata;
pub use node::{InodeView, Node};
pub use open::{Description, Devices, OpenError, OpenOptions, UuidChange};
pub use permission::Access;
pub use scratch::{ScratchEntry, ScratchNode, ScratchVolume};
pub use space::Space;
pub use statistics::{
    AttributeOperations, Buffers, Checkpoints, DirectoryOperations, ExtentMaps, FileLocks,
    InodeLookups, InodesInMemory, LogSpace, LogUse, RememberedNames, Statistics, Transactions,
    WriteBack,
};
pub use volume::{BulkPath, GrowError, InodeChunkUse, Staleness, Volume};
pub use walk::{Walk, WalkEntry, WalkError};
pub use watch::{Scope, Watch, WatchEvent, WatchEvents};
pub use whereabouts::{Parent, Whereabouts};
pub use writing::{Changes, Creation, LockCheck, NewKind, RenameMode};
pub use xfs_buffer::{BufferCache, Error, IoError, PosixError, Result};
pub use xfs_device::{BlockDevice, DeviceError, Durability, FindError, SharedDevice};
pub use xfs_dir::{Cookie, ParentPath, SetMode};
pub use xfs_format as format;
pub use xfs_format::inode::FileType;
pub use xfs_format::superblock::Label;
pub use xfs_format::timestamp::Timestamp;
pub use xfs_format::{Corruption, Geometry, InodeNumber, Superblock, Uuid};
pub use xfs_icache::{CacheCounts, InodeIndex, WalkFilter};
pub use xfs_locks::{
    HeldLock, LeaseKind, LeaseMode, LockMode, LockRange, Notify, OpenMode, Opens, Owner, Wait,
    Waiter,
};
pub use xfs_log as log;
pub use xfs_trans::Upkeep;
