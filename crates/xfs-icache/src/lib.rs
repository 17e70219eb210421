//! The inode cache and the dentry cache of a mounted volume.
//!
//! Owns: the one copy of an inode that is in memory, how long this copy stays cached, iteration
//! over all cached inodes, and the meaning of names that were looked up. Does **not** own:
//! operations, permissions or the contents of files (`xfs-vfs`), or the on-disk form of inodes and
//! directories (`xfs-inode`, `xfs-dir`).
//!
//! | module | owns |
//! |---|---|
//! | `inode_cache` | lookup, insertion, reclaim and inactivation of cached inodes |
//! | `cached_inode` | the life of one cached inode, and the counts of its references |
//! | `cache_ref` | references, each a value that releases its count |
//! | `inode_walk` | iteration over all cached inodes |
//! | `per_cpu_refs` | references that the handles of one processor share |
//! | `dentry_cache` | the meaning of names |
//! | `small` | a small filesystem in memory, whose inodes are in one list instead of an index |
//!
//! The design is in docs/internals/cache.md.

mod cache_ref;
mod cached_inode;
mod chunk;
mod clock_hands;
mod counts;
mod dentry_cache;
mod evict;
mod filter;
mod group;
mod hints;
mod inactivation;
mod inode_cache;
mod inode_list;
mod inode_walk;
mod kind;
mod marks;
mod per_cpu_refs;
mod rights;
mod size;
mod small;
mod store;
#[cfg(test)]
mod testing;
mod walk_step;

pub use cache_ref::{CacheRef, MarkRef, StoredRef, TakenMarks};
pub use cached_inode::{CachedInode, Keep, Phase};
pub use chunk::ChunkSlot;
pub use counts::{Count, InodeCounts};
pub use dentry_cache::{Dentry, DentryCache, DentryReader};
pub use evict::{CacheCounts, count_inodes, drop_idle, evict_all, take_down};
pub use filter::{Tag, WalkFilter};
pub use group::HeldChunk;
pub use inode_cache::{DEFAULT_INODES, InodeCache, InodeIndex};
pub use inode_list::InodeList;
pub use inode_walk::InodeWalk;
pub use kind::{CacheableInode, InodeKind, InodeWatch};
pub use marks::{Mark, Marks};
pub use per_cpu_refs::{PerCpuRef, PerCpuRefs, last_ref, release_ref};
pub use rights::Rights;
pub use small::{Room, Small, SmallContents, SmallInode, SmallKind, SmallNames};
pub use store::{BulkRequest, InodeOf, InodeStore, JournalStore};
pub use walk_step::{Existing, WalkStep, WalkVisitor};
