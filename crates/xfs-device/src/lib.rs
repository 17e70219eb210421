//! Block devices: files, block devices, memory, partitions inside disk images.
//!
//! Owns: the [`BlockDevice`] trait and its back ends, locks on the host's files, finding a
//! filesystem inside a partitioned disk. Does **not** own: what a block means.
//!
//! The trait is public on purpose: a caller may bring a device of its own.

mod device;

pub use device::{BlockDevice, Durability};
