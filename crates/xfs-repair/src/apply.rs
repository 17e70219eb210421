//! Applying a repair and undoing it: the writes to the volume, in an order that survives a crash.
//!
//! Owns: the order of writes, and the check that the volume is in a state that the undo file knows.
//! Does **not** own: the decision what to change (`plan`), or the undo file's format (`undo`).
//!
//! # Order
//!
//! ```text
//!  undo file durable ─→ check the volume ─→ superblock with NEEDSREPAIR ─flush─→ runs in address
//!                                            order ─flush─→ superblock without it ─flush─→ done
//! ```
//!
//! A run is a range of changed sectors. An undo makes the same steps, but writes the old bytes.
//!
//! # Why a crash does no harm
//!
//! - **A1** The undo file holds both states of every byte that is written, and is durable before
//!   the first write.
//! - **A2** At any time each sector of a run holds its old or its new bytes. The superblock's
//!   sector holds its old bytes, its new bytes, or the new bytes with NEEDSREPAIR.
//! - **A3** While runs are written, the flag NEEDSREPAIR is durable, so that the kernel, callers of
//!   xfs_repair and ferroxfs do not write to the volume. The flag is cleared only after a flush of
//!   all runs.
//!
//! So after a crash at any point, an apply or an undo can be started again. It writes every run
//! again, whatever the state of the run, and the volume is then byte for byte as after or before
//! the repair. A run is written even if it already reads as the new bytes: after a failed flush the
//! host may show bytes that never reached the disk.

use std::mem::offset_of;

use xfs_check::Progress;
use xfs_device::{BlockDevice, Durability};
use xfs_format::IncompatFeatures;
use xfs_format::superblock::{self, SuperblockDisk};

use crate::error::{RepairError, Result};
use crate::overlay::SECTOR_BYTES;
use crate::undo::{UndoFile, UndoRun, read_device};

/// The state of a volume compared with an undo file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolumeState {
    /// Every byte is as before the repair.
    Before,
    /// Every byte is as after the repair.
    After,
    /// Some bytes are as before the repair and some as after it, because an apply or an undo was
    /// interrupted.
    Between,
}

/// The state to which a volume is brought: before or after the repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    Before,
    After,
}

/// Brings a volume to its state after the repair, also if a repair or an undo was interrupted.
///
/// # Errors
///
/// [`RepairError::Refused`] if the undo file is of another volume, or another program has changed
/// the volume. After another error the volume is marked with NEEDSREPAIR, and the call can be
/// repeated.
pub fn resume(undo: &UndoFile, device: &dyn BlockDevice, progress: &dyn Progress) -> Result<()> {
    bring(undo, device, Goal::After, progress)
}

/// Brings a volume back to its state before the repair, byte for byte.
///
/// # Errors
///
/// See [`resume`].
pub fn undo(undo: &UndoFile, device: &dyn BlockDevice, progress: &dyn Progress) -> Result<()> {
    bring(undo, device, Goal::Before, progress)
}

fn bring(
    undo: &UndoFile,
    device: &dyn BlockDevice,
    goal: Goal,
    progress: &dyn Progress,
) -> Result<()> {
    volume_state(undo, device)?;
    let superblock = undo.run(0)?;
    let marked = with_needs_repair(&superblock.new)?;
    write(device, 0, &marked)?;
    // A3: the flag is durable before the first run is written.
    device.flush().map_err(RepairError::Flush)?;
    let runs = undo.run_count();
    for index in 1..runs {
        let run = undo.run(index)?;
        // A run of equal bytes is a witness (U4 of `xfs_repair::undo`).
        if run.old != run.new {
            write(device, run.offset, goal.bytes(&run))?;
        }
        progress.advance(index as u64, runs as u64);
    }
    // A3: the flag goes only after all runs are durable.
    device.flush().map_err(RepairError::Flush)?;
    write(device, 0, goal.bytes(&superblock))?;
    device.flush().map_err(RepairError::Flush)
}

impl Goal {
    fn bytes(self, run: &UndoRun) -> &[u8] {
        match self {
            Self::Before => &run.old,
            Self::After => &run.new,
        }
    }
}

/// Returns the state of a volume compared with an undo file.
///
/// # Errors
///
/// [`RepairError::Refused`] if a sector of the volume is in a state that a repair cannot leave
/// (A2): the undo file is of another volume, or another program has changed the volume since.
pub fn volume_state(undo: &UndoFile, device: &dyn BlockDevice) -> Result<VolumeState> {
    if device.length_bytes() != undo.device_bytes() {
        return Err(RepairError::Refused(format!(
            "the undo file is of a volume on a device of {} bytes, and the device has {}",
            undo.device_bytes(),
            device.length_bytes()
        )));
    }
    let (mut is_before, mut is_after) = (true, true);
    let mut current = Vec::new();
    for index in 0..undo.run_count() {
        let run = undo.run(index)?;
        current.resize(run.old.len(), 0);
        read_device(device, run.offset, &mut current)?;
        is_before &= current == run.old;
        is_after &= current == run.new;
        let marked = if index == 0 { with_needs_repair(&run.new)? } else { run.new.clone() };
        let is_known = (0..run.old.len()).step_by(SECTOR_BYTES).all(|at| {
            let is = |state: &[u8]| sector(state, at) == sector(&current, at);
            is(&run.old) || is(&run.new) || is(&marked)
        });
        // A2: each sector holds its old or its new bytes.
        if !is_known {
            return Err(RepairError::Refused(format!(
                "the {} bytes at byte {} are neither those before the repair nor those after it: \
                 another program has changed the volume, or the undo file is of another volume",
                run.old.len(),
                run.offset
            )));
        }
    }
    Ok(match (is_before, is_after) {
        (true, _) => VolumeState::Before,
        (false, true) => VolumeState::After,
        (false, false) => VolumeState::Between,
    })
}

/// Returns one sector of a run: the one that starts `at` bytes after the start of the run.
fn sector(run: &[u8], at: usize) -> &[u8] {
    let end = run.len().min(at + SECTOR_BYTES);
    run.get(at..end).expect("all states of a run have one length")
}

/// Returns a copy of `sector`, the sector of the superblock, with NEEDSREPAIR set and a new
/// checksum.
fn with_needs_repair(sector: &[u8]) -> Result<Vec<u8>> {
    let mut sector = sector.to_vec();
    set_needs_repair(&mut sector, true)?;
    Ok(sector)
}

/// Sets or clears NEEDSREPAIR in the superblock's sector, and computes its checksum.
pub(crate) fn set_needs_repair(sector: &mut [u8], is_set: bool) -> Result<()> {
    let field = offset_of!(SuperblockDisk, incompat);
    let word = sector.get_mut(field..field + size_of::<u32>()).ok_or_else(|| {
        RepairError::Refused("the undo file has a superblock that is too short".to_owned())
    })?;
    let bits = u32::from_be_bytes((&*word).try_into().expect("the field has four bytes"));
    let mut bits = IncompatFeatures::from_bits_retain(bits);
    bits.set(IncompatFeatures::NEEDSREPAIR, is_set);
    word.copy_from_slice(&bits.bits().to_be_bytes());
    superblock::seal(sector);
    Ok(())
}

fn write(device: &dyn BlockDevice, offset: u64, bytes: &[u8]) -> Result<()> {
    let written = device.write_at(bytes, offset, Durability::Cached);
    written.map_err(|error| RepairError::Io { offset, error })
}

#[cfg(test)]
mod tests;
