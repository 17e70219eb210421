//! How many links an inode has, before that changes.
//!
//! Owns: the most that there can be, and what a volume may not say: fewer links than names. Does
//! **not** own: changing them.
//!
//! A file has as many links as names. A directory has two, its own name and `.`, and one for the `..`
//! of each directory in it.

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::{FileType, InodeCheck, InodeCore};
use xfs_format::{Corruption, Structure, StructureAddress};

/// The most links of an inode.
#[doc(alias = "XFS_MAXLINK")]
const MAX_LINKS: u32 = i32::MAX as u32;

/// Whether an inode can have one link more.
pub(super) fn check_gains_link(core: &InodeCore) -> Result<()> {
    if core.nlink >= MAX_LINKS { Err(PosixError::TooManyLinks.into()) } else { Ok(()) }
}

/// Whether a directory has the link of a directory in it, which goes.
pub(super) fn check_loses_child(directory: &InodeCore) -> Result<()> {
    if directory.nlink > 2 { Ok(()) } else { Err(too_few(directory)) }
}

/// Whether what loses a name has the links of one. An empty directory has no others.
pub(super) fn check_loses_name(core: &InodeCore, not_empty: PosixError) -> Result<()> {
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
