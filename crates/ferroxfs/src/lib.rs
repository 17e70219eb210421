//! XFS in user space: open a volume, read everything in it and change it.
//!
//! The API follows [`std::fs`]. This page teaches it in five minutes.
//!
//! | type | stands for | made by |
//! |---|---|---|
//! | [`Volume`] | an open volume, which takes paths | [`Volume::open`], [`OpenOptions`] |
//! | [`Node`] | one inode, as a descriptor of `O_PATH` | [`Volume::lookup`], [`Node::create`] |
//! | [`File`] | an open file: `Read`, `Write`, `Seek` | [`Volume::open_file`], [`Node::open`] |
//! | [`Metadata`] | size, mode, owner, times | [`Volume::metadata`], [`Node::metadata`] |
//!
//! # Open and read
//!
//! [`Volume::open`] opens an image file, a block device or a partition for reading.
//!
//! ```
//! # let (_folder, image) = xfs_trans::testing::make_file();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open(&image)?;
//! # volume.create_dir("/etc")?;
//! # volume.write("/etc/hostname", b"box")?;
//! # volume.close()?;
//! use ferroxfs::Volume;
//!
//! let volume = Volume::open(&image)?;
//! for entry in volume.read_dir("/etc")? {
//!     let entry = entry?;
//!     println!("{} {}", entry.node()?.metadata().size, entry.name().display());
//! }
//! assert_eq!(volume.read("/etc/hostname")?, b"box");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Volume::walk`] visits a whole tree. An error is an item like any other: the walk continues
//! with everything that can still be read.
//!
//! # Write
//!
//! There is one way to open for more than reading, [`OpenOptions`].
//!
//! ```
//! # let (_folder, image) = xfs_trans::testing::make_file();
//! use ferroxfs::OpenOptions;
//!
//! let volume = OpenOptions::new().write(true).open(&image)?;
//! volume.create_dir_all("/srv/www")?;
//! volume.write("/srv/www/index.html", b"<h1>It works</h1>")?;
//!
//! let file = volume.create_file("/srv/log")?;
//! file.write_at(b"second", 6)?;
//! file.write_at(b"first ", 0)?;
//! file.sync_all()?;
//! drop(file);
//! volume.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Volume::close`] marks the log clean, and returns errors that dropping the volume cannot
//! return. A volume that is dropped without a close is left as after a crash, and loses nothing
//! that was durable.
//!
//! Files that are made by path belong to root and have usual modes. [`Node::create`] lets the
//! caller choose:
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::{CreateOptions, NewKind, SetAttributes};
//!
//! let private = CreateOptions::new(0o700).uid(1000).gid(1000);
//! let home = volume.root()?.create("home", &NewKind::Directory, &private)?;
//! home.set_attributes(&SetAttributes::new().mode(0o750))?;
//! assert_eq!(volume.metadata("/home")?.mode & 0o777, 0o750);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Durability
//!
//! | call | makes durable |
//! |---|---|
//! | [`File::sync_data`] | contents and size of one file |
//! | [`File::sync_all`], [`Node::sync`] | everything about one inode, and the names made before |
//! | [`Volume::sync`] | everything |
//! | [`Volume::close`] | everything, in place and with a clean log |
//! | none | everything within five seconds ([`OpenOptions::upkeep`]) |
//!
//! # Users
//!
//! The caller is root. [`Volume::as_user`] gives the same volume on behalf of a user, whose
//! operations are allowed or refused as on Linux.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::{Credentials, PosixError};
//!
//! let user = volume.as_user(Credentials::new(1000, 1000));
//! let refused = user.create_dir("/not-mine").unwrap_err();
//! assert_eq!(refused.errno(), PosixError::AccessDenied.errno());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Errors in short
//!
//! An [`Error`] has variants to match on and an [`errno`](Error::errno), and `?` turns it into a
//! [`std::io::Error`]. The variants are an error of the device, damage, a kind of volume that is
//! refused, a POSIX case, and the shutdown of the volume. Nothing in an image is trusted: damage
//! names the structure, the address, the check and the values.
//!
//! ```
//! # let volume = ferroxfs::OpenOptions::new().open_device(xfs_trans::testing::make())?;
//! use ferroxfs::{Error, PosixError};
//!
//! match volume.lookup("/etc/fstab") {
//!     Ok(node) => println!("inode {}", node.number()),
//!     Err(Error::Posix(PosixError::NotFound)) => println!("no table"),
//!     Err(Error::Corrupt(damage)) => eprintln!("{damage}"),
//!     Err(error) => return Err(std::io::Error::from(error).into()),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Modules and features
//!
//! The root has what most programs need. The names of one task are in a module.
//!
//! | module | contents |
//! |---|---|
//! | [`attr`] | extended attributes, access control lists, flags |
//! | [`dir`] | listings in parts, and the way from an inode to its names |
//! | [`contents`] | ranges, extents, holes, direct access |
//! | [`lock`] | locks and leases |
//! | [`watch`] | events of inodes and trees |
//! | [`admin`] | label, UUID, growing, freezing, inventories |
//! | [`layout`] | addresses, features and sizes |
//! | [`check`] | checking a volume for consistency: reports and findings |
//! | [`quota`] | usage and limits of users, groups and projects |
//! | [`stats`] | counters |
//! | [`device`] | devices, and the trait for your own |
//! | [`error`] | damage and refusals in detail |
//! | [`scratch`] | a small tree in memory that is no XFS |
//!
//! | feature | adds | stability |
//! |---|---|---|
//! | `disk-images` | opening qcow2, VMDK, VHDX and VDI images, and NBD exports | as the rest |
//! | `object_store` | opening images on web and S3 servers (`https://`, `s3://`) | as the rest |
//! | `raw` | the module `raw`: on-disk format, log, buffers, inodes | none is promised |
//! | `bench` | the module `bench`: switches of benchmarks | none is promised |
//! | `count` | counters of shared writes, for measurements | none is promised |
//!
//! The folder `examples` of this crate has programs to copy: `read`, `write`, `make`, `extract`,
//! `scan`, `user`, `watch` and `device`.
//!
//! This crate owns opening, path resolution, handles and tree walks. It does **not** own operations
//! (`xfs-vfs`), the on-disk form of anything, terminals, or exit codes.
//!
//! # Changes
//!
//! A volume that was [opened for writing](OpenOptions::write) is changed inode by inode through
//! [`Node`], by path through [`Volume`], and in the contents of a [`File`]. Unless an operation
//! says otherwise:
//!
//! - **It is atomic.** No reader sees a part of the change, and after a crash it has happened whole
//!   or not at all. If a change fails, either nothing has changed, or the volume is shut down.
//! - **It is durable** once [`Volume::sync`], [`Volume::close`], or [`Node::sync`] or
//!   [`File::sync_all`] of the changed inode has returned, and after at most five seconds without
//!   any of these calls ([`OpenOptions::upkeep`]). After [`File::sync_data`] contents and size are
//!   durable. The flag `SYNC` of an inode is stored, and makes nothing durable by itself.
//! - **Order is kept.** Changes become durable in the order in which they were made: a crash leaves
//!   all changes up to some point, and none after it. Contents are independent of that: see
//!   [`File`].
//! - **It waits** while the volume is [frozen](Volume::freeze), and until the
//!   [leases](File::set_lease) that it breaks have ended.
//!
//! # Errors
//!
//! ENOENT and other errno names stand for the [`PosixError`] whose [`errno`](PosixError::errno) is
//! that number. Each operation lists its own. Every operation that reads can also return the
//! device's error ([`Error::Io`]) and damage ([`Error::Corrupt`], EUCLEAN). Every change can also
//! return:
//!
//! - EROFS on a volume that is open for reading.
//! - [`Error::Shutdown`] (EIO) on a volume that was shut down: by [`Volume::shut_down`], because
//!   log or metadata could not be written, or because a change failed half way. From then on every
//!   change, sync and close fails, and reading continues with cached and on-disk state. It is
//!   unknown whether the change that got this error is durable. The next open recovers all durable
//!   changes.
//! - ENOSPC; a removal returns it only once the reserved blocks are used up too.
//! - [`Error::Unsupported`] (EOPNOTSUPP) if the log is smaller than any that mkfs.xfs makes.
//!
//! # Promises
//!
//! - **I1** A volume opened for reading never writes a byte, even if its log is dirty: the log is
//!   replayed in memory.
//! - There is no process-wide state: no signals, no environment. A volume that is open for
//!   reading has no threads. One that is open for writing has threads for its log and its
//!   background work, until it is closed.
//! - **I3** Whatever the image holds, a call returns an error that says what is wrong and where.
//!   Iterators continue after an error with everything that can still be read.

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embed-the-library.md")]
struct Guide;

mod api;
mod attributes;
mod change;
pub mod check;
mod directory;
mod extents;
mod file;
mod inode_paths;
mod node;
mod open;
pub mod quota;
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
pub use api::{admin, attr, contents, device, dir, error, layout, lock};

pub use directory::{DirEntry, ReadDir};
pub use file::File;
pub use node::Node;
pub use open::{OpenError, OpenOptions};
pub use space::{RealtimeBlocks, Space};
pub use volume::Volume;
pub use walk::{Walk, WalkEntry, WalkError};
pub use xfs_buffer::{Error, IoError, PosixError, Result};
pub use xfs_format::inode::{DeviceNumber, FileType};
pub use xfs_format::timestamp::Timestamp;
pub use xfs_format::{Corruption, Geometry, InodeNumber};
pub use xfs_vfs::{
    Access, Capabilities, CreateOptions, Credentials, Metadata, NewKind, RenameMode, SetAttributes,
};
