//! Devices of blocks: regular files, block devices, memory, and partitions.
//!
//! Owns: the [`BlockDevice`] trait and its implementations, locks on the host's files, finding a
//! filesystem on a partitioned disk. Does **not** own: the meaning of the bytes, or disk images and
//! remote disks (`xfs-image`).
//!
//! The trait is public so that callers can implement it for devices of their own.

mod container;
mod device;
mod error;
mod file;
mod filesystem;
mod lock;
mod lock_holder;
mod lvm;
mod memory;
mod metadump;
mod open;
mod overlay;
mod partition;
mod raid;
mod signature;
mod stack;
mod text;
mod usage;
mod window;

pub use container::{Container, InnerVolume};
pub use device::{
    BlockDevice, Durability, SharedDevice, check_read, check_write, write_zeros_plainly,
};
pub use error::{DeviceError, DeviceFailure, SourceError, SourceErrorKind};
pub use file::{DeviceAccess, FileDevice, FileOptions};
pub use filesystem::{
    FindError, LocatedVolume, Selection, find_filesystem, find_filesystem_among, find_partition,
    has_group_headers,
};
pub use lock_holder::LockHolder;
pub use lvm::VolumeError;
pub use memory::MemoryDevice;
pub use metadump::{
    MAX_EXTENTS, METADUMP_DEVICE_SHIFT, METADUMP_INDEX_ADDRESSES, METADUMP_MAGIC_1,
    METADUMP_MAGIC_2, METADUMP_UNIT, MetadumpDevice, MetadumpError, MetadumpExtent, MetadumpHeader,
    MetadumpReader, MetadumpSource, MetadumpVersion, StreamSource, open_metadump, volume_length,
};
pub use open::{OpenedDevice, open_detected, open_device};
pub use overlay::OverlayDevice;
pub use partition::{
    ChoiceError, MAX_PARTITIONS, NewPartition, NewTable, NotAPartition, Partition, PartitionChoice,
    PartitionError, PartitionTable, PartitionType, TableError, TableKind, partitions,
};
pub use raid::{RaidError, VolumeNote};
pub use signature::{Contents, detect};
pub use stack::share_bytes;
pub use text::printable;
pub use usage::KernelUse;
pub use window::WindowDevice;
