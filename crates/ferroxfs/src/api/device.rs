//! Devices that hold a volume, and the trait for a device of your own.
//!
//! [`OpenOptions::open_device`](crate::OpenOptions::open_device) opens the volume on any
//! [`BlockDevice`]. [`OpenOptions::open_devices`](crate::OpenOptions::open_devices) only opens the
//! files. A program can then give up its privileges before it reads the image:
//!
//! ```
//! # let (_folder, image) = xfs_trans::testing::make_file();
//! use ferroxfs::OpenOptions;
//!
//! let devices = OpenOptions::new().write(true).open_devices(&image)?;
//! // Drop privileges here. Nothing is opened after this line.
//! let recovered = devices.recover()?;
//! assert!(recovered.is_none(), "the log is clean");
//! let volume = devices.open()?;
//! volume.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::open::{DamagedStart, Devices, VolumeToCheck};
/// Options of opening a [`FileDevice`].
#[doc(inline)]
pub use xfs_device::FileOptions;
pub use xfs_device::{
    BlockDevice, Durability, FileDevice, MemoryDevice, PartitionChoice, SharedDevice,
};
/// Options of reading images on web and S3 servers, and the observer of their requests.
#[cfg(feature = "object_store")]
pub use xfs_image::{ObjectObserver, ObjectOptions, ObjectRequest};
