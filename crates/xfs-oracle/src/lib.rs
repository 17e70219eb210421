//! The kernel and xfsprogs as references for tests.
//!
//! Tests that compare ferroxfs with these references need volumes that the references made, and the
//! kernel's view of these volumes. This crate makes volumes of every geometry ([`Geometry`]) and
//! fills them through the kernel with every kind of inode and metadata ([`populate()`]). It records
//! the kernel's view ([`Tree`]). A test compares the kernel's view with ferroxfs's
//! ([`Differences`]). A [`model`] predicts the result of every operation, and a [`Subject`]
//! performs the operations.
//!
//! The model and the kernel's view use no other crate of the workspace, so that a mistake of
//! ferroxfs cannot be on both sides of a comparison. Only the checker of ferroxfs also looks at the
//! images, in addition to xfs_repair.
//!
//! A [`guest`] runs another kernel in a virtual machine, for volumes that this machine's kernel
//! cannot mount.
//!
//! All parts of the crate except the guests need root and Linux. [`ready`] returns the reason why a
//! test must be skipped.

mod agreement;
mod checked;
mod compare;
mod crash;
mod crash_history;
mod data_ranges;
mod digest;
mod error;
mod geometry;
pub mod guest;
pub mod harness;
mod ioctl;
pub mod model;
mod mount;
mod populate;
mod quotactl;
mod rings;
mod run;
mod subject;
mod view;
mod xfsprogs;

pub use agreement::{AgreementRun, Disagreement, guarded, replay};
pub use checked::{CheckerVerdict, VolumeDevices, check_devices, check_volume};
pub use compare::{Differences, Resumed};
pub use crash::{CrashLoad, CrashRecipe};
pub use crash_history::CrashHistory;
pub use data_ranges::next_data_range;
pub use digest::{Digest, SparseDigest};
pub use error::OracleError;
pub use geometry::{Geometry, GeometryFeature, Image};
pub use ioctl::{ExtentFlags, FileExtent, FileFlags, freeze_and_thaw, shut_down};
pub use mount::{LoopDevice, Mount};
pub use populate::{Random, age, fill, populate};
pub use quotactl::{KernelQuota, QuotaRecord, QuotaSetting, QuotaUsage};
pub use rings::FuseRings;
pub use subject::{Kernel, SeekKind, Subject, scan};
pub use view::{Contents, DirectoryEntry, InodeView, OpenAttributes, Time, Tree};
pub use xfsprogs::Xfsprogs;

/// Inverts each of the bits `flags` in the flags of a file, and sets the file's project ID.
pub fn change_flags(file: &std::fs::File, flags: u32, project: u32) -> rustix::io::Result<()> {
    let mut attributes = ioctl::file_attributes(file)?;
    attributes.flags ^= flags;
    attributes.project_id = project;
    ioctl::set_file_attributes(file, attributes)
}

/// Makes the first block of `to` share the first block of `from`.
pub fn share_contents(from: &std::fs::File, to: &std::fs::File) -> rustix::io::Result<()> {
    ioctl::clone_range(from, to, FIRST_BLOCK)
}

/// Exchanges the first blocks of two files.
pub fn exchange_contents(from: &std::fs::File, to: &std::fs::File) -> rustix::io::Result<()> {
    ioctl::exchange_range(from, to, FIRST_BLOCK)
}

/// The first 4 KiB of a file, which is one block on most volumes.
const FIRST_BLOCK: ioctl::RangePair =
    ioctl::RangePair { from_offset: 0, to_offset: 0, length: 4096 };

/// Returns an error if this process cannot mount volumes.
pub fn ready() -> Result<(), OracleError> {
    if !rustix::process::geteuid().is_root() {
        return Err(OracleError::Unavailable("needs root".to_owned()));
    }
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.lines().any(|line| line.trim_start() == "xfs") {
        // A kernel with XFS as a module lists XFS only once the module is loaded.
        run::run(std::process::Command::new("modprobe").arg("xfs"))
            .map_err(|_| OracleError::Unavailable("the kernel has no XFS".to_owned()))?;
    }
    Ok(())
}

/// Returns an error if this process cannot mount volumes, or if the xfs_repair that `cargo xtask
/// oracles` unpacks is missing. Tests that check many images call this function first, so that they
/// do not report the missing program as a failure of one image.
pub fn ready_with_programs() -> Result<(), OracleError> {
    ready()?;
    Xfsprogs::newer().map(drop)
}
