//! The states in which a volume can be when it is damaged: clean, with quota, with a dirty log, and
//! marked NEEDSREPAIR.
//!
//! Owns: bringing a filled volume into such a state. Does **not** own: filling it
//! ([`crate::base`]).
//!
//! ferroxfs makes these states. The kernel of a test machine may have no quota, and never leaves a
//! dirty log without a crash.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use ferroxfs::attr::SetMode;
use ferroxfs::quota::{Limit, Limits, QuotaMode, QuotaOptions, QuotaType};
use ferroxfs::{Node, SetAttributes, Volume};
use xfs_device::{FileDevice, SharedDevice};
use xfs_format::superblock::seal;
use xfs_format::{DiskAddr, IncompatFeatures, StructureAddress, Superblock};
use xfs_log::{LogDevice, find_head_and_tail};
use xfs_oracle::harness::{TrialError, patiently};
use xfs_testkit::RecordingDevice;

use crate::text;

const SECTOR_BYTES: usize = 512;
/// Number of files that only the dirty log has.
const LATE_FILES: u64 = 40;
/// Number of users, groups and projects that own files and have limits.
pub(crate) const OWNERS: u32 = 12;
/// The ID of the first of these users, groups and projects.
pub(crate) const FIRST_OWNER: u32 = 1000;

/// The state of a volume that is about to be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeState {
    /// The kernel has unmounted the volume.
    Clean,
    /// Users, groups and projects have usage and limits.
    Quota,
    /// The power was cut after a sync, so that the log has changes that the volume lacks.
    DirtyLog,
    /// The superblock has the mark NEEDSREPAIR, as an interrupted repair leaves it.
    NeedsRepair,
    /// The superblock has the mark NEEDSREPAIR, and the log is dirty.
    NeedsRepairDirtyLog,
}

impl VolumeState {
    pub(crate) const ALL: [Self; 5] =
        [Self::Clean, Self::Quota, Self::DirtyLog, Self::NeedsRepair, Self::NeedsRepairDirtyLog];

    /// Returns the name of the state, as in the names of the tests.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Quota => "quota",
            Self::DirtyLog => "dirty-log",
            Self::NeedsRepair => "needs-repair",
            Self::NeedsRepairDirtyLog => "needs-repair-dirty-log",
        }
    }

    pub(crate) const fn has_dirty_log(self) -> bool {
        matches!(self, Self::DirtyLog | Self::NeedsRepairDirtyLog)
    }

    pub(crate) const fn is_marked(self) -> bool {
        matches!(self, Self::NeedsRepair | Self::NeedsRepairDirtyLog)
    }
}

/// Counts the usage of all users, groups and projects of a volume, and gives some of them limits.
pub(crate) fn set_quota(image: &Path) -> Result<(), TrialError> {
    let options = ferroxfs::OpenOptions::new().write(true);
    let options = options.quota(QuotaOptions::all(QuotaMode::Enforce));
    let volume = patiently(|| options.open(image)).map_err(text)?;
    let quota = volume.quota();
    for kind in [QuotaType::User, QuotaType::Group, QuotaType::Project] {
        for id in FIRST_OWNER..FIRST_OWNER + OWNERS {
            let blocks = Limit::new().soft(u64::from(id) << 20).hard(u64::from(id) << 21);
            let mut limits = Limits::default();
            (limits.blocks, limits.inodes) = (blocks, Limit::new().hard(u64::from(id) * 100));
            quota.set(kind, id, &limits).map_err(text)?;
        }
    }
    // A handle keeps the volume in use.
    drop(quota);
    volume.close().map_err(text)
}

/// Changes a volume, and leaves it as a power cut after the last sync would: with changes that only
/// the log has.
pub(crate) fn dirty_log(image: &Path) -> Result<(), TrialError> {
    let base = patiently(|| FileDevice::open(image, xfs_device::FileOptions::read_only()));
    let base: SharedDevice = Arc::new(base.map_err(text)?);
    let device = Arc::new(RecordingDevice::new(base));
    let options = ferroxfs::OpenOptions::new().write(true);
    let volume = options.with_devices(device.clone(), None).open().map_err(text)?;
    late_changes(&volume).map_err(text)?;
    volume.sync().map_err(text)?;
    let recording = device.recording();
    // The requests of the close are not in the recording.
    volume.close().map_err(text)?;
    let chunks = recording.replay(recording.requests().len()).changed_chunks();
    drop((recording, device));
    let file = File::options().write(true).open(image).map_err(text)?;
    chunks
        .iter()
        .try_for_each(|(offset, bytes)| file.write_all_at(bytes, *offset))
        .map_err(text)?;
    file.sync_all().map_err(text)?;
    match is_log_clean(image)? {
        true => Err(text("the log is clean after the power cut")),
        false => Ok(()),
    }
}

/// Makes, renames, changes and removes names of every type.
fn late_changes(volume: &Volume) -> std::io::Result<()> {
    volume.create_dir_all("/late/below")?;
    for index in 0..LATE_FILES {
        let path = format!("/late/{index}-made-before-the-cut");
        volume.write(&path, format!("late {index}\n").repeat(40))?;
        volume.lookup(&path)?.set_attribute("user.late", b"value", SetMode::Either)?;
    }
    volume.symlink("below", "/late/short-link")?;
    volume.symlink("late/".repeat(180), "/late/remote-link")?;
    volume.hard_link("/late/3-made-before-the-cut", "/late/below/link")?;
    for index in 0..4 {
        volume.rename(format!("/block/{index}-with-a-name"), format!("/late/below/{index}"))?;
        volume.remove_file(format!("/block/{}-with-a-name", index + 4))?;
    }
    volume.write("/attr-short", b"other contents")?;
    let node: Node = volume.lookup("/attr-short")?;
    node.remove_attribute("user.name-0")?;
    node.set_attributes(&SetAttributes::new().mode(0o600))?;
    Ok(())
}

fn superblock(image: &Path) -> Result<(Superblock, Vec<u8>), TrialError> {
    let mut sector = vec![0; SECTOR_BYTES];
    let file = File::open(image).map_err(text)?;
    file.read_exact_at(&mut sector, 0).map_err(text)?;
    let superblock = Superblock::decode(&sector, StructureAddress::Disk(DiskAddr(0)));
    Ok((superblock.map_err(text)?, sector))
}

fn is_log_clean(image: &Path) -> Result<bool, TrialError> {
    let (superblock, _) = superblock(image)?;
    let device = patiently(|| FileDevice::open(image, xfs_device::FileOptions::read_only()));
    let device: SharedDevice = Arc::new(device.map_err(text)?);
    let log = LogDevice::new(device, &superblock).map_err(text)?;
    Ok(find_head_and_tail(&log).map_err(text)?.clean)
}

/// Sets the mark NEEDSREPAIR in the first superblock.
pub(crate) fn mark(image: &Path) -> Result<(), TrialError> {
    let (mut superblock, mut sector) = superblock(image)?;
    superblock.incompat.insert(IncompatFeatures::NEEDSREPAIR);
    superblock.encode(&mut sector);
    seal(&mut sector);
    let file = File::options().write(true).open(image).map_err(text)?;
    file.write_all_at(&sector, 0).map_err(text)
}
