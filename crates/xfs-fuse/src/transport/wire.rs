//! The structures that the kernel's FUSE and a server exchange, as `linux/fuse.h` defines them
//! (protocol 7.45; the header may be used under BSD-2-Clause). All fields are in the machine's byte
//! order.
//!
//! Owns: the structures, opcodes and flags. Does **not** own: serving the requests.

use bitflags::bitflags;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The major version of the protocol.
pub(crate) const MAJOR: u32 = 7;
/// The minor version of the protocol to which these structures belong.
pub(crate) const MINOR: u32 = 45;
/// The oldest minor version that the server supports. This version introduced `FUSE_INIT_EXT`
/// (Linux 5.17).
pub(crate) const OLDEST_MINOR: u32 = 36;
/// The node number of the root directory, whatever its inode number is.
pub const ROOT_NODE: u64 = 1;

/// Declares the opcodes, with the names under which statistics show them.
macro_rules! opcodes {
    ($($variant:ident = $code:literal $name:literal,)*) => {
        /// The operation that a request asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each is a request of the protocol by its own name")]
        pub enum Opcode { $($variant,)* }

        impl Opcode {
            /// All opcodes, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the opcode with the number `code`, or `None` if the server does not know it.
            #[must_use]
            pub const fn of(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)* _ => None }
            }

            /// Returns the name of the opcode in lower case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

opcodes! {
    Lookup = 1 "lookup",
    Forget = 2 "forget",
    GetAttr = 3 "getattr",
    SetAttr = 4 "setattr",
    ReadLink = 5 "readlink",
    Symlink = 6 "symlink",
    MakeNode = 8 "mknod",
    MakeDirectory = 9 "mkdir",
    Unlink = 10 "unlink",
    RemoveDirectory = 11 "rmdir",
    Rename = 12 "rename",
    Link = 13 "link",
    Open = 14 "open",
    Read = 15 "read",
    Write = 16 "write",
    StatFs = 17 "statfs",
    Release = 18 "release",
    Fsync = 20 "fsync",
    SetXattr = 21 "setxattr",
    GetXattr = 22 "getxattr",
    ListXattr = 23 "listxattr",
    RemoveXattr = 24 "removexattr",
    Flush = 25 "flush",
    Init = 26 "init",
    OpenDirectory = 27 "opendir",
    ReadDirectory = 28 "readdir",
    ReleaseDirectory = 29 "releasedir",
    FsyncDirectory = 30 "fsyncdir",
    Access = 34 "access",
    Create = 35 "create",
    Interrupt = 36 "interrupt",
    Destroy = 38 "destroy",
    Ioctl = 39 "ioctl",
    BatchForget = 42 "batch_forget",
    Allocate = 43 "fallocate",
    ReadDirectoryPlus = 44 "readdirplus",
    Rename2 = 45 "rename2",
    Seek = 46 "lseek",
    CopyFileRange = 47 "copy_file_range",
    SyncFs = 50 "syncfs",
    TemporaryFile = 51 "tmpfile",
    StatX = 52 "statx",
}

bitflags! {
    /// The features that kernel and server agree on in the handshake.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        /// Several reads of one file may be in flight, in any order.
        const ASYNC_READ = 1 << 0;
        /// The server can look up `.` and `..` of every node.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes may be larger than a page.
        const BIG_WRITES = 1 << 5;
        /// The server applies the umask.
        const DONT_MASK = 1 << 6;
        /// The server supports ioctl on directories.
        const IOCTL_DIR = 1 << 11;
        /// The server supports READDIRPLUS.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between READDIRPLUS and READDIR.
        const READDIRPLUS_AUTO = 1 << 14;
        /// The change time is valid. Sent only by a kernel that maintains change times itself, as
        /// with `WRITEBACK_CACHE`.
        const ASYNC_DIO = 1 << 15;
        /// Written data waits in the page cache. The kernel then maintains the size and times of
        /// the file.
        const WRITEBACK_CACHE = 1 << 16;
        /// The server may answer OPEN with ENOSYS, after which the kernel sends no more OPEN.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Lookups and listings of one directory may run in parallel.
        const PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks all permissions, including those of access control lists.
        const POSIX_ACL = 1 << 20;
        /// The field `max_pages` of the handshake's answer is valid.
        const MAX_PAGES = 1 << 22;
        /// Targets of symbolic links stay in the page cache.
        const CACHE_SYMLINKS = 1 << 23;
        /// The server may answer OPENDIR with ENOSYS, after which the kernel sends no more OPENDIR.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// The server removes set-ID bits and file capabilities on a write, a truncation or a
        /// change of owner.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// The body of SETXATTR has the longer of its two forms, which includes flags.
        const SETXATTR_EXT = 1 << 29;
        /// The field `flags2` of the handshake is valid.
        const INIT_EXT = 1 << 30;
        /// Requests and answers go through io_uring rings.
        const OVER_IO_URING = 1 << 41;
    }
}

