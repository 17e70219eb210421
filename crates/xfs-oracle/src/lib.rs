//! The kernel and xfsprogs as witnesses.
//!
//! Tests that compare us with them need volumes that they made, and what they show of these
//! volumes. This crate makes volumes of every geometry ([`Geometry`]), has the kernel fill them
//! with everything that exists ([`populate()`]) and takes down what the kernel shows ([`Tree`]), to be
//! compared with what we show ([`Differences`]).
//! A [`model`] says what every operation must give; a [`Subject`] performs them.
//! It knows nothing of our own code: it depends on no crate of the workspace, so that a mistake
//! of ours cannot hide on both sides of a comparison.
//!
//! All of it needs root and Linux; [`ready`] says why a test has to be left out.

mod agreement;
mod compare;
mod crash;
mod crash_history;
mod digest;
mod error;
mod geometry;
pub mod harness;
mod ioctl;
pub mod model;
mod mount;
mod populate;
mod rings;
mod run;
mod subject;
mod view;
mod xfsprogs;

pub use agreement::{AgreementRun, Disagreement, guarded, replay};
pub use compare::{Differences, Resumed};
pub use crash::{CrashLoad, CrashRecipe};
pub use crash_history::CrashHistory;
pub use digest::{Digest, SparseDigest};
pub use error::OracleError;
pub use geometry::{Geometry, GeometryFeature, Image};
pub use ioctl::{ExtentFlags, FileExtent, FileFlags};
pub use mount::{LoopDevice, Mount};
pub use populate::{Random, age, fill, populate};
pub use rings::FuseRings;
pub use subject::{Kernel, SeekKind, Subject, scan};
pub use view::{Contents, DirectoryEntry, InodeView, OpenAttributes, Time, Tree};
pub use xfsprogs::Xfsprogs;

/// Changes these flags of a file, and sets its project.
pub fn change_flags(file: &std::fs::File, flags: u32, project: u32) -> rustix::io::Result<()> {
    let mut attributes = ioctl::file_attributes(file)?;
    attributes.flags ^= flags;
    attributes.project_id = project;
    ioctl::set_file_attributes(file, attributes)
}

/// Has the first block of a file share that of another.
pub fn share_contents(from: &std::fs::File, to: &std::fs::File) -> rustix::io::Result<()> {
    ioctl::clone_range(from, to, FIRST_BLOCK)
}

/// Exchanges the first blocks of two files.
pub fn exchange_contents(from: &std::fs::File, to: &std::fs::File) -> rustix::io::Result<()> {
    ioctl::exchange_range(from, to, FIRST_BLOCK)
}

/// As much as a block of most volumes.
const FIRST_BLOCK: ioctl::RangePair =
    ioctl::RangePair { from_offset: 0, to_offset: 0, length: 4096 };

/// Why this process cannot mount volumes, if it cannot.
pub fn ready() -> Result<(), OracleError> {
    if !rustix::process::geteuid().is_root() {
        return Err(OracleError::Unavailable("needs root".to_owned()));
    }
    let filesystems = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !filesystems.lines().any(|line| line.trim_start() == "xfs") {
        // A kernel with XFS as a module lists it only once it is loaded.
        run::run(std::process::Command::new("modprobe").arg("xfs"))
            .map_err(|_| OracleError::Unavailable("the kernel has no XFS".to_owned()))?;
    }
    Ok(())
}

/// The same, and why it has no newer xfs_repair. For tests that look at many images: what one of them lacks
/// half way would be told as a failure of that image.
pub fn ready_with_programs() -> Result<(), OracleError> {
    ready()?;
    Xfsprogs::newer().map(drop)
}
