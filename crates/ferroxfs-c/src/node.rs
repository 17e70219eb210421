//! Nodes: what stat(2), readlink(2) and the calls that set attributes do.
#![allow(unsafe_code, reason = "C calls these functions by name, and gives handles back")]

use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{Metadata, Node, SetAttributes, Timestamp};

use crate::boundary::{Handle, call_on, copy_out, count_on, free_handle, required};
use crate::error::{Failure, FerroxfsError};
use crate::handle::SharedState;

/// A flag of `ferroxfs_attributes`: `mode` is set.
pub const FERROXFS_SET_MODE: u32 = 1;
/// A flag of `ferroxfs_attributes`: `uid` is set.
pub const FERROXFS_SET_UID: u32 = 2;
/// A flag of `ferroxfs_attributes`: `gid` is set.
pub const FERROXFS_SET_GID: u32 = 4;
/// A flag of `ferroxfs_attributes`: `atime` is set.
pub const FERROXFS_SET_ATIME: u32 = 8;
/// A flag of `ferroxfs_attributes`: `mtime` is set.
pub const FERROXFS_SET_MTIME: u32 = 16;

const SET_ALL: u32 = FERROXFS_SET_MODE
    | FERROXFS_SET_UID
    | FERROXFS_SET_GID
    | FERROXFS_SET_ATIME
    | FERROXFS_SET_MTIME;

/// A handle on one inode, like a descriptor of O_PATH. Any number of threads may use it at the same
/// time.
///
/// The caller owns it, and frees it with `ferroxfs_node_free`. It keeps the file, even after the
/// file has lost its last name.
pub struct FerroxfsNode {
    state: SharedState,
    node: Node,
}

impl Handle for FerroxfsNode {
    fn state(&self) -> &SharedState {
        &self.state
    }
}

impl FerroxfsNode {
    pub(crate) fn new(state: SharedState, node: Node) -> Self {
        Self { state, node }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Makes a handle on another inode of the same volume.
    pub(crate) fn sibling(&self, node: Node) -> Self {
        Self::new(self.state.clone(), node)
    }
}

/// A time: seconds since 1970, and nanoseconds from 0 to 999999999.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FerroxfsTime {
    /// Seconds since 1970-01-01 00:00 UTC.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

/// Properties of an inode, as stat(2) and statx(2) give them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FerroxfsStat {
    /// Inode number.
    pub number: u64,
    /// Length in bytes.
    pub size: u64,
    /// Space in units of 512 bytes.
    pub blocks: u64,
    /// Generation: a file that gets the same number later has another one.
    pub generation: u32,
    /// Type and permission bits, as in st_mode.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Project ID.
    pub project_id: u32,
    /// Major number of a device file; 0 for any other file.
    pub device_major: u32,
    /// Minor number of a device file; 0 for any other file.
    pub device_minor: u32,
    /// Time of the last read.
    pub atime: FerroxfsTime,
    /// Time of the last change of the contents.
    pub mtime: FerroxfsTime,
    /// Time of the last change of the inode.
    pub ctime: FerroxfsTime,
    /// Time at which the file was made.
    pub btime: FerroxfsTime,
    /// FS_XFLAG_* bits.
    pub xflags: u32,
    /// Number of data extents.
    pub extents: u64,
    /// Zeros. A later version may use them.
    pub reserved: [u64; 8],
}

/// Attributes that `ferroxfs_setattr` changes. Only those count whose flag is in `set`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FerroxfsAttributes {
    /// FERROXFS_SET_* flags.
    pub set: u32,
    /// Permission bits, with set-ID and sticky bits.
    pub mode: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID.
    pub gid: u32,
    /// Time of the last read.
    pub atime: FerroxfsTime,
    /// Time of the last change of the contents.
    pub mtime: FerroxfsTime,
}

fn time(time: Timestamp) -> FerroxfsTime {
    FerroxfsTime { seconds: time.seconds(), nanoseconds: time.nanoseconds() }
}

