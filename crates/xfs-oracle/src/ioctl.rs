//! Linux ioctls that no library wraps safely: file attributes, file extents.
//!
//! This module and its child have all `unsafe` of the crate. Each call passes the kernel a buffer
//! whose layout is fixed by the user-space interface. The kernel writes only plain integers into
//! the buffer.

#![allow(unsafe_code, reason = "an ioctl needs its number and the layout of a buffer")]

mod ranges;

use std::os::fd::AsFd;

use bitflags::bitflags;
use rustix::io::{Errno, Result};
use rustix::ioctl::{Getter, NoArg, Opcode, Setter, Updater, ioctl, opcode};

pub(crate) use ranges::{RangePair, clone_range, dedupe_range, exchange_range};

bitflags! {
    /// `fsx_xflags` of a file, as in FS_IOC_FSGETXATTR.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    pub struct FileFlags: u32 {
        /// The file's contents are on the realtime device.
        const REALTIME = 0x1;
        /// Space was preallocated for the file, for example by fallocate.
        const PREALLOCATED = 0x2;
        /// Nothing about the file may change.
        const IMMUTABLE = 0x8;
        /// The file may only grow.
        const APPEND = 0x10;
        /// Writes are synchronous.
        const SYNC = 0x20;
        /// Reading does not update the access time.
        const NOATIME = 0x40;
        /// Backups skip the file.
        const NODUMP = 0x80;
        /// New files in the directory go to the realtime device, if there is one.
        const REALTIME_INHERIT = 0x100;
        /// New files in the directory inherit its project.
        const PROJECT_INHERIT = 0x200;
        /// No symbolic links may be created in the directory.
        const NOSYMLINKS = 0x400;
        /// The file has an extent size hint.
        const EXTENT_SIZE = 0x800;
        /// New files in the directory inherit its extent size hint.
        const EXTENT_SIZE_INHERIT = 0x1000;
        /// Defragmentation does not move the file.
        const NODEFRAG = 0x2000;
        /// The file has an extent size hint for copy-on-write.
        const COW_EXTENT_SIZE = 0x1_0000;
        // Flags of newer kernels are kept, so that a comparison sees them.
        const _ = !0;
    }
}

/// The kernel's `struct fsxattr`: the flags, project and hints of a file.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileAttributes {
    pub(crate) flags: u32,
    pub(crate) extent_size: u32,
    pub(crate) extents: u32,
    pub(crate) project_id: u32,
    pub(crate) cow_extent_size: u32,
    padding: [u8; 8],
}

const _: () = assert!(size_of::<FileAttributes>() == 28);

const GET_ATTRIBUTES: Opcode = opcode::read::<FileAttributes>(b'X', 31);
const SET_ATTRIBUTES: Opcode = opcode::write::<FileAttributes>(b'X', 32);

/// Returns the attributes of a file by FS_IOC_FSGETXATTR.
pub(crate) fn file_attributes(file: impl AsFd) -> Result<FileAttributes> {
    // SAFETY: the kernel writes one `struct fsxattr`, of which every bit pattern is valid.
    unsafe { ioctl(file, Getter::<GET_ATTRIBUTES, FileAttributes>::new()) }
}

/// Sets the attributes of a file by FS_IOC_FSSETXATTR.
pub(crate) fn set_file_attributes(file: impl AsFd, attributes: FileAttributes) -> Result<()> {
    // SAFETY: the kernel reads one `struct fsxattr`.
    unsafe { ioctl(file, Setter::<SET_ATTRIBUTES, FileAttributes>::new(attributes)) }
}

const FREEZE: Opcode = opcode::read_write::<i32>(b'X', 119);
const THAW: Opcode = opcode::read_write::<i32>(b'X', 120);

/// Freezes the volume of a folder and thaws it again, by FIFREEZE and FITHAW. This writes all
/// changes, and frees the space of the files that have lost their last name.
///
/// # Errors
///
/// The errno of the calls.
pub fn freeze_and_thaw(folder: impl AsFd) -> Result<()> {
    // SAFETY: the kernel does not use the argument of either call.
    unsafe {
        ioctl(&folder, NoArg::<FREEZE>::new())?;
        ioctl(&folder, NoArg::<THAW>::new())
    }
}

const SHUT_DOWN: Opcode = opcode::read::<u32>(b'X', 125);

