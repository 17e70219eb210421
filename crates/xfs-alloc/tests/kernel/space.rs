//! Tests that ferroxfs counts free space as the kernel does, and that a recovery frees the blocks
//! that were staged for copy-on-write when a crash came.

use std::process::Command;
use std::sync::Arc;

use xfs_alloc::{
    AllocationTarget, BlockExtent, BlockPurpose, SpaceRequest, allocate_extent, defer_free,
    defer_stage, defer_unstage, recover_leftovers,
};
use xfs_buffer::Result;
use xfs_format::AgNumber;
use xfs_format::reservation::TransactionKind;
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Geometry, Image, ready};
use xfs_testkit::Prng;
use xfs_trans::Journal;

use super::{failed, open_volume};

/// Number of extents that are staged for copy-on-write on each volume.
const ROUNDS: usize = 1200;
/// Number of blocks that the btrees of a group may take for one staged extent.
const SPARE_BLOCKS: u64 = 64;

/// Returns the number of free blocks that `statfs` shows on the image mounted by the kernel.
fn kernel_free_blocks(image: &Image) -> Result<u64, TrialError> {
    let mount = image.mount(&[])?;
    let output = Command::new("stat").args(["-f", "-c", "%f"]).arg(mount.path()).output();
    let output = output.map_err(failed)?;
    mount.unmount()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(failed)
}

fn check_free_blocks(image: &Image) -> Result<(), TrialError> {
    let expected = kernel_free_blocks(image)?;
    let journal = open_volume(image)?;
    let found = journal.counts().free_blocks;
    journal.unmount().map_err(failed)?;
    if found != expected {
        return Err(failed(format!("{found} blocks are free, but the kernel has {expected}")));
    }
    Ok(())
}

/// Checks that `statfs` shows the same free space under ferroxfs as under the kernel.
pub(crate) fn check_statfs(geometry: &Geometry, is_filled: bool) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = match is_filled {
        true => geometry.make_and_fill(folder.path())?,
        false => geometry.make(folder.path())?,
    };
    check_free_blocks(&image)
}

/// Stages blocks for copy-on-write, frees some of them, and simulates a crash. Checks that all of
/// these blocks are free after a recovery, by the kernel or by ferroxfs.
pub(crate) fn check_leftovers(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let other = folder.path().join("crashed");
    std::fs::create_dir(&other).map_err(failed)?;
    let journal = open_volume(&image)?;
    let free = journal.counts().free_blocks;
    let left = stage_and_unstage(&journal).map_err(failed)?;
    journal.force_all().map_err(failed)?;
    let crashed = image.copy(&other)?;
    let freed = recover_leftovers(&journal).map_err(failed)?;
    if freed != left || journal.counts().free_blocks != free {
        return Err(failed(format!("{freed} blocks were freed of {left}")));
    }
    journal.unmount().map_err(failed)?;
    for image in [&image, &crashed] {
        image.mount(&[])?.unmount()?;
        if let Some(findings) = image.findings()? {
            return Err(failed(findings));
        }
        check_free_blocks(image)?;
    }
    Ok(())
}

/// Marks blocks as staged for copy-on-write, and removes the mark from some of them. Returns the
/// number of blocks that stay staged.
fn stage_and_unstage(journal: &Arc<Journal>) -> Result<u64> {
    let mut random = Prng::new(5);
    let mut staged: Vec<BlockExtent> = Vec::new();
    let groups = journal.geometry().ag_count as usize;
    for round in 0..ROUNDS {
        let gives_back = random.within(0..10) < if round < ROUNDS / 2 { 3 } else { 6 };
        if gives_back && !staged.is_empty() {
            let extent = staged.swap_remove(random.within(0..staged.len()));
            let mut tx = journal.begin(TransactionKind::Write, 0)?;
            defer_unstage(&mut tx, xfs_alloc::Section::Data, extent);
            defer_free(&mut tx, extent, None, BlockPurpose::File);
            tx.commit()?;
            continue;
        }
        let group = AgNumber(random.within(0..groups) as u32);
        let most = random.within(1..24) as u32;
        let mut tx = journal.begin(TransactionKind::Write, u64::from(most) + SPARE_BLOCKS)?;
        let request = SpaceRequest::new(AllocationTarget::FromGroup(group), 1, most);
        if let Some(extent) = allocate_extent(&mut tx, &request)? {
            defer_stage(&mut tx, xfs_alloc::Section::Data, extent);
            staged.push(extent);
        }
        tx.commit()?;
    }
    Ok(staged.iter().map(|extent| u64::from(extent.length_blocks)).sum())
}
