//! Mode bits that `chmod` sets: permissions, set-ID bits and the sticky bit.

/// All mode bits that `chmod` sets.
pub(crate) const ALL: u16 = 0o7777;
/// Set-user-ID bit. A program with this bit runs as the owner of its file.
pub(crate) const SET_USER_ID: u16 = 0o4000;
/// Set-group-ID bit. A program with this bit runs as the group of its file. New files in a
/// directory with this bit get the group of the directory.
pub(crate) const SET_GROUP_ID: u16 = 0o2000;
/// Sticky bit. In a directory with this bit, only the owner of a file or of the directory may
/// remove the file's names. Only the directory's owner may set `user.` attributes of the directory.
pub(crate) const STICKY: u16 = 0o1000;
/// Read, write and execute bits of all three classes: owner, group and others.
pub(crate) const CLASSES: u16 = 0o777;
/// Permission bits of the group class. If the file has an access control list, these bits show the
/// mask of the list.
pub(crate) const GROUP: u16 = 0o070;
/// Execute bit of the group class.
pub(crate) const GROUP_EXECUTE: u16 = 0o010;
/// Execute bits of all three classes.
pub(crate) const EXECUTE: u16 = 0o111;
