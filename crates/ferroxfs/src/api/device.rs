//! Devices that hold a volume, and the trait for a device of your own.

pub use crate::open::Devices;
/// Options of opening a [`FileDevice`].
#[doc(inline)]
pub use xfs_device::OpenOptions as FileOptions;
pub use xfs_device::{BlockDevice, Durability, FileDevice, MemoryDevice, SharedDevice};
