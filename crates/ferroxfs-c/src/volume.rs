//! Opening and closing a volume, and finding nodes in it.
#![allow(unsafe_code, reason = "C calls these functions by name, with strings of its own")]

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::path::PathBuf;

use ferroxfs::{Credentials, InodeNumber, OpenOptions, Volume};

use crate::boundary::{
    Handle, call, call_on, copy_out, count_on, hand_out, host_path, name, numbers, required,
};
use crate::device::{FerroxfsDevice, device_of};
use crate::error::{Failure, FerroxfsError};
use crate::handle::SharedState;
use crate::node::FerroxfsNode;
use crate::options::FerroxfsOptions;

/// A flag of `ferroxfs_lookup`: a symbolic link at the end of the path is not followed.
pub const FERROXFS_NOFOLLOW: u32 = 1;

/// Number of bytes of a UUID.
pub(crate) const UUID_BYTES: usize = 16;

/// An open volume. Any number of threads may use it at the same time.
///
/// The caller owns it, and gives it back with `ferroxfs_close`.
pub struct FerroxfsVolume {
    state: SharedState,
    volume: Volume,
    /// Whether the handle acts for a user. Such a handle does not close the volume.
    acts_for_user: bool,
}

impl Handle for FerroxfsVolume {
    fn state(&self) -> &SharedState {
        &self.state
    }
}

impl FerroxfsVolume {
    fn new(volume: Volume) -> Self {
        Self { state: SharedState::new(), volume, acts_for_user: false }
    }

    fn node(&self, node: ferroxfs::Node) -> FerroxfsNode {
        FerroxfsNode::new(self.state.clone(), node)
    }
}

/// Sizes of a volume.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FerroxfsSpace {
    /// Bytes in a block.
    pub block_size: u64,
    /// Blocks for data and metadata, without the internal log.
    pub total_blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Free blocks that files can use.
    pub available_blocks: u64,
    /// How many inodes the volume can have.
    pub files: u64,
    /// How many more files can be made.
    pub free_files: u64,
    /// Zeros. A later version may use them.
    pub reserved: [u64; 10],
}

/// Returns the version of the library, such as "0.1.0". The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Opens the volume in an image file, on a block device or in a partition.
///
/// `options` may be NULL, for reading. On success `*volume` is a new handle, which the caller gives
/// back with `ferroxfs_close`.
///
/// Errors: EBUSY if another program uses the device; EINVAL if it holds no XFS volume; EUCLEAN if
/// the volume is damaged; EOPNOTSUPP if it has a feature that the library refuses; errors of the
/// host.
///
/// # Safety
///
/// `path` is NULL or ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_open(
    path: *const c_char,
    options: Option<&FerroxfsOptions>,
    volume: Option<&mut MaybeUninit<*mut FerroxfsVolume>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        hand_out(volume, || {
            // SAFETY: A NUL ends the path.
            let path = unsafe { host_path(path) }?;
            Ok(FerroxfsVolume::new(options_or_default(options).open(path)?))
        })
    })
}

/// Opens the volume in the file or on the device that a descriptor of this process refers to.
///
/// The library opens the file again, through /proc/self/fd, so that its locks are its own. The
/// caller keeps the descriptor, and may close it.
///
/// Errors: those of `ferroxfs_open`; ENOENT without /proc; EACCES if this process may not open the
/// file again.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_open_fd(
    fd: i32,
    options: Option<&FerroxfsOptions>,
    volume: Option<&mut MaybeUninit<*mut FerroxfsVolume>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        hand_out(volume, || {
            if fd < 0 {
                return Err(Failure::Argument("the descriptor is negative"));
            }
            let path = PathBuf::from(format!("/proc/self/fd/{fd}"));
            Ok(FerroxfsVolume::new(options_or_default(options).open(path)?))
        })
    })
}

