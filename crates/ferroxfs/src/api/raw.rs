//! The layers below the API: the on-disk format, the log, the buffer cache, in-core inodes.

pub use crate::node::InodeView;
pub use xfs_buffer::BufferCache;
pub use xfs_format as format;
pub use xfs_format::Superblock;
pub use xfs_log as log;
