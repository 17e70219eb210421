//! The ioctls on ranges of two files: clone, dedupe, exchange.

#![allow(unsafe_code, reason = "an ioctl needs its number and the layout of a buffer")]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::{Errno, Result};
use rustix::ioctl::{Opcode, Setter, Updater, ioctl, opcode};

/// A range of one file, and the offset of the corresponding range in another file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RangePair {
    pub(crate) from_offset: u64,
    pub(crate) to_offset: u64,
    pub(crate) length: u64,
}

/// The kernel's `struct file_clone_range`: the argument of FICLONERANGE.
#[repr(C)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    length: u64,
    offset: u64,
}

const _: () = assert!(size_of::<CloneRange>() == 32);
const CLONE: Opcode = opcode::write::<CloneRange>(0x94, 13);

/// Makes `to` share the blocks of a range of `from`, by FICLONERANGE.
pub(crate) fn clone_range(from: impl AsFd, to: impl AsFd, span: RangePair) -> Result<()> {
    let range = CloneRange {
        source: from.as_fd().as_raw_fd().into(),
        source_offset: span.from_offset,
        length: span.length,
        offset: span.to_offset,
    };
    // SAFETY: the kernel reads one `struct file_clone_range`.
    unsafe { ioctl(to, Setter::<CLONE, CloneRange>::new(range)) }
}

/// The kernel's `struct file_dedupe_range`, the argument of FIDEDUPERANGE, with one `struct
/// file_dedupe_range_info`.
#[repr(C)]
struct DedupeRange {
    source_offset: u64,
    length: u64,
    count: u16,
    reserved_16: u16,
    reserved_32: u32,
    destination: i64,
    offset: u64,
    deduped: u64,
    status: i32,
    reserved: u32,
}

const _: () = assert!(size_of::<DedupeRange>() == 24 + 32);
/// The number of FIDEDUPERANGE. It contains only the size of the header, not of the ranges.
const DEDUPE: Opcode = opcode::read_write::<[u64; 3]>(0x94, 54);
const DIFFERS: i32 = 1;

/// Makes `to` share the blocks of a range of `from`, by FIDEDUPERANGE, if both ranges have the same
/// bytes. Returns whether they have.
pub(crate) fn dedupe_range(from: impl AsFd, to: impl AsFd, span: RangePair) -> Result<bool> {
    let mut range = DedupeRange {
        source_offset: span.from_offset,
        length: span.length,
        count: 1,
        reserved_16: 0,
        reserved_32: 0,
        destination: to.as_fd().as_raw_fd().into(),
        offset: span.to_offset,
        deduped: 0,
        status: 0,
        reserved: 0,
    };
    // SAFETY: the number belongs to `struct file_dedupe_range`, and `count` says that one
    // destination follows it, which is the most that the kernel reads and writes.
    unsafe { ioctl(from, Updater::<DEDUPE, DedupeRange>::new(&mut range))? };
    match range.status {
        0 => Ok(true),
        DIFFERS => Ok(false),
        error => Err(Errno::from_raw_os_error(-error)),
    }
}

/// The kernel's `struct xfs_exchange_range`: the argument of XFS_IOC_EXCHANGE_RANGE.
#[repr(C)]
struct ExchangeRange {
    file: i32,
    padding: u32,
    file_offset: u64,
    offset: u64,
    length: u64,
    flags: u64,
}

const _: () = assert!(size_of::<ExchangeRange>() == 40);
const EXCHANGE: Opcode = opcode::write::<ExchangeRange>(b'X', 129);

/// Exchanges ranges of two files by XFS_IOC_EXCHANGE_RANGE.
pub(crate) fn exchange_range(from: impl AsFd, to: impl AsFd, span: RangePair) -> Result<()> {
    let range = ExchangeRange {
        file: from.as_fd().as_raw_fd(),
        padding: 0,
        file_offset: span.from_offset,
        offset: span.to_offset,
        length: span.length,
        flags: 0,
    };
    // SAFETY: the kernel reads one `struct xfs_exchange_range`.
    unsafe { ioctl(to, Setter::<EXCHANGE, ExchangeRange>::new(range)) }
}
