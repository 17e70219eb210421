//! Setting the project id of a file on the host, for which no safe wrapper exists.
//!
//! The kernel gets a buffer whose layout its user-space interface fixes, and only plain integers
//! are read back.

#![allow(unsafe_code, reason = "an ioctl is declared by its number and the layout of a buffer")]

use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};

/// `struct fsxattr` of the kernel: the argument of FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR.
#[repr(C)]
#[derive(Clone, Copy)]
struct FileAttributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

const _: () = assert!(size_of::<FileAttributes>() == 28);

const GET_ATTRIBUTES: Opcode = opcode::read::<FileAttributes>(b'X', 31);
const SET_ATTRIBUTES: Opcode = opcode::write::<FileAttributes>(b'X', 32);

/// FS_XFLAG_PROJINHERIT: new files in the directory inherit its project.
const INHERIT: u32 = 0x200;

/// Sets the project of an open file or directory. The inherit flag in `xflags` decides whether new
/// files in the directory inherit the project.
pub(super) fn set(file: impl AsFd, project: u32, xflags: u32) -> Result<()> {
    let file = file.as_fd();
    // SAFETY: the kernel writes one `struct fsxattr`, of which every bit pattern is valid.
    let mut attributes: FileAttributes =
        unsafe { ioctl(file, Getter::<GET_ATTRIBUTES, FileAttributes>::new())? };
    attributes.project = project;
    attributes.flags |= xflags & INHERIT;
    // SAFETY: the kernel reads one `struct fsxattr`, which the line above has filled.
    unsafe { ioctl(file, Setter::<SET_ATTRIBUTES, FileAttributes>::new(attributes)) }
}
