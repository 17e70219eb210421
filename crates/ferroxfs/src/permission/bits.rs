//! Bits of a mode beside its type, as `chmod` has them.

/// All of them.
pub(crate) const ALL: u16 = 0o7777;
/// Of a program: it runs as its owner.
pub(crate) const SET_USER_ID: u16 = 0o4000;
/// Of a program: it runs as its group. Of a directory: what is made in it belongs to its group.
pub(crate) const SET_GROUP_ID: u16 = 0o2000;
/// Of a directory: names are removed, and its attributes changed, by owners only.
pub(crate) const STICKY: u16 = 0o1000;
/// Read, write and execute, for each class.
pub(crate) const CLASSES: u16 = 0o777;
/// What the class of the group has: where there is a list, its mask.
pub(crate) const GROUP: u16 = 0o070;
/// The group may execute.
pub(crate) const GROUP_EXECUTE: u16 = 0o010;
/// Execute, for each class.
pub(crate) const EXECUTE: u16 = 0o111;