/// Opens the volume on a device of the caller. The superblock is at its first byte.
///
/// The library copies `device`. It calls `destroy` once, also if opening fails. Only an unknown
/// `size_bytes` prevents that.
///
/// Errors: those of `ferroxfs_open`; EINVAL for a device without a needed callback, and for options
/// with an offset or a partition; EUCLEAN for a device without a volume.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_open_device(
    device: Option<&FerroxfsDevice>,
    options: Option<&FerroxfsOptions>,
    volume: Option<&mut MaybeUninit<*mut FerroxfsVolume>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        let device = device_of(device)?;
        if options.is_some_and(FerroxfsOptions::has_start) {
            return Err(Failure::Argument("a device of the caller has no offset or partition"));
        }
        hand_out(volume, || {
            Ok(FerroxfsVolume::new(options_or_default(options).open_device(device)?))
        })
    })
}

fn options_or_default(options: Option<&FerroxfsOptions>) -> OpenOptions {
    options.map_or_else(OpenOptions::new, |options| options.open_options().clone())
}

/// Closes a volume: writes everything in place, and marks the log clean. NULL is allowed.
///
/// With EBUSY the volume stays open, because another handle of it exists: a node, a file, a
/// listing, or a volume that acts for a user. Free that handle and close the volume again. After
/// every other error the handle is gone. The next open recovers everything that was durable.
///
/// No other thread may use the volume during the call.
///
/// Errors: EBUSY; errors of writes that were lost; errors of the log and the device.
///
/// # Safety
///
/// `volume` is NULL, or came from this library and was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_close(
    volume: *mut FerroxfsVolume,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call(error, || {
        // SAFETY: The caller says that the volume is NULL or open.
        let Some(handle) = (unsafe { volume.as_ref() }) else { return Ok(()) };
        if handle.state.is_unusable() {
            // The handle is left in memory (F2 of the crate).
            return Err(Failure::Unusable);
        }
        let others = handle.state.others();
        // F3: A node or file would outlive its volume.
        if others > 0 && !handle.acts_for_user {
            return Err(Failure::Busy(others));
        }
        // SAFETY: The volume came from `Box::into_raw`, and the caller gives it back.
        let handle = unsafe { Box::from_raw(volume) };
        if !handle.acts_for_user {
            handle.volume.close()?;
        }
        Ok(())
    })
}

/// Makes everything durable that was changed.
///
/// Errors: the error of the log or the device; errors of writes that were lost.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_sync(
    volume: Option<&FerroxfsVolume>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(volume, error, |volume| Ok(volume.volume.sync()?))
}

/// Gives the same volume on behalf of a user: every operation through it is allowed or refused as
/// on Linux. New files belong to the user. Without this call, the caller is root.
///
/// `groups` are `group_count` further groups of the user. On success `*user` is a new handle, which
/// the caller gives back with `ferroxfs_close`, before the volume itself.
///
/// # Safety
///
/// `groups` is NULL, or `group_count` numbers can be read from it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_as_user(
    volume: Option<&FerroxfsVolume>,
    uid: u32,
    gid: u32,
    groups: *const u32,
    group_count: usize,
    user: Option<&mut MaybeUninit<*mut FerroxfsVolume>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(volume, error, |volume| {
        hand_out(user, || {
            // SAFETY: As the caller says.
            let groups = unsafe { numbers(groups, group_count) }?;
            let credentials = Credentials::new(uid, gid).groups(groups.iter().copied());
            let acting = volume.volume.as_user(credentials);
            Ok(FerroxfsVolume { state: volume.state.clone(), volume: acting, acts_for_user: true })
        })
    })
}

/// Gives the root directory. On success `*node` is a new handle; free it with `ferroxfs_node_free`.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_root(
    volume: Option<&FerroxfsVolume>,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(volume, error, |volume| hand_out(node, || Ok(volume.node(volume.volume.root()?))))
}

