//! The errors of failed checks: one enum for each kind of structure. Each variant is one check.
//!
//! Owns: the names, the values and the messages of failed checks. Does **not** own the code that
//! checks. The modules below this one do not depend on the modules of the structures, so that both
//! [`Corruption`](crate::Corruption) and the modules of the structures can use them.

pub(crate) mod acl;
pub(crate) mod agf;
pub(crate) mod agfl;
pub(crate) mod agi;
pub(crate) mod attr;
pub(crate) mod btree;
pub(crate) mod dabtree;
pub(crate) mod directory;
pub(crate) mod dquot;
pub(crate) mod extent;
pub(crate) mod free_space;
pub(crate) mod inode;
pub(crate) mod inode_chunk;
pub(crate) mod log_item;
pub(crate) mod log_record;
pub(crate) mod parent;
pub(crate) mod realtime;
pub(crate) mod refcount;
pub(crate) mod rmap;
pub(crate) mod superblock;
pub(crate) mod symlink;
