//! The parts of errors: damage in detail, and refusals.
//!
//! [`Error`](crate::Error), [`PosixError`](crate::PosixError), [`IoError`](crate::IoError),
//! [`Corruption`](crate::Corruption) and [`OpenError`](crate::OpenError) are at the root.

pub use xfs_device::{DeviceError, DeviceFailure, FindError};
pub use xfs_format::superblock::Unsupported;
pub use xfs_format::{Check, DiskAddr, Structure, StructureAddress};
pub use xfs_log::Refusal;
