//! Findings about directories that only operations over several inodes can make.

use xfs_format::directory::DirectoryCheck;
use xfs_format::{Corruption, InodeNumber, Structure, StructureAddress};

/// The finding that a directory is inside itself.
#[must_use]
pub fn cycle(directory: InodeNumber) -> Corruption {
    Corruption::new(Structure::Directory, StructureAddress::Inode(directory), DirectoryCheck::Cycle)
}

/// The finding that a directory does not have exactly one parent.
#[must_use]
pub fn parents_of_directory(directory: InodeNumber) -> Corruption {
    Corruption::new(
        Structure::Directory,
        StructureAddress::Inode(directory),
        DirectoryCheck::Parents,
    )
}
