//! Switches that only benchmarks use.

pub use xfs_dir::ParentPath;
pub use xfs_icache::InodeIndex;
pub use xfs_vfs::LockCheck;
