//! The C library `libferroxfs`: open a volume, read everything in it and change it, from C.
//!
//! [`include/ferroxfs.h`](../include/ferroxfs.h) is the documentation for users: cbindgen makes it
//! from the comments of this crate. `docs/guide/embed-from-c.md` has programs to copy, and
//! `docs/adr/0015-the-c-library.md` the reasons for the choices.
//!
//! Owns: handles, errors of calls, devices of the caller by callbacks, the header. Does **not**
//! own: any operation (`ferroxfs`), options and defaults of new volumes (`xfs-mkfs`).
//!
//! # Invariants
//!
//! - **F1** No panic crosses the boundary. Every function runs its work in
//!   `boundary`, which turns a panic into the error `FERROXFS_KIND_INTERNAL`.
//! - **F2** After a panic in an operation of a volume, the volume's memory may be inconsistent.
//!   Every later call for this volume fails, and closing it writes nothing.
//! - **F3** A handle that came from a volume keeps the volume open. Closing the volume fails with
//!   EBUSY while such a handle exists, and changes nothing.
//!
//! There is no state of the process: no `errno`, no list of handles, no signal handlers.

#![allow(clippy::too_many_arguments, reason = "C has no slices: a name takes two parameters")]

mod attributes;
mod boundary;
mod device;
mod directory;
mod error;
mod file;
mod handle;
mod mkfs;
mod names;
mod node;
mod options;
mod volume;

pub use attributes::{
    FERROXFS_XATTR_CREATE, FERROXFS_XATTR_REPLACE, FerroxfsXattr, FerroxfsXattrs,
    ferroxfs_xattr_get, ferroxfs_xattr_remove, ferroxfs_xattr_set, ferroxfs_xattrs_free,
    ferroxfs_xattrs_next, ferroxfs_xattrs_open,
};
pub use device::FerroxfsDevice;
pub use directory::{
    FerroxfsDir, FerroxfsDirent, ferroxfs_dir_free, ferroxfs_dir_next, ferroxfs_dir_open,
};
pub use error::{
    FerroxfsError, FerroxfsErrorKind, ferroxfs_error_address, ferroxfs_error_check,
    ferroxfs_error_errno, ferroxfs_error_free, ferroxfs_error_kind, ferroxfs_error_message,
    ferroxfs_error_structure,
};
pub use file::{
    FERROXFS_READ, FERROXFS_WRITE, FerroxfsFile, ferroxfs_file_close, ferroxfs_file_open,
    ferroxfs_file_read, ferroxfs_file_sync, ferroxfs_file_truncate, ferroxfs_file_write,
};
pub use mkfs::{
    FerroxfsMkfsOptions, ferroxfs_mkfs, ferroxfs_mkfs_device, ferroxfs_mkfs_options_free,
    ferroxfs_mkfs_options_new, ferroxfs_mkfs_set, ferroxfs_mkfs_set_force, ferroxfs_mkfs_set_label,
    ferroxfs_mkfs_set_length, ferroxfs_mkfs_set_uuid,
};
pub use names::{
    FERROXFS_RENAME_EXCHANGE, FERROXFS_RENAME_NOREPLACE, ferroxfs_create, ferroxfs_link,
    ferroxfs_mkdir, ferroxfs_rename, ferroxfs_rmdir, ferroxfs_symlink, ferroxfs_unlink,
};
pub use node::{
    FERROXFS_SET_ATIME, FERROXFS_SET_GID, FERROXFS_SET_MODE, FERROXFS_SET_MTIME, FERROXFS_SET_UID,
    FerroxfsAttributes, FerroxfsNode, FerroxfsStat, FerroxfsTime, ferroxfs_node_free,
    ferroxfs_readlink, ferroxfs_setattr, ferroxfs_stat_node,
};
pub use options::{
    FerroxfsOptions, ferroxfs_options_free, ferroxfs_options_new, ferroxfs_options_set_cache_bytes,
    ferroxfs_options_set_live, ferroxfs_options_set_log_device, ferroxfs_options_set_no_recovery,
    ferroxfs_options_set_offset, ferroxfs_options_set_partition,
    ferroxfs_options_set_realtime_device, ferroxfs_options_set_write,
};
pub use volume::{
    FERROXFS_NOFOLLOW, FerroxfsSpace, FerroxfsVolume, ferroxfs_as_user, ferroxfs_close,
    ferroxfs_label, ferroxfs_lookup, ferroxfs_lookup_child, ferroxfs_node_by_number, ferroxfs_open,
    ferroxfs_open_device, ferroxfs_open_fd, ferroxfs_root, ferroxfs_space_of, ferroxfs_sync,
    ferroxfs_uuid, ferroxfs_version,
};
