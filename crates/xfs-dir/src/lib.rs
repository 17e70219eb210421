//! Directories, extended attributes and parent pointers: from names to inodes and values.
//!
//! Owns: search and iteration in every form, over the blocks of an inode's forks, and changing them
//! in transactions. Does **not** own: what one block holds (`xfs-format`), where the blocks lie and
//! link targets (`xfs-inode`), permissions, link counts and time stamps, or a cache of names.
//!
//! Who reads takes an [`Inode`](xfs_inode::Inode), who changes a [`LiveInode`](xfs_inode::LiveInode) and a
//! transaction. The design of the writing side stands in docs/internals/names.md.
//!
//! # Invariants
//!
//! - **I1** Every block says whose it is; one that belongs to another inode is an error.
//! - **I2** Whatever the blocks hold, a search or an iteration ends: levels fall by one from a node
//!   to its child, no leaf is walked twice, and each step needs a block that passed its verifier.
//! - **I3** An iteration does not end at damage: a block that cannot be read is one error, and the
//!   blocks behind it follow.
//! - **I4** A block is believed only where its hashes are those that its parent says, and a leaf only where its next
//!   leaf is the one that the parents say: a search finds nothing only where nothing is.
//! - **I5** What can be refused is refused before the first change.

mod attributes;
mod bounds;
mod dabtree;
mod directory;
mod edit;
#[cfg(test)]
mod fixture;
mod parents;
mod store;
mod tree;

pub use attributes::{
    AttributeName, AttributeNames, Attributes, NewAttribute, SetMode, attribute_blocks,
    attribute_removal_blocks, linux_names, remove_attribute, resume_attribute, set_attribute,
    set_attribute_along, set_attribute_on_new, split_linux_name,
};
pub use directory::{
    Audit, DirEntry, Directory, Entries, EntryLocation, NewEntry, Position, add_entry,
    add_entry_at, blocks_to_add, blocks_to_remove, directory_is_empty, find_entry, init_directory,
    remove_entry, remove_entry_at, replace_entry, seek_entry,
};
pub use parents::{
    ParentLink, ParentPath, Parents, add_parent, first_parent, parent_blocks, remove_parent,
    replace_parent,
};
pub use xfs_format::attr::Namespace;
pub use xfs_format::directory::{Cookie, EntryType};
