//! The memory limit of a scan. Rows and links that do not fit in memory while they wait go to a
//! spill file.
//!
//! Owns: the accounting of waiting data, and the spill file. Does **not** own: small allocations
//! (read buffers, the plan, pieces on their way to the output), for which a fixed part of the limit
//! is kept free.
//!
//! The spill file has no name, so it disappears when the scan ends, in whatever way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use xfs_sync::{AtomicU64, Mutex, Ordering, Volume};
use zerocopy::IntoBytes;

use crate::ScanError;
use crate::batch::Batch;
use crate::options::Spill;
use crate::packed;

/// A range of bytes of the spill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpillRange {
    offset: u64,
    length: usize,
}

/// Counts the memory of data that wait for a later step of the scan, and writes data that do not
/// fit to the spill file.
///
/// Half of the memory is for rows and links, which can be spilled. The other half is for tables,
/// which cannot.
pub(crate) struct Memory {
    limit: u64,
    used: AtomicU64<Volume>,
    table_limit: u64,
    tables: AtomicU64<Volume>,
    spill: Mutex<Spill, Volume>,
    file_end: AtomicU64<Volume>,
}

/// A batch of rows that waits for the next step of the scan. The rows are packed.
pub(crate) enum StoredBatch {
    /// The batch is in memory.
    Kept {
        /// The packed rows.
        rows: Vec<u64>,
        /// The arena of the batch: the bytes of its names.
        arena: Vec<u8>,
    },
    /// The batch is in the spill file.
    Spilled {
        /// The range of the spill file that holds the packed rows.
        rows: SpillRange,
        /// The range of the spill file that holds the arena of the batch.
        arena: SpillRange,
    },
}

impl Memory {
    /// Creates the memory accounting of a scan, with a limit of `limit` bytes.
    pub(crate) fn new(limit: u64, spill: Spill) -> Self {
        Self {
            limit: limit / 2,
            used: AtomicU64::new(0),
            table_limit: limit - limit / 2,
            tables: AtomicU64::new(0),
            spill: Mutex::new(spill),
            file_end: AtomicU64::new(0),
        }
    }

    /// Returns the number of bytes written to the spill file.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.file_end.load(Ordering::Relaxed)
    }

    /// Reserves `bytes` bytes of memory for waiting data. Returns `false`, and reserves nothing, if
    /// that would exceed the memory limit.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit;
        if !fits {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Reserves `bytes` bytes of memory for a table until the scan of the volume ends. Returns an
    /// error if that would exceed the memory limit.
    pub(crate) fn reserve_table(&self, bytes: usize) -> Result<(), ScanError> {
        let before = self.tables.fetch_add(bytes as u64, Ordering::Relaxed);
        let needed = before.saturating_add(bytes as u64);
        if needed > self.table_limit {
            return Err(ScanError::TablesTooLarge { needed, allowed: self.table_limit });
        }
        Ok(())
    }

    /// Releases `bytes` bytes that `reserve` has reserved.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Stores a copy of a batch of rows: in memory if the memory limit allows it, otherwise in the
    /// spill file.
    pub(crate) fn store(&self, batch: &Batch) -> Result<StoredBatch, ScanError> {
        let rows = packed::pack(&batch.rows);
        if self.reserve(kept_bytes(&rows, &batch.arena)) {
            return Ok(StoredBatch::Kept { rows, arena: batch.arena.clone() });
        }
        let rows = self.spill(rows.as_bytes())?;
        let arena = self.spill(&batch.arena)?;
        Ok(StoredBatch::Spilled { rows, arena })
    }

    /// Returns a stored batch, which is read from the spill file if it was spilled. `count` is the
    /// number of its rows.
    pub(crate) fn load(&self, stored: StoredBatch, count: usize) -> Result<Batch, ScanError> {
        let mut batch = Batch::default();
        batch.rows.reserve_exact(count);
        match stored {
            StoredBatch::Kept { rows, arena } => {
                self.release(kept_bytes(&rows, &arena));
                packed::unpack(&rows, &mut batch.rows);
                batch.arena = arena;
            }
            StoredBatch::Spilled { rows, arena } => {
                let mut words = vec![0_u64; rows.length / size_of::<u64>()];
                self.fill(rows, words.as_mut_bytes())?;
                packed::unpack(&words, &mut batch.rows);
                self.append(arena, &mut batch.arena)?;
            }
        }
        Ok(batch)
    }

    /// Appends bytes to the spill file. Returns their range.
    pub(crate) fn spill(&self, bytes: &[u8]) -> Result<SpillRange, ScanError> {
        let offset = self.file_end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        let file = self.file().map_err(ScanError::Spill)?;
        file.write_all_at(bytes, offset).map_err(ScanError::Spill)?;
        Ok(SpillRange { offset, length: bytes.len() })
    }

    /// Reads a range of the spill file and appends it to `out`.
    pub(crate) fn append(&self, from: SpillRange, out: &mut Vec<u8>) -> Result<(), ScanError> {
        let start = out.len();
        out.resize(start + from.length, 0);
        self.fill(from, out.get_mut(start..).unwrap_or_default())
    }

    fn fill(&self, from: SpillRange, out: &mut [u8]) -> Result<(), ScanError> {
        let file = self.file().map_err(ScanError::Spill)?;
        file.read_exact_at(out, from.offset).map_err(ScanError::Spill)
    }

    fn file(&self) -> io::Result<Arc<File>> {
        let mut spill = self.spill.lock();
        let file = match &*spill {
            Spill::To(file) => return Ok(Arc::clone(file)),
            Spill::In(directory) => Arc::new(tempfile::tempfile_in(directory)?),
        };
        *spill = Spill::To(Arc::clone(&file));
        Ok(file)
    }
}

/// Returns the number of bytes of memory that a stored batch holds.
const fn kept_bytes(rows: &[u64], arena: &[u8]) -> usize {
    size_of_val(rows) + arena.len()
}

#[cfg(test)]
mod tests;
