//! Disk images and remote disks as devices.
//!
//! Owns: the formats qcow2, VMDK, VHDX and VDI, the files that such images name, and the client of
//! network block devices. Does **not** own: files and block devices of the host (`xfs-device`), or
//! finding a volume on a disk.
//!
//! Nothing in an image or from a server is trusted. Tables are read entry by entry through a
//! bounded cache. If a number in an image states how much memory to allocate, a limit applies to
//! it.

mod bytes;
mod device;
mod error;
mod nbd;
mod neighbour;
mod open;
mod qcow2;
mod tables;
mod vdi;
mod vhdx;
mod vmdk;

pub use error::{FileRole, ImageError, ImageRefusal, NeighbourRefusal};
pub use nbd::{NbdError, is_address};
pub use neighbour::Surroundings;
pub use open::{open_device, open_image};
