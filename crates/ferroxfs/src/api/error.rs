//! The types inside errors: damage in detail, and the features for which a volume is refused.
//!
//! [`Error`](crate::Error), [`PosixError`](crate::PosixError), [`IoError`](crate::IoError),
//! [`Corruption`](crate::Corruption) and [`OpenError`](crate::OpenError) are at the root.
//!
//! ```
//! # let (_folder, image) = xfs_trans::testing::make_file();
//! # std::fs::write(&image, [0; 65536])?;
//! use ferroxfs::error::FindError;
//! use ferroxfs::{OpenError, Volume};
//!
//! match Volume::open(&image) {
//!     Ok(volume) => println!("{:?}", volume.findings()),
//!     Err(OpenError::Find(FindError::Io(error))) => eprintln!("the device failed: {error}"),
//!     Err(error) => {
//!         eprintln!("{error}");
//!         // The hint says what the user can do, if there is something.
//!         eprintln!("{}", error.hint().unwrap_or_default());
//!         assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidData);
//!     }
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

pub use xfs_device::{
    DeviceError, DeviceFailure, FindError, RaidError, SourceError, SourceErrorKind, VolumeError,
    VolumeNote,
};
pub use xfs_format::superblock::Unsupported;
pub use xfs_format::{Check, DiskAddr, Structure, StructureAddress};
pub use xfs_log::Refusal;
