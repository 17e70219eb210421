//! Values in the form in which people write and read them: sizes, times, modes, owners, patterns
//! and access control lists.

pub(crate) mod acl;
pub(crate) mod glob;
pub(crate) mod hexadecimal;
pub(crate) mod mode;
pub(crate) mod owners;
pub(crate) mod pattern;
pub(crate) mod size;
pub(crate) mod time;