/// Looks up a path of the volume, from its root on. Symbolic links are followed inside the volume,
/// the last one unless `flags` has FERROXFS_NOFOLLOW.
///
/// The path has `path_length` bytes, or ends with a NUL if that is FERROXFS_STRLEN. On success
/// `*node` is a new handle; free it with `ferroxfs_node_free`.
///
/// Errors: ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG, EACCES; EUCLEAN.
///
/// # Safety
///
/// `path` is NULL, or has as many bytes as `path_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_lookup(
    volume: Option<&FerroxfsVolume>,
    path: *const c_char,
    path_length: usize,
    flags: u32,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(volume, error, |volume| {
        hand_out(node, || {
            // SAFETY: As the caller says.
            let path = unsafe { name(path, path_length) }?;
            let found = match flags {
                0 => volume.volume.lookup(path)?,
                FERROXFS_NOFOLLOW => volume.volume.lookup_no_follow(path)?,
                _ => return Err(Failure::Argument("flags are 0 or FERROXFS_NOFOLLOW")),
            };
            Ok(volume.node(found))
        })
    })
}

/// Looks up a name in a directory. Symbolic links are not followed. "." and ".." are names, too.
///
/// On success `*node` is a new handle; free it with `ferroxfs_node_free`.
///
/// Errors: ENOENT, ENOTDIR, EACCES; EUCLEAN.
///
/// # Safety
///
/// `child` is NULL, or has as many bytes as `child_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_lookup_child(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        hand_out(node, || {
            // SAFETY: As the caller says.
            let child = unsafe { name(child, child_length) }?;
            let found = match child.as_encoded_bytes() {
                b".." => directory.node().parent()?,
                _ => directory.node().lookup(child)?,
            };
            Ok(directory.sibling(found))
        })
    })
}

/// Gives the node of an inode number, such as one that `ferroxfs_stat_node` has returned.
///
/// On success `*node` is a new handle; free it with `ferroxfs_node_free`.
///
/// Errors: ESTALE if no file has the number; EUCLEAN.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_node_by_number(
    volume: Option<&FerroxfsVolume>,
    number: u64,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(volume, error, |volume| {
        hand_out(node, || Ok(volume.node(volume.volume.node(InodeNumber(number))?)))
    })
}

/// Gives the sizes of the volume, as statfs(2) does.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_space_of(
    volume: Option<&FerroxfsVolume>,
    space: Option<&mut MaybeUninit<FerroxfsSpace>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    let mut space = space;
    call_on(volume, error, |volume| {
        let place = required(&mut space)?;
        let space = volume.volume.space()?;
        place.write(FerroxfsSpace {
            block_size: u64::from(space.block_size),
            total_blocks: space.total_blocks,
            free_blocks: space.free_blocks,
            available_blocks: space.available_blocks,
            files: space.files,
            free_files: space.free_files(),
            reserved: [0; 10],
        });
        Ok(())
    })
}

/// Copies the label into `buffer`, without a NUL. It has at most 12 bytes.
///
/// Returns its length, or a negative errno. With a `capacity` of 0 only the length is returned.
///
/// Errors: ERANGE if the label is longer than `capacity`.
///
/// # Safety
///
/// `buffer` is NULL, or has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_label(
    volume: Option<&FerroxfsVolume>,
    buffer: *mut u8,
    capacity: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i64 {
    count_on(volume, error, |volume| {
        // SAFETY: As the caller says.
        unsafe { copy_out(volume.volume.label()?.as_bytes(), buffer, capacity) }
    })
}

/// Copies the UUID into `uuid`, which has 16 bytes.
///
/// # Safety
///
/// `uuid` is NULL, or has 16 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_uuid(
    volume: Option<&FerroxfsVolume>,
    uuid: *mut u8,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(volume, error, |volume| {
        // SAFETY: As the caller says.
        unsafe { copy_out(volume.volume.uuid()?.as_bytes(), uuid, UUID_BYTES) }.map(drop)
    })
}
