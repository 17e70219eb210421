//! Devices that hold a volume, and the trait for a device of your own.

pub use crate::open::Devices;
pub use xfs_device::{BlockDevice, Durability, MemoryDevice, SharedDevice};
