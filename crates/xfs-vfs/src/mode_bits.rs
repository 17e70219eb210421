//! The bits of a mode beside the type, as `chmod` sets them.

/// All of these bits.
pub(crate) const ALL: u16 = 0o7777;
/// On a program: it runs as its owner.
pub(crate) const SET_USER_ID: u16 = 0o4000;
/// On a program: it runs as its group. On a directory: files made in it belong to its group.
pub(crate) const SET_GROUP_ID: u16 = 0o2000;
/// On a directory: only owners remove names and change attributes.
pub(crate) const STICKY: u16 = 0o1000;
/// Read, write and execute, for each class.
pub(crate) const CLASSES: u16 = 0o777;
/// Permissions of the group class; the mask, if there is a list.
pub(crate) const GROUP: u16 = 0o070;
/// The group may execute.
pub(crate) const GROUP_EXECUTE: u16 = 0o010;
/// Execute, for each class.
pub(crate) const EXECUTE: u16 = 0o111;
