//! Checks of link counts before they change.
//!
//! Owns: the largest count, and the error for an inode that has fewer links than names. Does
//! **not** own: changing the counts.
//!
//! A file has as many links as names. A directory has two, one for its own name and one for `.`,
//! and one more for the `..` of each subdirectory.

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::{FileType, InodeCheck, InodeCore};
use xfs_format::{Corruption, Structure, StructureAddress};

/// The largest link count.
#[doc(alias = "XFS_MAXLINK")]
const MAX_LINKS: u32 = i32::MAX as u32;

/// Checks that the link count of an inode can grow by one.
pub(crate) fn check_gains_link(core: &InodeCore) -> Result<()> {
    if core.nlink >= MAX_LINKS { Err(PosixError::TooManyLinks.into()) } else { Ok(()) }
}

/// Checks that the link count of a directory is high enough to lose a subdirectory: at least 3.
pub(crate) fn check_loses_child(directory: &InodeCore) -> Result<()> {
    if directory.nlink > 2 { Ok(()) } else { Err(too_few(directory)) }
}

/// Checks that the link count of an inode is high enough to remove a name of the inode: at least 1,
/// or 2 for a directory. Fails with `not_empty` for a directory with a higher count, because such a
/// directory still has subdirectories.
pub(crate) fn check_loses_name(core: &InodeCore, not_empty: PosixError) -> Result<()> {
    let is_directory = core.file_type() == Some(FileType::Directory);
    match core.nlink {
        0 => Err(too_few(core)),
        1 if is_directory => Err(too_few(core)),
        2.. if is_directory && core.nlink > 2 => Err(not_empty.into()),
        _ => Ok(()),
    }
}

fn too_few(core: &InodeCore) -> xfs_buffer::Error {
    let check = InodeCheck::TooFewLinks { nlink: core.nlink };
    Corruption::new(Structure::Inode, StructureAddress::Inode(core.number), check).into()
}
