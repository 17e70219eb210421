//! Tests in which ferroxfs allocates and frees inodes and space, and the kernel and `xfs_repair`
//! check the volume.
//!
//! Inodes are allocated without names, so they are on unlinked lists. After a simulated crash the
//! kernel recovers the volume: it replays the log and frees every inode without a name, through the
//! lists and btrees that ferroxfs wrote. When ferroxfs itself has freed the inodes, `xfs_repair`
//! must find nothing.

mod space;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use xfs_alloc::{
    InodePurpose, LinkState, VolumeCounters, add_unlinked, allocate_inode, free_inode,
    inode_blocks, open_journal, unlinked_lists,
};
use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_format::InodeNumber;
use xfs_format::inode::ForkFormat;
use xfs_format::reservation::TransactionKind;
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, ready};
use xfs_testkit::Prng;
use xfs_trans::{Journal, testing};

/// Number of allocations and frees on each volume.
const ROUNDS: usize = 1500;
const REGULAR: u16 = 0o100_600;

fn main() -> ExitCode {
    let names = [
        "default",
        "block-1k",
        "block-1k-no-features",
        "block-64k",
        "inode-2k",
        "rmapbt",
        "no-finobt",
        "no-inobtcount",
        "no-sparse",
        "many-groups",
        "newest",
        "parent-block-1k",
    ];
    let geometries = Geometry::ALL.into_iter().filter(|geometry| names.contains(&geometry.name));
    let trial = |geometry: Geometry| {
        let name = format!("inodes::{}", geometry.name);
        Trial::new(name, move || check_inodes(&geometry))
    };
    run(geometries.map(trial).chain(space_trials()).collect())
}

fn space_trials() -> impl Iterator<Item = Trial> {
    let is_internal = |geometry: &Geometry| geometry.name != "external-log";
    let statfs = Geometry::ALL.into_iter().filter(is_internal).map(|geometry| {
        let name = format!("statfs::{}", geometry.name);
        Trial::new(name, move || space::check_statfs(&geometry, false))
    });
    let filled = ["default", "block-1k", "rmapbt", "newest"];
    let filled = Geometry::ALL.into_iter().filter(move |geometry| filled.contains(&geometry.name));
    let filled = filled.map(|geometry| {
        let name = format!("statfs-filled::{}", geometry.name);
        Trial::new(name, move || space::check_statfs(&geometry, true))
    });
    let shared = ["default", "block-1k", "block-64k", "rmapbt", "newest"];
    let shared = Geometry::ALL.into_iter().filter(move |geometry| shared.contains(&geometry.name));
    let leftovers = shared.map(|geometry| {
        let name = format!("leftovers::{}", geometry.name);
        Trial::new(name, move || space::check_leftovers(&geometry))
    });
    statfs.chain(filled).chain(leftovers)
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn open(path: &Path, options: FileOptions) -> Result<SharedDevice, TrialError> {
    Ok(Arc::new(FileDevice::open(path, options).map_err(failed)?))
}

fn open_volume(image: &Image) -> Result<Arc<Journal>, TrialError> {
    let device = open(&image.data, FileOptions::read_write())?;
    let testing::JournalParts { cache, log, superblock } = testing::parts(&device, 1);
    open_journal(cache, log, &superblock).map_err(failed)
}

fn check_inodes(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let other = folder.path().join("crashed");
    std::fs::create_dir(&other).map_err(failed)?;
    let journal = open_volume(&image)?;
    let in_use = used(journal.cache())?;
    let mut inodes = BTreeSet::new();
    take_and_free(&journal, &mut inodes).map_err(failed)?;
    journal.force_all().map_err(failed)?;
    let crashed = image.copy(&other)?;
    for inode in inodes {
        free(&journal, inode).map_err(failed)?;
    }
    journal.unmount().map_err(failed)?;
    check_clean(&image, in_use)?;
    crashed.mount(&[])?.unmount()?;
    check_clean(&crashed, in_use)?;
    // The kernel continues with the volume that ferroxfs has left.
    image.mount(&[])?.unmount()?;
    check_clean(&image, in_use)
}

/// Checks that exactly `in_use` inodes are in use, and that `xfs_repair` finds nothing wrong.
fn check_clean(image: &Image, in_use: u64) -> Result<(), TrialError> {
    if let Some(findings) = image.findings()? {
        return Err(failed(findings));
    }
    // The kernel may not have released its loop device yet.
    let device = open(&image.data, FileOptions::read_only())?;
    let geometry = Arc::new(testing::superblock(&device).geometry);
    let cache = BufferCache::new(device, geometry, 4 << 20);
    let found = used(&cache)?;
    if found != in_use {
        return Err(failed(format!("{found} inodes are in use, not {in_use}")));
    }
    for group in cache.geometry().groups() {
        if let Some(list) = unlinked_lists(&cache, group).map_err(failed)?.first() {
            return Err(failed(format!("group {group} has unlinked inodes: {list:?}")));
        }
    }
    Ok(())
}

fn used(cache: &BufferCache) -> Result<u64, TrialError> {
    let counters = VolumeCounters::sum(cache).map_err(failed)?;
    Ok(counters.inodes - counters.free_inodes)
}

fn take_and_free(journal: &Arc<Journal>, inodes: &mut BTreeSet<InodeNumber>) -> Result<()> {
    let mut random = Prng::new(11);
    for round in 0..ROUNDS {
        let index = random.within(0..inodes.len());
        let any = inodes.iter().nth(index).copied();
        // Chunks are freed too: the second half frees more than it allocates.
        let frees = random.within(0..10) < if round < ROUNDS / 2 { 2 } else { 7 };
        match any {
            Some(inode) if frees => {
                inodes.remove(&inode);
                free(journal, inode)?;
            }
            Some(parent) if random.within(0..3) != 0 => {
                inodes.extend(take(journal, parent, InodePurpose::File)?);
            }
            _ => {
                let root = journal.superblock().root_inode;
                inodes.extend(take(journal, root, InodePurpose::Directory)?);
            }
        }
    }
    Ok(())
}

/// Allocates an inode that has no name; `None` if the volume has no room.
fn take(
    journal: &Arc<Journal>,
    parent: InodeNumber,
    purpose: InodePurpose,
) -> Result<Option<InodeNumber>> {
    let tx = journal.begin(TransactionKind::CreateUnnamed, inode_blocks(journal.geometry()))?;
    tx.commit_or_cancel(|tx| {
        let made = match allocate_inode(tx, parent, purpose) {
            Err(Error::Posix(PosixError::NoSpace)) => return Ok(None),
            made => made?,
        };
        let record = journal.inode(made.number())?;
        tx.join(&record);
        testing::change_core(tx, &record, |core| {
            core.mode = REGULAR;
            core.data_format = ForkFormat::Extents;
            core.attr_format = ForkFormat::Extents;
        });
        add_unlinked(tx, &record)?;
        Ok(Some(made.number()))
    })
}

fn free(journal: &Arc<Journal>, inode: InodeNumber) -> Result<()> {
    let record = journal.inode(inode)?;
    let mut tx = journal.begin(TransactionKind::FreeInode, 0)?;
    tx.join(&record);
    free_inode(&mut tx, &record, &record.core()?, LinkState::Unlinked)?;
    tx.commit().map(drop)
}
