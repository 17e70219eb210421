//! Reads a damaged XFS volume, and returns everything that can still be read.
//!
//! Owns: reading inodes, forks, directories, attributes and parent pointers without stopping at the
//! first damage; the sweep, which finds blocks and inodes that name themselves; the geometry of a
//! volume without a usable superblock. Does **not** own: decisions about what to keep. `xfs-repair`
//! and `xfs-salvage` make those.
