//! Hashes of contents: which files get one.
//!
//! Owns: the choice of the files, by the sizes of all files of the volume. Does **not** own:
//! reading and hashing contents, which the caller does ([`ContentsHasher`]).

use std::collections::HashMap;
use std::sync::Arc;

use xfs_format::inode::FileType;

use crate::batch::Batch;
use crate::memory::Memory;
use crate::row::Row;
use crate::{Finding, FindingCode, ScanError};

/// The memory of one size in the table, in bytes, with the room that the table keeps free.
const SIZE_BYTES: usize = 24;

/// Hashes the contents of files of one volume, for the column `hash`.
pub trait ContentsHasher: Send + Sync {
    /// Returns the hash of the contents of a regular file as text. Workers call it at the same
    /// time.
    ///
    /// # Errors
    ///
    /// See [`HashFailure`].
    fn hash(&self, ino: u64) -> Result<String, HashFailure>;
}

/// Why a file has no hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashFailure {
    /// The scan ends with [`Cancelled`](ScanError::Cancelled).
    Cancelled,
    /// The contents cannot be read. The row has no hash, and this is a finding.
    Unreadable {
        /// The kind of the finding.
        code: FindingCode,
        /// The message of the finding.
        message: String,
    },
}

/// The files whose contents are hashed. Empty files never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hashed {
    /// Files whose size another file of the volume has too.
    Repeated,
    /// All files.
    All,
}

/// The hasher of a volume, and the files that it gets.
#[derive(Clone)]
pub(crate) struct SourceHasher {
    pub(crate) hasher: Arc<dyn ContentsHasher>,
    pub(crate) hashed: Hashed,
}

/// The sizes of the files of a volume, each with whether it occurs more than once.
#[derive(Debug, Default)]
pub(crate) struct FileSizes(HashMap<u64, bool>);

impl FileSizes {
    /// Adds the sizes of some files.
    pub(crate) fn add(&mut self, sizes: &[u64], memory: &Memory) -> Result<(), ScanError> {
        let before = self.0.len();
        for size in sizes {
            self.0.entry(*size).and_modify(|is_repeated| *is_repeated = true).or_insert(false);
        }
        memory.reserve_table((self.0.len() - before) * SIZE_BYTES)
    }

    fn is_repeated(&self, size: u64) -> bool {
        self.0.get(&size).is_some_and(|is_repeated| *is_repeated)
    }
}

/// Returns the sizes of the files of a batch that have contents.
pub(crate) fn sizes_of(batch: &Batch) -> Vec<u64> {
    batch.rows.iter().filter(|row| has_contents(row)).map(|row| row.size).collect()
}

fn has_contents(row: &Row) -> bool {
    row.file_type() == Some(FileType::Regular) && row.size > 0
}

/// The hashing of a volume's files, once all their sizes are known.
pub(crate) struct Hashing<'a> {
    pub(crate) source: &'a SourceHasher,
    pub(crate) sizes: FileSizes,
}

impl Hashing<'_> {
    /// Returns the hash of an inode's contents. `None` if it gets none, or if the contents cannot
    /// be read, which is then added to the findings.
    pub(crate) fn hash(
        &self,
        row: &Row,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<String>, ScanError> {
        let is_wanted = match self.source.hashed {
            Hashed::All => true,
            Hashed::Repeated => self.sizes.is_repeated(row.size),
        };
        if !has_contents(row) || !is_wanted {
            return Ok(None);
        }
        match self.source.hasher.hash(row.ino) {
            Ok(hash) => Ok(Some(hash)),
            Err(HashFailure::Cancelled) => Err(ScanError::Cancelled),
            Err(HashFailure::Unreadable { code, message }) => {
                findings.push(Finding::about(code, row.ino, message));
                Ok(None)
            }
        }
    }
}
