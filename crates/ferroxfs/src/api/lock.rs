//! Locks and leases of files.
//!
//! Locks are advisory, as on Linux. [`File::lock`](crate::File::lock) takes a record lock,
//! [`File::flock`](crate::File::flock) locks a whole file, and
//! [`File::set_lease`](crate::File::set_lease) takes a lease. The holder of a lease is notified
//! before a conflicting open or change. Locks need a volume that is open for writing.
//!
//! ```
//! # let device = xfs_trans::testing::make();
//! # let volume = ferroxfs::OpenOptions::new().write(true).open_device(device)?;
//! use ferroxfs::PosixError;
//! use ferroxfs::lock::{LockMode, LockOwner, LockRange, Wait};
//!
//! let mine = volume.create_file("/database")?;
//! mine.lock(LockRange::WHOLE, LockMode::Exclusive, LockOwner::File, Wait::No)?;
//!
//! let yours = volume.open_file("/database")?;
//! let refused = yours.lock(LockRange::WHOLE, LockMode::Shared, LockOwner::File, Wait::No);
//! assert_eq!(refused.unwrap_err().errno(), PosixError::WouldBlock.errno());
//! drop(mine);
//! yours.lock(LockRange::WHOLE, LockMode::Shared, LockOwner::File, Wait::No)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::file::LockOwner;
pub use xfs_locks::{
    HeldLock, LeaseKind, LeaseMode, LockMode, LockRange, Notify, OpenMode, Opens, Owner, Wait,
    Waiter,
};