/// Shuts the volume of a folder down, by XFS_IOC_GOINGDOWN, as if the machine lost power.
/// `flushes_log` tells whether the kernel first writes its log, with all changes of metadata.
///
/// # Errors
///
/// The errno of the call.
pub fn shut_down(folder: impl AsFd, flushes_log: bool) -> Result<()> {
    let how: u32 = if flushes_log { 1 } else { 2 };
    // SAFETY: the kernel reads one 32-bit number, although the opcode says that it writes one.
    unsafe { ioctl(folder, Setter::<SHUT_DOWN, u32>::new(how)) }
}

bitflags! {
    /// `fe_flags` of an extent, as in FS_IOC_FIEMAP.
    #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
    pub struct ExtentFlags: u32 {
        /// The last extent of the file.
        const LAST = 0x1;
        /// The data is not on the device yet, or has no address of its own.
        const UNKNOWN = 0x2;
        /// Space is reserved for the extent, but not allocated.
        const DELAYED = 0x4;
        /// The bytes of the extent are in the inode.
        const INLINE = 0x200;
        /// Space is allocated, but reads as zeros.
        const UNWRITTEN = 0x800;
        /// Other files use the blocks of the extent.
        const SHARED = 0x2000;
        const _ = !0;
    }
}

/// One extent of a file. Offsets and lengths are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset of the extent in the file, in bytes.
    pub offset: u64,
    /// Address of the extent on the device, in bytes.
    pub address: u64,
    /// Length of the extent in bytes.
    pub length: u64,
    /// The kernel's flags of the extent.
    pub flags: ExtentFlags,
}

/// The kernel's `struct fiemap_extent`: one extent of a file.
#[repr(C)]
#[derive(Default, Clone, Copy)]
struct RawExtent {
    offset: u64,
    address: u64,
    length: u64,
    reserved_64: [u64; 2],
    flags: u32,
    reserved_32: [u32; 3],
}

const EXTENTS_MAX: usize = 256;

/// The kernel's `struct fiemap`, a request for extents, followed by room for the result.
#[repr(C)]
struct ExtentRequest {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_MAX],
}

const _: () = assert!(size_of::<RawExtent>() == 56);
const _: () = assert!(size_of::<ExtentRequest>() == 32 + EXTENTS_MAX * size_of::<RawExtent>());

/// The number of FS_IOC_FIEMAP. It contains only the size of the header, not of the extents.
const MAP_EXTENTS: Opcode = opcode::read_write::<[u64; 4]>(b'f', 11);

/// FIEMAP_FLAG_XATTR: requests the extent map of the attribute fork instead of the data fork.
const ATTRIBUTE_FORK: u32 = 0x2;

/// Returns the whole extent map of the data fork, by FS_IOC_FIEMAP.
pub(crate) fn data_extents(file: impl AsFd) -> Result<Vec<FileExtent>> {
    extents(file, 0)
}

/// Returns the whole extent map of the attribute fork, empty if the file has no attribute fork.
pub(crate) fn attribute_extents(file: impl AsFd) -> Result<Vec<FileExtent>> {
    match extents(file, ATTRIBUTE_FORK) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        other => other,
    }
}

fn extents(file: impl AsFd, flags: u32) -> Result<Vec<FileExtent>> {
    let mut found: Vec<FileExtent> = Vec::new();
    loop {
        let start = found.last().map_or(0, |last| last.offset + last.length);
        let mut request = ExtentRequest {
            start,
            length: u64::MAX - start,
            flags,
            mapped: 0,
            room: EXTENTS_MAX as u32,
            reserved: 0,
            extents: [RawExtent::default(); EXTENTS_MAX],
        };
        // SAFETY: the number belongs to `struct fiemap`, and `room` says how many extents follow
        // it, which is the most that the kernel fills.
        unsafe { ioctl(&file, Updater::<MAP_EXTENTS, ExtentRequest>::new(&mut request))? };
        let mapped = request.extents.iter().take(request.mapped as usize);
        found.extend(mapped.map(|raw| FileExtent {
            offset: raw.offset,
            address: raw.address,
            length: raw.length,
            flags: ExtentFlags::from_bits_retain(raw.flags),
        }));
        let is_last = found.last().is_none_or(|last| last.flags.contains(ExtentFlags::LAST));
        if is_last || request.mapped == 0 {
            return Ok(found);
        }
    }
}
