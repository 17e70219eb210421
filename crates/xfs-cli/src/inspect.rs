//! The commands that show the contents and the structures of a volume, one module each.

pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod du;
pub(crate) mod dump;
pub(crate) mod extents;
pub(crate) mod find;
pub(crate) mod fsck;
pub(crate) mod getfacl;
pub(crate) mod getfattr;
pub(crate) mod info;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod parents;
pub(crate) mod predicate;
pub(crate) mod readlink;
pub(crate) mod scan;
pub(crate) mod stat;
pub(crate) mod structures;
pub(crate) mod tree;
