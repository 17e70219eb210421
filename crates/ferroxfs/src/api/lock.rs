//! Locks and leases of files.
//!
//! Locks are advisory, as on Linux. [`File::lock`](crate::File::lock) takes a record lock,
//! [`File::flock`](crate::File::flock) locks a whole file, and
//! [`File::set_lease`](crate::File::set_lease) asks to be told before a conflicting open or change.
//! Locks need a volume that is open for writing.

pub use crate::file::LockOwner;
pub use xfs_locks::{
    HeldLock, LeaseKind, LeaseMode, LockMode, LockRange, Notify, OpenMode, Opens, Owner, Wait,
    Waiter,
};
