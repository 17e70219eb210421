//! Commands that change the files of an image in place, one module each, and the walk of a tree
//! that they share.

pub(crate) mod chmod;
pub(crate) mod chown;
#[expect(clippy::module_inception, reason = "the file of a command bears its name")]
pub(crate) mod edit;
pub(crate) mod fallocate;
pub(crate) mod ln;
pub(crate) mod mkdir;
pub(crate) mod mv;
pub(crate) mod rm;
pub(crate) mod setfacl;
pub(crate) mod setfattr;
pub(crate) mod touch;
pub(crate) mod truncate;
pub(crate) mod walk;
