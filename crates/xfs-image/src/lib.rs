//! Disk images and remote disks as devices.
//!
//! Owns: the formats qcow2, VMDK, VHDX, VDI and fixed VHD, the files that such images name, the
//! client of network block devices, and with the feature `object_store` the client of web and S3
//! servers.
//! Does **not** own: files and block devices of the host (`xfs-device`), or finding a volume on a
//! disk.
//!
//! Nothing in an image or from a server is trusted. Tables are read entry by entry through a
//! bounded cache. An allocation whose size comes from an image has a limit.

mod bytes;
mod device;
mod error;
mod nbd;
mod neighbour;
#[cfg(feature = "object_store")]
mod object;
mod open;
mod qcow2;
mod remote;
mod tables;
mod vdi;
mod vhd;
mod vhdx;
mod vmdk;

pub use error::{FileRole, ImageError, ImageRefusal, NeighbourRefusal};
pub use nbd::NbdError;
pub use neighbour::Surroundings;
#[cfg(feature = "object_store")]
pub use object::{
    ObjectError, ObjectFolder, ObjectObserver, ObjectOptions, ObjectRequest, RequestFailure,
};
#[cfg(feature = "object_store")]
pub use open::open_device_with;
pub use open::{open_device, open_image, open_remote};
pub use qcow2::{ClusterCompression, MAX_QCOW2_BYTES, write_qcow2};
pub use remote::{is_address, without_credentials};
pub use vhd::{MAX_VHD_BYTES, VHD_FOOTER_BYTES, vhd_footer};
