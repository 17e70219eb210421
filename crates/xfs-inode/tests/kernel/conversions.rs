//! A simulated crash between the step that converts an extent in a file's extent map and the step
//! that converts it in the reverse map. The kernel does the second step, from the intent that
//! ferroxfs logged. The two maps must then agree.

use std::sync::Arc;

use xfs_alloc::open_journal;
use xfs_buffer::Result;
use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_format::FileBlock;
use xfs_format::inode::ForkKind;
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_inode::{BlockRange, KeepSize, map_blocks};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Geometry, ready};
use xfs_trans::Journal;
use xfs_trans::testing::{JournalParts, parts};

use super::{create, failed, folder, judge};

const FILE_BLOCKS: usize = 9;
/// The blocks in the middle of the file that are converted between written and unwritten.
const MIDDLE: BlockRange = BlockRange { start: FileBlock(3), length_blocks: 2 };

/// The state that the conversion gives to the blocks in the middle of the file (`MIDDLE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    Written,
    Unwritten,
}

pub(crate) fn check(geometry: &Geometry, becomes: Becomes) -> Result<(), TrialError> {
    ready()?;
    let place = folder()?;
    let image = geometry.make(place.path())?;
    let device: SharedDevice =
        Arc::new(FileDevice::open(&image.data, FileOptions::read_write()).map_err(failed)?);
    let JournalParts { cache, log, superblock } = parts(&device, 0);
    let journal = open_journal(cache, log, &superblock).map_err(failed)?;
    let copies = folder()?;
    let crashed = convert(&journal, superblock.root_inode, becomes, || image.copy(copies.path()));
    let crashed = crashed.map_err(failed)??;
    let printed = crashed.printed_log(&["-c"])?;
    let [promised, done] = ["RUI:", "RUD:"].map(|item| printed.matches(item).count());
    if promised != done + 1 {
        return Err(failed(format!("{promised} changes are promised, {done} are done")));
    }
    judge(&crashed)
}

/// Converts the middle of a file. Calls `crash` when the log has the intent to convert the reverse
/// map, but before the reverse map is converted. Returns the result of `crash`.
fn convert<T>(
    journal: &Arc<Journal>,
    root: xfs_format::InodeNumber,
    becomes: Becomes,
    crash: impl FnOnce() -> T,
) -> Result<T> {
    let (file, now) = (create(journal, root)?, Timestamp::default());
    let bytes = vec![1; FILE_BLOCKS * journal.geometry().block_size as usize];
    match becomes {
        Becomes::Written => {
            file.allocate(journal, 0..bytes.len() as u64, KeepSize::No, now)?;
        }
        Becomes::Unwritten => drop(file.write_at(journal, 0, &bytes, now)?),
    }
    let blocks = map_blocks(journal.geometry(), ForkKind::Data);
    let mut tx = journal.begin(TransactionKind::Write, blocks)?;
    tx.join(file.log_item());
    file.convert(&mut tx, MIDDLE, becomes == Becomes::Unwritten)?;
    tx.roll()?;
    journal.force_all()?;
    let seen = crash();
    tx.commit()?;
    Ok(seen)
}
