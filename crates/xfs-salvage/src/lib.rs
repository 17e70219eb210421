//! Copies files from a damaged XFS volume without writing to it.
//!
//! Owns: the tree of what can be read, the manifest, and the choice between several copies of an
//! inode. Does **not** own: reading damaged structures (`xfs-evidence`), or the files of the host.
