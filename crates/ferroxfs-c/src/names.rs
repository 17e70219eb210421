//! Making, linking, renaming and removing names of a directory.
#![allow(unsafe_code, reason = "C calls these functions by name, with strings of its own")]

use std::ffi::{OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::{CreateOptions, NewKind, RenameMode};

use crate::boundary::{Out, call_on, hand_out, name};
use crate::error::{Failure, FerroxfsError};
use crate::node::FerroxfsNode;

/// A flag of `ferroxfs_rename`: an existing target is an error (EEXIST).
pub const FERROXFS_RENAME_NOREPLACE: u32 = 1;
/// A flag of `ferroxfs_rename`: the two names are exchanged. Both must exist.
pub const FERROXFS_RENAME_EXCHANGE: u32 = 2;

/// Makes a file and gives its node, if the caller has a place for it.
fn make(
    directory: &FerroxfsNode,
    name: &OsStr,
    kind: &NewKind<'_>,
    mode: u32,
    node: Out<'_, *mut FerroxfsNode>,
) -> Result<(), Failure> {
    let mode = u16::try_from(mode).ok().filter(|mode| *mode <= 0o7777);
    let mode = mode.ok_or(Failure::Argument("the mode has bits above 07777"))?;
    let create = || Ok(directory.node().create(name, kind, &CreateOptions::new(mode))?);
    match node {
        None => create().map(drop),
        node => hand_out(node, || create().map(|made| directory.sibling(made))),
    }
}

/// Makes an empty regular file with these permission bits. It belongs to root, or to the user of
/// `ferroxfs_as_user`. A umask is not applied.
///
/// The name has `child_length` bytes, or ends with a NUL if that is FERROXFS_STRLEN. `node` may be
/// NULL. On success `*node` is a new handle; free it with `ferroxfs_node_free`.
///
/// Errors: EEXIST, ENOTDIR, ENAMETOOLONG, EACCES, ENOSPC; EROFS on a volume that is open for
/// reading.
///
/// # Safety
///
/// `child` is NULL, or has as many bytes as `child_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_create(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    mode: u32,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        // SAFETY: As the caller says.
        let child = unsafe { name(child, child_length) }?;
        make(directory, child, &NewKind::Regular, mode, node)
    })
}

/// Makes a directory, as `ferroxfs_create` makes a file.
///
/// # Safety
///
/// As for `ferroxfs_create`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_mkdir(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    mode: u32,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        // SAFETY: As the caller says.
        let child = unsafe { name(child, child_length) }?;
        make(directory, child, &NewKind::Directory, mode, node)
    })
}

/// Makes a symbolic link to `target`, which has 1 to 1023 bytes, as `ferroxfs_create` makes a file.
/// The length of the target may be FERROXFS_STRLEN, too.
///
/// # Safety
///
/// `child` and `target` are NULL, or have as many bytes as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_symlink(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    target: *const c_char,
    target_length: usize,
    node: Option<&mut MaybeUninit<*mut FerroxfsNode>>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        // SAFETY: As the caller says.
        let (child, target) = unsafe { (name(child, child_length)?, name(target, target_length)?) };
        make(directory, child, &NewKind::Symlink(target.as_bytes()), 0o777, node)
    })
}

/// Gives a file another name in a directory of the same volume.
///
/// Errors: EEXIST, EPERM for a directory, EMLINK, EXDEV for a file of another volume, ENOSPC;
/// EROFS on a volume that is open for reading.
///
/// # Safety
///
/// `child` is NULL, or has as many bytes as `child_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_link(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    file: Option<&FerroxfsNode>,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        let file = file.ok_or(Failure::Argument("the file is NULL"))?;
        // SAFETY: As the caller says.
        let child = unsafe { name(child, child_length) }?;
        Ok(directory.node().link(file.node(), child)?)
    })
}

/// Removes a name of a file that is no directory. The file is freed with its last name and its last
/// handle.
///
/// Errors: ENOENT, EISDIR, EACCES, EPERM; EROFS on a volume that is open for reading.
///
/// # Safety
///
/// `child` is NULL, or has as many bytes as `child_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_unlink(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        // SAFETY: As the caller says.
        let child = unsafe { name(child, child_length) }?;
        Ok(directory.node().remove_file(child)?)
    })
}

/// Removes an empty directory.
///
/// Errors: ENOENT, ENOTDIR, ENOTEMPTY, EACCES, EPERM; EROFS on a volume that is open for reading.
///
/// # Safety
///
/// `child` is NULL, or has as many bytes as `child_length` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_rmdir(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        // SAFETY: As the caller says.
        let child = unsafe { name(child, child_length) }?;
        Ok(directory.node().remove_dir(child)?)
    })
}

/// Moves a name to `target_directory`, which may be the same directory. With `flags` of 0 an
/// existing target is replaced, and no reader finds both names missing.
///
/// Errors: ENOENT, EEXIST with FERROXFS_RENAME_NOREPLACE or for a directory that is not empty,
/// EISDIR, ENOTDIR, EXDEV, EINVAL for a directory that would become its own descendant, ENOSPC;
/// EROFS on a volume that is open for reading.
///
/// # Safety
///
/// `child` and `target` are NULL, or have as many bytes as their lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferroxfs_rename(
    directory: Option<&FerroxfsNode>,
    child: *const c_char,
    child_length: usize,
    target_directory: Option<&FerroxfsNode>,
    target: *const c_char,
    target_length: usize,
    flags: u32,
    error: Option<&mut MaybeUninit<*mut FerroxfsError>>,
) -> i32 {
    call_on(directory, error, |directory| {
        let to = target_directory.ok_or(Failure::Argument("the target directory is NULL"))?;
        let mode = match flags {
            0 => RenameMode::Replace,
            FERROXFS_RENAME_NOREPLACE => RenameMode::NoReplace,
            FERROXFS_RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return Err(Failure::Argument("flags are 0 or one FERROXFS_RENAME_* flag")),
        };
        // SAFETY: As the caller says.
        let (child, target) = unsafe { (name(child, child_length)?, name(target, target_length)?) };
        Ok(directory.node().rename(child, to.node(), target, mode)?)
    })
}
