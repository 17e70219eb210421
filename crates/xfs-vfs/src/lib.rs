//! Operations on a mounted volume, as the kernel's VFS and XFS perform them together.
//!
//! Owns: the state of a mount and its background threads, the context of an operation, operations
//! on names and attributes, permissions, access control lists, buffered contents and their
//! write-back, watches, and freezing. Does **not** own: cached inodes (`xfs-icache`), the on-disk
//! form of anything (the layers below), or paths, handles and errno (`ferroxfs`).
//!
//! | module | owns |
//! |---|---|
//! | `mount`, `threads`, `options` | state, background threads and options of a mount |
//! | `op_context`, `ops`, `lookup` | operations: caller, names, inodes, transactions |
//! | `permission`, `acl`, `credentials` | the rules of Linux for permissions |
//! | `contents`, `flusher`, `write_back` | buffered contents, and when they reach the device |
//! | `freeze` | bringing the volume to rest |
//! | `watch` | telling watchers what happened |
//! | `inode_ref` | references to inodes, released on drop |
//!
//! The lock order stands in `mount`.

mod acl;
mod activity;
mod bulkstat;
mod clock;
mod contents;
mod corruption;
mod credentials;
mod flusher;
mod freeze;
mod inode_flags;
mod inode_ref;
mod kind;
mod label;
mod leases;
mod link_counts;
mod lookup;
mod metadata;
mod mode_bits;
mod mount;
mod name;
mod op_context;
mod ops;
mod options;
mod permission;
mod quota;
mod requests;
mod threads;
mod uuid;
mod watch;
mod write_back;
mod zones;

pub use acl::{Acl, AclKind, read_acl};
pub use activity::{Activity, ActivityCounts};
pub use bulkstat::{BulkPath, InodeChunkUse, ShowInode, groups_from, metadata_of, word_of};
pub use clock::Clock;
pub use contents::{
    Contents, ContentsState, LateTimes, OpenContents, Reading, Remaining, Shown, TryOrWait,
    WriteMode,
};
pub use corruption::{cycle, parents_of_directory};
pub use credentials::{Capabilities, Credentials};
pub use flusher::{Flusher, Listener};
pub use freeze::WriteGuard;
pub use inode_flags::{check_mutable, check_not_immutable};
pub use inode_ref::{InodeRef, MountHandle};
pub use kind::{CachedInode, InodeCache, PerCpuRef, PerCpuRefs, VolumeKind};
pub use leases::lock_error;
pub use metadata::{Metadata, metadata_of_inode};
pub use mount::Mount;
pub use name::{EntryName, check_name};
pub use op_context::OpContext;
pub use options::{LockCheck, MountOptions};
pub use permission::{
    Access, AttributeUse, Caller, QualifiedName, check_access, grants_without_list,
};
pub use requests::{CreateOptions, NewKind, Removal, RenameMode, SetAttributes};
pub use threads::MountThreads;
pub use uuid::{
    UuidChange, put_uuid, superblock_io_error, write_realtime_superblock, write_sector,
};
pub use watch::{
    MAX_WAITING_EVENTS, QueueWatch, Scope, Watch, WatchEvent, WatchEvents, Watches, begin_watch,
};
