//! Values as people write and read them.

pub(crate) mod acl;
pub(crate) mod glob;
pub(crate) mod mode;
pub(crate) mod owners;
pub(crate) mod pattern;
pub(crate) mod size;
pub(crate) mod time;
