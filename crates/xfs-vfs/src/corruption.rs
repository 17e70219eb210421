//! Constructors of corruption errors that only an operation on several directories can find.

use xfs_format::directory::DirectoryCheck;
use xfs_format::{Corruption, InodeNumber, Structure, StructureAddress};

/// Returns the corruption error for a directory that is its own ancestor.
#[must_use]
pub fn cycle(directory: InodeNumber) -> Corruption {
    Corruption::new(Structure::Directory, StructureAddress::Inode(directory), DirectoryCheck::Cycle)
}

/// Returns the corruption error for a directory that does not have exactly one parent.
#[must_use]
pub fn parents_of_directory(directory: InodeNumber) -> Corruption {
    Corruption::new(
        Structure::Directory,
        StructureAddress::Inode(directory),
        DirectoryCheck::Parents,
    )
}