fn timestamp(time: FerroxfsTime) -> Result<Timestamp, Failure> {
    Timestamp::new(time.seconds, time.nanoseconds)
        .ok_or(Failure::Argument("a time has more than 999999999 nanoseconds"))
}

fn stat_of(metadata: &Metadata) -> FerroxfsStat {
    let device = metadata.device.map_or((0, 0), |device| (device.major, device.minor));
    FerroxfsStat {
        number: metadata.number.0,
        size: metadata.size,
        blocks: metadata.blocks,
        generation: metadata.generation,
        mode: u32::from(metadata.mode),
        nlink: metadata.nlink,
        uid: metadata.uid,
        gid: metadata.gid,
        project_id: metadata.project_id,
        device_major: device.0,
        device_minor: device.1,
        atime: time(metadata.accessed),
        mtime: time(metadata.modified),
        ctime: time(metadata.changed),
        btime: time(metadata.created),
        xflags: metadata.xflags.bits(),
        extents: metadata.extents,
        reserved: [0; 8],
    }
}

/// Frees a node. NULL is allowed.
///
/// # Safety
///
/// `node` is NULL, or came from this library and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_node_free(node: *mut FerroxfsNode) {
    // SAFETY: The caller gives the node back.
    unsafe { free_handle(node) };
}

/// Gives the properties of an inode.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_stat_node(
    node: Option<&FerroxfsNode>,
    stat: Option<&mut MaybeUninit<FerroxfsStat>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    let mut stat = stat;
    call_on(node, error, |node| {
        required(&mut stat)?.write(stat_of(&node.node.metadata()));
        Ok(())
    })
}

/// Copies the target of a symbolic link into `buffer`, without a NUL.
///
/// Returns its length, or a negative errno. With a `capacity` of 0 only the length is returned.
///
/// Errors: EINVAL if the node is no link; ERANGE if the target is longer than `capacity`; EUCLEAN.
///
/// # Safety
///
/// `buffer` is NULL, or has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_readlink(
    node: Option<&FerroxfsNode>,
    buffer: *mut u8,
    capacity: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i64 {
    count_on(node, error, |node| {
        let target = node.node.read_link()?;
        // SAFETY: As the caller says.
        unsafe { copy_out(target.as_bytes(), buffer, capacity) }
    })
}

/// Changes mode, owner and times of an inode, all in one step.
///
/// Errors: EINVAL for an unknown flag or a time with too many nanoseconds; EROFS on a volume that
/// is open for reading; EPERM for an immutable file, or for another user than the owner.
#[unsafe(no_mangle)]
pub extern "C" fn ferroxfs_setattr(
    node: Option<&FerroxfsNode>,
    attributes: Option<&FerroxfsAttributes>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(node, error, |node| {
        let given = attributes.ok_or(Failure::Argument("the attributes are NULL"))?;
        if given.set & !SET_ALL != 0 {
            return Err(Failure::Argument("`set` has a bit that is no FERROXFS_SET_* flag"));
        }
        let has = |flag| given.set & flag != 0;
        let mut changes = SetAttributes::new();
        if has(FERROXFS_SET_MODE) {
            let bits = u16::try_from(given.mode).ok().filter(|bits| *bits <= 0o7777);
            let bits = bits.ok_or(Failure::Argument("`mode` has bits above 07777"))?;
            changes = changes.mode(bits);
        }
        if has(FERROXFS_SET_UID) {
            changes = changes.uid(given.uid);
        }
        if has(FERROXFS_SET_GID) {
            changes = changes.gid(given.gid);
        }
        if has(FERROXFS_SET_ATIME) {
            changes = changes.accessed(timestamp(given.atime)?);
        }
        if has(FERROXFS_SET_MTIME) {
            changes = changes.modified(timestamp(given.mtime)?);
        }
        Ok(node.node.set_attributes(&changes)?)
    })
}
