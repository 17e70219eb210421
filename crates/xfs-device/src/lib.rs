//! Block devices: files, block devices, memory, partitions inside disk images.
//!
//! Owns: the [`BlockDevice`] trait and its back ends, locks on the host's files, finding a
//! filesystem inside a partitioned disk. Does **not** own: what a block means.
//!
//! The trait is public on purpose: a caller may bring a device of its own.

mod container;
mod device;
mod error;
mod file;
mod filesystem;
mod holder;
#[cfg(feature = "disk-images")]
mod image;
mod lock;
mod lvm;
mod memory;
mod open;
mod overlay;
mod partition;
mod signature;
mod stack;
mod text;
mod usage;
mod window;

pub use container::{Container, Inner};
pub use device::{BlockDevice, Durability, SharedDevice};
pub use error::{DeviceError, DeviceFailure};
pub use file::{Access, FileDevice, OpenOptions};
pub use filesystem::{FindError, Found, Selection, find_filesystem, has_group_headers};
pub use holder::Holder;
#[cfg(feature = "disk-images")]
pub use image::{ImageRefusal, open_qcow2};
pub use memory::MemoryDevice;
pub use open::{OpenedDevice, open_device};
pub use overlay::OverlayDevice;
pub use partition::{
    MAX_PARTITIONS, Partition, PartitionError, PartitionTable, Purpose, TableKind, partitions,
};
pub use signature::{Contents, detect};
pub use stack::share_bytes;
pub use usage::Usage;
pub use window::WindowDevice;
