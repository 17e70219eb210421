//! Directories, extended attributes and parent pointers: from names to inodes and values.
//!
//! Owns: search and iteration in directories and attributes of every form, and changing them in
//! transactions. Does **not** own the contents of one block (`xfs-format`), the mapping of blocks
//! and link targets (`xfs-inode`), permissions, link counts and time stamps, or a cache of names.
//!
//! Reading functions take an [`Inode`](xfs_inode::Inode), changing functions a
//! [`LiveInode`](xfs_inode::LiveInode) and a transaction. The design of the writing side is in
//! docs/internals/names.md.
//!
//! # Invariants
//!
//! - **I1** Every block names the inode that owns it; a block of another inode is an error.
//! - **I2** A search or an iteration ends, whatever the blocks contain. Levels fall by one from a
//!   node to its child, no leaf is walked twice, and each step needs a verified block.
//! - **I3** An iteration does not end at damage: for a block that cannot be read, it returns one
//!   error, and then continues with the blocks after it.
//! - **I4** A block is accepted only if it has the hashes that its parent names, and a leaf only if
//!   it names the next leaf that the parents name. So a search reports that a name does not exist
//!   only if that is true.
//! - **I5** Everything that can be refused is refused before the first change.

mod attributes;
mod bounds;
mod dabtree;
mod directory;
mod edit;
#[cfg(test)]
mod fixture;
mod metadata_files;
mod parents;
mod store;
mod tree;

pub use attributes::{
    AttributeName, AttributeNames, Attributes, NewAttribute, SetMode, attribute_blocks,
    attribute_quota_blocks, attribute_removal_blocks, linux_names, remove_attribute,
    resume_attribute, set_attribute, set_attribute_along, set_attribute_on_new, split_linux_name,
};
pub use directory::{
    Audit, Directory, DirectoryEntries, EntryLocation, NewEntry, OwnedEntry, Position, add_entry,
    add_entry_at, blocks_to_add, blocks_to_remove, blocks_to_remove_quota, directory_is_empty,
    find_entry, has_room_for_entry, init_directory, remove_entry, remove_entry_at, replace_entry,
    seek_entry,
};
pub use metadata_files::{
    NewMetadataFile, blocks_to_name, create_metadata_file, find_metadata_file, name_metadata_files,
    prepare_metadata_file,
};
pub use parents::{
    ParentLink, ParentPath, Parents, add_parent, first_parent, parent_blocks, parent_quota_blocks,
    remove_parent, replace_parent,
};
pub use xfs_format::attr::Namespace;
pub use xfs_format::directory::{Cookie, EntryType};
