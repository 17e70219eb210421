//! Batches of rows for one of the two compared states. They come from the scan of an image, which
//! runs in threads of its own, or from the Parquet file of an earlier scan.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, Scope, ScopedJoinHandle};

#[cfg(feature = "parquet")]
use super::dataset::ScanRows;
use super::entries::EntryBatch;
use super::{DiffError, DiffInput, DiffOptions, State};
use crate::options::{ScanOptions, Spill};
use crate::output::{Header, Output};
use crate::source::ScanSource;
use crate::{Field, Fields, ScanError, scan};

/// Number of batches that may wait in the channel from the scan to the merge. A batch has the rows
/// of a unit of work.
const WAITING_BATCHES: usize = 2;
const _: () = assert!(WAITING_BATCHES <= 8, "I2 of `xfs_scan::diff`: few batches wait");

/// The source of the batches of one of the two compared states.
pub(super) enum LiveScan<'a> {
    Image {
        batches: Receiver<Box<EntryBatch>>,
        /// The thread that scans. `None` after it was joined.
        scanner: Option<ScopedJoinHandle<'a, Result<(), ScanError>>>,
    },
    #[cfg(feature = "parquet")]
    Scan(Box<ScanRows>),
}

impl<'a> LiveScan<'a> {
    /// Starts to read the rows of a state. An image is scanned by a thread of `scope`.
    pub(super) fn start<'e: 'a>(
        scope: &'a Scope<'a, 'e>,
        state: State,
        input: DiffInput,
        options: &DiffOptions,
        spill: Spill,
    ) -> Result<Self, DiffError> {
        let source = match input {
            DiffInput::Image(source) => source,
            #[cfg(feature = "parquet")]
            DiffInput::Scan(file) => {
                let error = |error| file_error(state, error);
                return Ok(Self::Scan(Box::new(file.rows().map_err(error)?.of_state(state))));
            }
        };
        #[cfg(not(feature = "parquet"))]
        let _ = state;
        let fields = [Field::Paths, Field::Parents, Field::ParentGenerations, Field::Xattrs];
        let options = ScanOptions {
            fields: fields.into_iter().collect::<Fields>(),
            threads: options.threads,
            memory_bytes: options.memory_bytes / 2,
            spill,
            cancel: options.cancel.clone(),
            ..ScanOptions::default()
        };
        let (sender, batches) = sync_channel(WAITING_BATCHES);
        let scanner = Builder::new()
            .spawn_scoped(scope, move || run(&source, &options, sender))
            .map_err(DiffError::Thread)?;
        Ok(Self::Image { batches, scanner: Some(scanner) })
    }

    /// Returns the next batch; `None` at the end.
    pub(super) fn next_batch(&mut self) -> Result<Option<EntryBatch>, DiffError> {
        match self {
            Self::Image { batches, scanner } => match batches.recv() {
                Ok(batch) => Ok(Some(*batch)),
                // The scan has ended, completely or with an error.
                Err(_) => match scanner.take().map(ScopedJoinHandle::join) {
                    None | Some(Ok(Ok(()))) => Ok(None),
                    Some(Ok(Err(error))) => Err(error.into()),
                    Some(Err(_)) => Err(ScanError::WorkerLost.into()),
                },
            },
            #[cfg(feature = "parquet")]
            Self::Scan(rows) => rows.next_batch(),
        }
    }
}

#[cfg(feature = "parquet")]
fn file_error(state: State, error: super::dataset::ScanFileError) -> DiffError {
    error.of_state(state)
}

fn run(
    source: &ScanSource,
    options: &ScanOptions,
    sender: SyncSender<Box<EntryBatch>>,
) -> Result<(), ScanError> {
    let output = Output::of_entries(Header { scan_time: 0 }, sender);
    scan(std::slice::from_ref(source), options, Some(output)).map(drop)
}
