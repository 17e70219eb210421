//! Two ioctls of the kernel's XFS: bulkstat, and the geometry of a volume.
//!
//! This module has all `unsafe` of the crate. Each call passes the kernel a buffer whose layout is
//! fixed by the user-space interface. The kernel writes only plain integers into the buffer.

#![allow(unsafe_code, reason = "an ioctl needs its number and the layout of a buffer")]

use std::os::fd::AsFd;

use rustix::io::Result;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

use crate::report::VolumeShape;

/// The most inodes that one call of bulkstat returns.
const BULKSTAT_MAX: usize = 4096;

/// `struct xfs_bulkstat`: the inode number, and all other fields, which this module does not read.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawBulkstat {
    number: u64,
    rest: [u64; 23],
}

/// `struct xfs_bulkstat_req`: a header, followed by room for inodes.
#[repr(C)]
struct BulkstatRequest {
    start: u64,
    flags: u32,
    room: u32,
    returned: u32,
    group: u32,
    reserved: [u64; 5],
    inodes: [RawBulkstat; BULKSTAT_MAX],
}

const _: () = assert!(size_of::<RawBulkstat>() == 192);
const _: () = assert!(size_of::<BulkstatRequest>() == 64 + BULKSTAT_MAX * 192);

/// The ioctl number of XFS_IOC_BULKSTAT. The size in it is that of the header only, without the
/// inodes.
const BULKSTAT: Opcode = opcode::read::<[u64; 8]>(b'X', 127);

/// XFS_BULK_IREQ_AGNO: requests the inodes of only one allocation group.
const BULKSTAT_GROUP: u32 = 1;

/// Returns the number of inodes that the kernel's bulkstat lists in one allocation group of the
/// volume of `file`.
pub(crate) fn bulkstat_count(file: impl AsFd, group: u32) -> Result<u64> {
    let empty = RawBulkstat { number: 0, rest: [0; 23] };
    let mut request = Box::new(BulkstatRequest {
        start: 0,
        flags: BULKSTAT_GROUP,
        room: BULKSTAT_MAX as u32,
        returned: 0,
        group,
        reserved: [0; 5],
        inodes: [empty; BULKSTAT_MAX],
    });
    let mut count = 0;
    loop {
        // SAFETY: the number belongs to `struct xfs_bulkstat_req`, and `room` says how many inodes
        // follow it, which is the most that the kernel fills.
        unsafe { ioctl(&file, Updater::<BULKSTAT, BulkstatRequest>::new(&mut request))? };
        if request.returned == 0 {
            return Ok(count);
        }
        count += u64::from(request.returned);
    }
}

/// `struct xfs_fsop_geom` up to the last field that this module reads.
#[repr(C)]
struct RawGeometry {
    block_bytes: u32,
    realtime_extent_blocks: u32,
    group_blocks: u32,
    groups: u32,
    log_blocks: u32,
    sizes: [u32; 3],
    counts: [u64; 4],
    uuid: [u8; 16],
    stripes: [u32; 2],
    version: i32,
    flags: u32,
    rest: [u64; 20],
}

const _: () = assert!(size_of::<RawGeometry>() == 256);

/// The ioctl number of XFS_IOC_FSGEOMETRY.
const GEOMETRY: Opcode = opcode::read::<RawGeometry>(b'X', 126);

/// XFS_FSOP_GEOM_FLAGS_PARENT: the volume has parent pointers.
const HAS_PARENTS: u32 = 1 << 25;

/// Returns, for the volume of `file`, whether it has parent pointers, its number of groups, and its
/// log size.
pub(crate) fn shape(file: impl AsFd) -> Result<VolumeShape> {
    let mut geometry = RawGeometry {
        block_bytes: 0,
        realtime_extent_blocks: 0,
        group_blocks: 0,
        groups: 0,
        log_blocks: 0,
        sizes: [0; 3],
        counts: [0; 4],
        uuid: [0; 16],
        stripes: [0; 2],
        version: 0,
        flags: 0,
        rest: [0; 20],
    };
    // SAFETY: the number belongs to `struct xfs_fsop_geom`, which the kernel fills and which has
    // this size.
    unsafe { ioctl(&file, Updater::<GEOMETRY, RawGeometry>::new(&mut geometry))? };
    Ok(VolumeShape {
        parents: geometry.flags & HAS_PARENTS != 0,
        groups: u64::from(geometry.groups),
        log_bytes: u64::from(geometry.log_blocks) * u64::from(geometry.block_bytes),
    })
}
