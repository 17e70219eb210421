//! How a log is run: what may be chosen, what suits a log, and what one that is dirty prescribes.

use xfs_format::BASIC_BLOCK_BYTES;

use crate::cil::hard_bytes;
use crate::device::LogGeometry;
use crate::space::Urgency;
use crate::state::LogState;
use crate::unit::RecordLayout;

/// The smallest in-core log buffer; the default of a small log.
pub const MIN_BUFFER_BYTES: u32 = 32 << 10;

/// The largest.
pub const MAX_BUFFER_BYTES: u32 = xfs_format::log_record::MAX_RECORD_BYTES;

/// The default of other logs. A record is what the volume shares when it is full, and small forces
/// take a header for all of it.
const USUAL_BUFFER_BYTES: u32 = 128 << 10;

/// The smallest that another writer of the log may have had.
const LEAST_BUFFER_BYTES: u32 = 16 << 10;

/// Bytes of a small log.
const SMALL_LOG_BYTES: u64 = 32 << 20;

/// A checkpoint never grows beyond what this much log allows, however large the log is.
const MOST_CHECKPOINT_BYTES: u64 = 32 << 20;

/// How a log is run.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Bytes of an in-core log buffer, from [`MIN_BUFFER_BYTES`] to [`MAX_BUFFER_BYTES`]. A log that is
    /// dirty when it is opened keeps to the buffers that it was written with.
    pub buffer_bytes: u32,
    /// How many there are, at least 2 and at most 8: recovery looks for holes no further back.
    pub buffers: usize,
    /// Slots of the committed item list; 1 is a single list that all threads share.
    pub slots: usize,
    /// The largest number of bytes that a transaction reserves at once, all steps together. On a log
    /// that is small beside it slots keep no grant.
    pub largest_bytes: u64,
    /// Bytes at which a checkpoint is written without being forced. It is so at an eighth of the log
    /// and at 32 MiB in any case.
    pub checkpoint_bytes: u64,
    /// Threads that write checkpoints. Without any, commits and waiters do it themselves, and no
    /// thread writes items in place.
    pub threads: usize,
    /// Whether the bytes of the log, and of what is written in place, follow from the commits and their
    /// order alone, and not from when a thread gets its turn. Then one thread at most writes checkpoints, whatever
    /// `threads` says, and commits decide everything (docs/internals/log.md, "By count"). That holds for commits that
    /// come one after the other; it takes one slot.
    pub by_count: bool,
}

impl LogConfig {
    /// What suits a log that lies like this.
    #[must_use]
    pub fn new(geometry: &LogGeometry) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let log_bytes = u64::from(geometry.length_blocks) * u64::from(BASIC_BLOCK_BYTES);
        let small = log_bytes < SMALL_LOG_BYTES;
        let usual = if small { MIN_BUFFER_BYTES } else { USUAL_BUFFER_BYTES };
        Self {
            buffer_bytes: geometry.stripe_unit_bytes.clamp(usual, MAX_BUFFER_BYTES),
            buffers: 8,
            slots: processors.saturating_mul(2),
            largest_bytes: 512 << 10,
            checkpoint_bytes: u64::MAX,
            threads: if processors < 4 { 1 } else { 2 },
            by_count: false,
        }
    }

    /// What suits a log that lies like this where the same commits are to give the same bytes, on any machine.
    #[must_use]
    pub fn by_count(geometry: &LogGeometry) -> Self {
        Self { slots: 1, threads: 1, by_count: true, ..Self::new(geometry) }
    }

    /// The size at which a checkpoint of a log of so many bytes is written unasked.
    pub(super) fn soft_bytes(&self, log_bytes: u64) -> u64 {
        self.checkpoint_bytes.min(log_bytes / 8).min(MOST_CHECKPOINT_BYTES)
    }

    /// How much of a log of so many bytes is kept free by writing items in place. With less than a checkpoint
    /// at its hard limit, and what is kept back from new transactions, these would wait for space all the time
    /// in a log that has filled once, however fast items get in place.
    pub(super) fn free_bytes(&self, log_bytes: u64) -> u64 {
        let checkpoint = hard_bytes(self.soft_bytes(log_bytes));
        (checkpoint + Urgency::Begin.kept_back(log_bytes)).max(log_bytes / 4)
    }

    /// How records are laid out. A dirty log goes on with the buffers it has: who replays it takes the
    /// length of all record headers from the first one.
    ///
    /// # Panics
    ///
    /// If the configuration lies outside its limits.
    pub(super) fn layout(&self, geometry: &LogGeometry, state: &LogState) -> RecordLayout {
        let buffer_range = MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES;
        assert!(buffer_range.contains(&self.buffer_bytes), "a log buffer's size");
        assert!((2..=8).contains(&self.buffers), "the number of log buffers");
        let roundoff_bytes = geometry
            .stripe_unit_bytes
            .max(geometry.sector_bytes)
            .next_multiple_of(BASIC_BLOCK_BYTES);
        let found = state.buffer_bytes.clamp(LEAST_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let buffer_bytes = if state.clean { self.buffer_bytes } else { found.max(roundoff_bytes) };
        RecordLayout { buffer_bytes, roundoff_bytes }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
