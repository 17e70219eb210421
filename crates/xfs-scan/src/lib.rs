//! The fastest inventory of an XFS volume: every inode, with its paths.
