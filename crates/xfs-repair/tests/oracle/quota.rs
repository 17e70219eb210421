//! Destroys quota inodes and blocks of dquots of `testdata/quota.image`, repairs the volume, and
//! asks xfs_repair whether it is clean.

use std::fs;
use std::sync::Arc;

use tempfile::TempDir;
use xfs_device::{Durability, SharedDevice};
use xfs_evidence::Evidence;
use xfs_format::dquot::QuotaKind;
use xfs_format::inode::ForkKind;
use xfs_format::{DiskAddr, Geometry, InodeNumber, Superblock};
use xfs_log::{LogDevice, format_log, replay};
use xfs_oracle::harness::{Trial, TrialError};
use xfs_repair::{RehearsalOptions, rehearse};
use xfs_testkit::{CowDevice, golden_quota};

use super::{Damage, ask_xfs_repair, superblock};

/// A cycle of the log after those of all metadata of the volume.
const LATER_CYCLE: u32 = 4;

/// A quota inode, and the damage that a trial makes to it.
struct QuotaFile<'a> {
    superblock: &'a Superblock,
    inode: InodeNumber,
    first_block: DiskAddr,
}

impl QuotaFile<'_> {
    fn geometry(&self) -> &Geometry {
        &self.superblock.geometry
    }

    fn inode(&self) -> (DiskAddr, u64) {
        let place = self.geometry().inode_location(self.inode).expect("the inode is in the volume");
        let at = DiskAddr(place.cluster.0 + u64::from(place.offset_bytes / 512));
        (at, self.geometry().inode_size.into())
    }

    fn block(&self) -> (DiskAddr, u64) {
        (self.first_block, self.geometry().block_size.into())
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in QuotaKind::ALL {
        let name = kind.name();
        let mut add = |what: &str, damage: fn(&QuotaFile<'_>) -> Damage| {
            let trial =
                Trial::new(format!("quota::{what}_of_{name}s"), move || check(kind, damage));
            trials.push(trial);
        };
        add("inode", |file| vec![file.inode()]);
        add("block", |file| vec![file.block()]);
        add("inode_and_block", |file| vec![file.inode(), file.block()]);
    }
    trials
}

fn check(kind: QuotaKind, damage: fn(&QuotaFile<'_>) -> Damage) -> Result<(), TrialError> {
    let text = |error: &dyn std::fmt::Display| TrialError::Failed(error.to_string());
    let device: SharedDevice = Arc::new(CowDevice::new(Arc::new(golden_quota())));
    let found = superblock(&*device)?;
    let log = LogDevice::new(Arc::clone(&device), &found).map_err(|error| text(&error))?;
    let replayed = replay(Arc::clone(&device), &log, &found).map_err(|error| text(&error))?;
    replayed.write_back(&log).map_err(|error| text(&error))?;
    let found = superblock(&*device)?;
    // The log has the newest states of the quota inodes.
    format_log(&log, LATER_CYCLE).map_err(|error| text(&error))?;
    let inodes = QuotaKind::ALL.into_iter().zip(found.quota_inodes);
    let inode = inodes.into_iter().find(|(of, _)| *of == kind).and_then(|(_, inode)| inode);
    let inode = inode.ok_or_else(|| "the volume has quota of all types".to_owned())?;
    let evidence = Evidence::new(&*device, &found);
    let extents = evidence.extents(&evidence.inode(inode), ForkKind::Data).extents;
    let first = extents.first().and_then(|extent| found.geometry.block_disk_addr(extent.start));
    let first_block = first.ok_or_else(|| "the quota inode has blocks".to_owned())?;
    for (at, length) in damage(&QuotaFile { superblock: &found, inode, first_block }) {
        let zeros = vec![0; usize::try_from(length).expect("a short range")];
        let written = device.write_at(&zeros, at.0 * 512, Durability::Cached);
        written.map_err(|error| text(&error))?;
    }
    let options = RehearsalOptions { allow_loss: true, ..RehearsalOptions::default() };
    let rehearsed = rehearse(&device, &found, &options).map_err(|error| text(&error))?;
    if !rehearsed.report.is_clean() {
        return Err(TrialError::Failed(format!("not clean: {:#?}", rehearsed.report.findings)));
    }
    let folder = TempDir::new().map_err(|error| text(&error))?;
    let image = folder.path().join("image");
    let length = usize::try_from(device.length_bytes()).expect("a small image");
    let mut bytes = vec![0; length];
    device.read_at(&mut bytes, 0).map_err(|error| text(&error))?;
    fs::write(&image, bytes).map_err(|error| text(&error))?;
    ask_xfs_repair(&image)
}
