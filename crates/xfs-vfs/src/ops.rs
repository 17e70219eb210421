//! The operations that change a volume, as methods of [`OpContext`](crate::OpContext).
//!
//! Each operation latches every inode that it changes in one transaction, checks names and
//! permissions again under the latches, and changes nothing before the last check has passed.

pub(crate) mod acl;
pub(crate) mod attributes;
pub(crate) mod create;
pub(crate) mod link;
pub(crate) mod remove;
pub(crate) mod rename;
pub(crate) mod set_attributes;

#[cfg(test)]
mod tests;