/// Flags of SETATTR, which say which of its fields are valid.
pub(crate) mod set {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    /// The field with the handle of an open file is valid.
    pub(crate) const HANDLE: u32 = 1 << 6;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    /// The change time is valid. A kernel that maintains change times sends it.
    pub(crate) const CTIME: u32 = 1 << 10;
    pub(crate) const KILL_SET_IDS: u32 = 1 << 11;
    /// Access and modification time are set to the current time, as by utime(2) without times.
    pub(crate) const TOUCH: u32 = ATIME | ATIME_NOW | MTIME | MTIME_NOW;
    /// The flags of all attributes that the server can change.
    pub(crate) const ALL: u32 = MODE | UID | GID | SIZE | TOUCH;
}

/// Flag of an answer to OPEN: reads and writes bypass the page cache.
pub(crate) const OPEN_DIRECT_IO: u32 = 1 << 0;
/// Flag of an answer to OPEN: the page cache keeps the contents that were read before the open.
pub(crate) const OPEN_KEEP_CACHE: u32 = 1 << 1;
/// Flag of WRITE: the data comes from the page cache, and the kernel has already acknowledged it.
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// Flag of WRITE: set-ID bits must be removed.
pub(crate) const WRITE_KILL_SET_IDS: u32 = 1 << 2;
/// Flag of FSYNC: only the data, and the metadata that is needed to read it, must become durable.
pub(crate) const FSYNC_DATA_ONLY: u32 = 1 << 0;
/// Code of a notification, in the header's error field: the kernel must drop what it has cached of
/// an inode.
#[doc(alias = "FUSE_NOTIFY_INVAL_INODE")]
pub(crate) const NOTICE_STALE_INODE: i32 = 2;
/// Flag of a SETXATTR that sets an access control list: the set-group-ID bit of the file must be
/// removed.
pub(crate) const XATTR_KILL_SET_GROUP_ID: u32 = 1 << 0;

/// Commands that a ring sends to the kernel's FUSE.
pub(crate) mod ring {
    /// Registers the memory for requests and asks for the first request.
    #[doc(alias = "FUSE_IO_URING_CMD_REGISTER")]
    pub(crate) const REGISTER: u32 = 1;
    /// Submits an answer, and requests the next request in the same memory.
    #[doc(alias = "FUSE_IO_URING_CMD_COMMIT_AND_FETCH")]
    pub(crate) const ANSWER: u32 = 2;
}

/// The headers of a request that comes through a ring, and of its answer.
#[doc(alias = "fuse_uring_req_header")]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RingHeader {
    /// The header of the request ([`InHeader`]), and later that of the answer ([`OutHeader`]).
    pub(crate) head: [u8; 128],
    /// The arguments of the request, which precede its contents.
    pub(crate) arguments: [u8; 128],
    pub(crate) entry: RingEntry,
}

const _: () = assert!(size_of::<RingHeader>() == 288);

/// Declares structures with their sizes in bytes. The structures consist of plain bytes, without
/// padding.
macro_rules! wire {
    ($($(#[$meta:meta])* $name:ident: $size:literal { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$meta])*
            #[derive(
                Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
            )]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: $type,)* }

            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}

