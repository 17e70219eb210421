//! The differences between two states of a volume: two scans, two images, or one of each.
//!
//! Owns: merging the rows of both states by inode number and generation, the kinds of changes, and
//! the output of changes. Does **not** own: reading contents, which the caller may do
//! ([`ContentsReader`]).
//!
//! ```text
//!   image A ──> scan (its threads) ──> batches ──┐
//!                                                ├──> merge ──> compare ──> DiffWriter
//!   scan B (Parquet) ─────────────────> batches ─┘
//! ```
//!
//! # Invariants
//!
//! - **I1** The rows of a state ascend strictly by inode number. A scan that breaks this order is
//!   refused by name, because the merge would report its rows as created and removed.
//! - **I2** The merge holds one batch of each state, and some batches wait in the channel of each
//!   scan. So its memory does not depend on the number of inodes.
//! - **I3** An inode number with another generation is another inode: it was removed and created.

mod changes;
mod cursor;
#[cfg(feature = "parquet")]
mod dataset;
mod entries;
mod live;
mod output;

use std::sync::Arc;
use std::thread;

use uuid::Uuid;

pub use changes::{Aspect, Aspects, Change, ChangeKind};
#[cfg(feature = "parquet")]
pub use dataset::{ScanFile, ScanFileError};
pub use entries::EntryView;
pub(crate) use entries::{EntryBatch, EntryEncoder};
pub use output::{DIFF_SCHEMA_VERSION, DiffFormat, DiffWriter};

use crate::finding::Finding;
use crate::options::Spill;
use crate::source::ScanSource;
use crate::{FindingCode, ScanError};
use changes::compare;
use cursor::Cursor;
use live::LiveScan;

/// One of the two compared states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// The first state, before the changes.
    A,
    /// The second state, after the changes.
    B,
}

impl State {
    /// Returns the word for this state (the first or the second one) in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
        }
    }
}

/// The source of the rows of a state.
pub enum DiffInput {
    /// The volume of an image, which is scanned.
    Image(Box<ScanSource>),
    /// The Parquet file of a scan.
    #[cfg(feature = "parquet")]
    Scan(Box<ScanFile>),
}

impl DiffInput {
    /// Returns the UUID of the volume.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        match self {
            Self::Image(source) => source.volume.uuid,
            #[cfg(feature = "parquet")]
            Self::Scan(file) => file.uuid(),
        }
    }

    /// Returns whether the state is an image, so that the contents of files can be read.
    #[must_use]
    pub const fn is_image(&self) -> bool {
        matches!(self, Self::Image(_))
    }
}

/// A problem of one state: unreadable or invalid data, because of which changes may be missing or
/// wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffFinding {
    /// The kind of the problem.
    pub code: FindingCode,
    /// The inode, or the first of `inode_count` inodes that have no row, if known.
    pub ino: Option<u64>,
    /// Number of inodes without a row.
    pub inode_count: u32,
    /// Description of the problem.
    pub message: String,
}

impl From<Finding> for DiffFinding {
    fn from(finding: Finding) -> Self {
        let Finding { code, ino, inode_count, message, .. } = finding;
        Self { code, ino, inode_count, message }
    }
}

/// The result of a [`ContentsReader`] that compared one inode in both states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentsAnswer {
    /// Whether the bytes of both states are equal. `true` for an inode that is not a regular file.
    pub has_same_bytes: bool,
    /// Whether the names and values of the extended attributes of both states are equal.
    pub has_same_attributes: bool,
}

/// A function of the caller that compares the contents and the extended attributes of one inode in
/// both states. Its argument is the inode number.
pub type ContentsReader<'a> = dyn FnMut(u64) -> Result<ContentsAnswer, (State, DiffFinding)> + 'a;

/// The options of a comparison.
#[derive(Clone)]
pub struct DiffOptions {
    /// Whether to report inodes whose path changed only because a directory above them moved.
    pub below_moved: bool,
    /// Whether the two states may belong to volumes with different UUIDs. If `false`, this is an
    /// error.
    pub any_volume: bool,
    /// Number of threads of each scan; 0 means one per processor.
    pub threads: usize,
    /// Memory limit of both scans together in bytes.
    pub memory_bytes: u64,
    /// The destinations of rows that do not fit in memory, one for each state.
    pub spill: [Spill; 2],
    /// The function that each scan calls before each unit of work. If it returns `true`, the
    /// comparison ends early.
    pub cancel: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

/// The number of changes of each kind, and of problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiffReport {
    /// Number of changes of each kind, in the order of [`ChangeKind::ALL`].
    pub changes: [u64; ChangeKind::ALL.len()],
    /// Number of inodes that both states have.
    pub common: u64,
    /// Number of findings of both states.
    pub findings: u64,
    /// Number of findings that say that a volume is damaged.
    pub corruptions: u64,
}

impl DiffReport {
    /// Returns the number of changes of a kind.
    #[must_use]
    pub fn count(&self, kind: ChangeKind) -> u64 {
        self.changes.get(kind as usize).copied().unwrap_or_default()
    }

    /// Returns the number of changes of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.changes.iter().sum()
    }
}