wire! {
    /// The header of every request.
    InHeader: 40 {
        length: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32,
        extensions: u16, padding: u16,
    }
    /// The header of every answer.
    OutHeader: 16 { length: u32, error: i32, unique: u64, }
    /// The body of the notification [`NOTICE_STALE_INODE`]. A negative offset means that only
    /// attributes are out of date.
    StaleInode: 40 { header: OutHeader, node: u64, offset: i64, length: i64, }
    /// Identifies a request in a ring. `length` is the number of bytes of contents of the request
    /// or answer.
    #[doc(alias = "fuse_uring_ent_in_out")]
    RingEntry: 32 { flags: u64, commit: u64, length: u32, padding: u32, reserved: u64, }
    /// Argument of [`ring::REGISTER`] and [`ring::ANSWER`].
    #[doc(alias = "fuse_uring_cmd_req")]
    RingCommand: 24 { flags: u64, commit: u64, queue: u16, padding: [u8; 6], }
    Attributes: 88 {
        inode: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atime_ns: u32,
        mtime_ns: u32, ctime_ns: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        block_size: u32, flags: u32,
    }
    EntryOut: 128 {
        node: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_ns: u32,
        attr_valid_ns: u32, attributes: Attributes,
    }
    AttrOut: 104 { valid: u64, valid_ns: u32, padding: u32, attributes: Attributes, }
    StatXTime: 16 { seconds: i64, nanoseconds: u32, reserved: i32, }
    StatXIn: 24 { getattr_flags: u32, reserved: u32, handle: u64, flags: u32, mask: u32, }
    StatX: 256 {
        mask: u32, block_size: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare: u16, inode: u64, size: u64, blocks: u64, attributes_mask: u64, atime: StatXTime,
        btime: StatXTime, ctime: StatXTime, mtime: StatXTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare_end: [u64; 14],
    }
    StatXOut: 288 {
        valid: u64, valid_ns: u32, flags: u32, spare: [u64; 2], stat: StatX,
    }
    ForgetOne: 16 { node: u64, lookups: u64, }
    BatchForgetIn: 8 { count: u32, padding: u32, }
    MakeNodeIn: 16 { mode: u32, rdev: u32, umask: u32, padding: u32, }
    MakeDirectoryIn: 8 { mode: u32, umask: u32, }
    RenameIn: 8 { directory: u64, }
    Rename2In: 16 { directory: u64, flags: u32, padding: u32, }
    LinkIn: 8 { node: u64, }
    SetAttrIn: 88 {
        valid: u32, padding: u32, handle: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64,
        ctime: i64, atime_ns: u32, mtime_ns: u32, ctime_ns: u32, mode: u32, unused: u32, uid: u32,
        gid: u32, unused_end: u32,
    }
    OpenIn: 8 { flags: u32, open_flags: u32, }
    AccessIn: 8 { mask: u32, padding: u32, }
    CreateIn: 16 { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    OpenOut: 16 { handle: u64, flags: u32, padding: u32, }
    ReadIn: 40 {
        handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    WriteIn: 40 {
        handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    WriteOut: 8 { size: u32, padding: u32, }
    FsyncIn: 16 { handle: u64, fsync_flags: u32, padding: u32, }
    StatFsOut: 80 {
        blocks: u64, free_blocks: u64, available_blocks: u64, files: u64, free_files: u64,
        block_size: u32, name_length: u32, fragment_size: u32, padding: u32, spare: [u32; 6],
    }
    SetXattrIn: 16 { size: u32, flags: u32, more_flags: u32, padding: u32, }
    XattrSize: 8 { size: u32, padding: u32, }
    InitIn: 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11],
    }
    InitOut: 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_granularity_ns: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    IoctlIn: 32 { handle: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32, }
    IoctlOut: 16 { result: i32, flags: u32, in_count: u32, out_count: u32, }
    AllocateIn: 32 { handle: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    DirEntry: 24 { inode: u64, next: u64, name_length: u32, file_type: u32, }
    SeekIn: 24 { handle: u64, offset: u64, whence: u32, padding: u32, }
    SeekOut: 8 { offset: u64, }
    CopyFileRangeIn: 56 {
        handle: u64, offset: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64,
        flags: u64,
    }
}