/// The reason why a comparison ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// The scan of an image or the output failed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A file given as one of the two states is not a scan that can be compared.
    #[error("{reason}")]
    NotComparable {
        /// The state for which the file was given.
        state: State,
        /// The reason in words.
        reason: String,
    },
    /// The Parquet file of a scan could not be read.
    #[error("{error}")]
    Read {
        /// The state for which the file was given.
        state: State,
        /// The error of reading.
        error: std::io::Error,
    },
    /// The rows of a state are not in the order of inode numbers.
    #[error("the rows are not in the order of inodes: inode {ino} follows inode {previous}")]
    Unordered {
        /// The state whose rows are out of order.
        state: State,
        /// The inode of the row that is out of order.
        ino: u64,
        /// The inode of the row before it.
        previous: u64,
    },
    /// The states belong to two volumes.
    #[error("these are two volumes: the UUID of the first is {a}, that of the second {b}")]
    OtherVolume {
        /// UUID of the first state.
        a: Uuid,
        /// UUID of the second state.
        b: Uuid,
    },
    /// A thread for the scan of an image could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// Compares two states and writes the changes from `a` to `b`.
///
/// # Errors
///
/// An error that keeps the output from being complete. Damage of a volume is no error: it becomes
/// findings of the output and is counted in the report.
pub fn diff<'c>(
    a: DiffInput,
    b: DiffInput,
    options: &DiffOptions,
    contents: Option<&'c mut ContentsReader<'c>>,
    mut writer: DiffWriter<'_>,
) -> Result<DiffReport, DiffError> {
    let (uuid_a, uuid_b) = (a.uuid(), b.uuid());
    if uuid_a != uuid_b && !options.any_volume {
        return Err(DiffError::OtherVolume { a: uuid_a, b: uuid_b });
    }
    let report = thread::scope(|scope| {
        let [spill_a, spill_b] = options.spill.clone();
        let mut merge = Merge {
            a: Cursor::new(State::A, LiveScan::start(scope, State::A, a, options, spill_a)?),
            b: Cursor::new(State::B, LiveScan::start(scope, State::B, b, options, spill_b)?),
            options,
            contents,
            report: DiffReport::default(),
        };
        merge.run(&mut writer)?;
        Ok::<_, DiffError>(merge.report)
    })?;
    writer.finish(&report)?;
    Ok(report)
}

/// The merge of both states.
struct Merge<'s, 'c> {
    a: Cursor<'s>,
    b: Cursor<'s>,
    options: &'s DiffOptions,
    contents: Option<&'c mut ContentsReader<'c>>,
    report: DiffReport,
}

impl Merge<'_, '_> {
    fn run(&mut self, writer: &mut DiffWriter<'_>) -> Result<(), DiffError> {
        loop {
            self.a.load()?;
            self.b.load()?;
            for cursor in [&mut self.a, &mut self.b] {
                for finding in cursor.take_findings() {
                    note(&mut self.report, writer, cursor.state(), &finding)?;
                }
            }
            match (self.a.entry(), self.b.entry()) {
                (None, None) => return Ok(()),
                (Some(old), Some(new)) if old.row().ino == new.row().ino => {
                    self.compare(writer)?;
                    self.a.step();
                    self.b.step();
                }
                (Some(old), new) if new.is_none_or(|new| old.row().ino < new.row().ino) => {
                    write(&mut self.report, writer, &Change::removed(old))?;
                    self.a.step();
                }
                (_, Some(new)) => {
                    write(&mut self.report, writer, &Change::created(new))?;
                    self.b.step();
                }
                (Some(_), None) => unreachable!("the arm of removed inodes takes these"),
            }
        }
    }

    /// Compares the two current entries, which have the same inode number.
    fn compare(&mut self, writer: &mut DiffWriter<'_>) -> Result<(), DiffError> {
        let Self { a, b, options, contents, report } = self;
        let (Some(old), Some(new)) = (a.entry(), b.entry()) else { return Ok(()) };
        // I3: another generation is another inode.
        if old.row().generation != new.row().generation {
            write(report, writer, &Change::removed(old))?;
            return write(report, writer, &Change::created(new));
        }
        report.common += 1;
        let mut compared = compare(old, new);
        if compared.has_evidence
            && let Some(contents) = contents
        {
            match contents(new.row().ino) {
                Ok(answer) => compared.settle(answer),
                Err((state, finding)) => note(report, writer, state, &finding)?,
            }
        }
        match compared.into_change(old, new, options.below_moved) {
            Some(change) => write(report, writer, &change),
            None => Ok(()),
        }
    }
}

fn write(
    report: &mut DiffReport,
    writer: &mut DiffWriter<'_>,
    change: &Change<'_>,
) -> Result<(), DiffError> {
    if let Some(count) = report.changes.get_mut(change.kind as usize) {
        *count += 1;
    }
    writer.change(change).map_err(DiffError::Scan)
}

fn note(
    report: &mut DiffReport,
    writer: &mut DiffWriter<'_>,
    state: State,
    finding: &DiffFinding,
) -> Result<(), DiffError> {
    report.findings += 1;
    report.corruptions += u64::from(finding.code.is_corruption());
    writer.finding(state, finding).map_err(DiffError::Scan)
}

#[cfg(test)]
mod tests;
