//! The configuration of a log: its options, their defaults, and what a dirty log prescribes.

use xfs_format::BASIC_BLOCK_BYTES;

use crate::cil::hard_bytes;
use crate::device::LogGeometry;
use crate::space::Urgency;
use crate::state::LogState;
use crate::unit::RecordLayout;

/// The smallest in-core log buffer, which is the default of a small log.
pub const MIN_BUFFER_BYTES: u32 = 32 << 10;

/// The largest in-core log buffer.
pub const MAX_BUFFER_BYTES: u32 = xfs_format::log_record::MAX_RECORD_BYTES;

/// The default buffer of logs that are not small. Filling a record takes a lock of the volume,
/// which favours large records. A small force writes headers for the whole buffer, which favours
/// small ones.
const DEFAULT_BUFFER_BYTES: u32 = 128 << 10;

/// The smallest buffer that another writer of the log may have used.
const MIN_FOUND_BUFFER_BYTES: u32 = 16 << 10;

/// The size below which a log is small.
const SMALL_LOG_BYTES: u64 = 32 << 20;

/// The largest soft limit of a checkpoint, however large the log is.
const MAX_CHECKPOINT_BYTES: u64 = 32 << 20;

/// The configuration of a log.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The length of an in-core log buffer in bytes, from [`MIN_BUFFER_BYTES`] to
    /// [`MAX_BUFFER_BYTES`]. A log that is dirty when it is opened keeps the buffer size that it
    /// was written with.
    pub buffer_bytes: u32,
    /// The number of buffers, at least 2 and at most 8: recovery looks for holes no further back.
    pub buffers: usize,
    /// The number of slots of the committed item list; 1 is a single list that all threads share.
    pub slots: usize,
    /// The largest number of bytes that a transaction reserves at once, all steps together. If the
    /// log is small in relation to this number, slots cache no grant.
    pub largest_bytes: u64,
    /// The size in bytes at which a checkpoint is written without being forced. The limit is also
    /// an eighth of the log and 32 MiB, whichever is less.
    pub checkpoint_bytes: u64,
    /// The number of threads that write checkpoints. With 0, commits and waiters write them, and no
    /// thread writes items in place.
    pub threads: usize,
    /// Whether the bytes of the log, and of items written in place, follow from the commits and
    /// their order alone, and not from thread scheduling. Then at most one thread writes
    /// checkpoints, whatever `threads` says, and commits make all decisions (docs/internals/log.md,
    /// "By count"). That holds for commits that come one after another, with one slot.
    pub by_count: bool,
}

impl LogConfig {
    /// Returns the default configuration of a log with this geometry.
    #[must_use]
    pub fn new(geometry: &LogGeometry) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let log_bytes = u64::from(geometry.length_blocks) * u64::from(BASIC_BLOCK_BYTES);
        let small = log_bytes < SMALL_LOG_BYTES;
        let usual = if small { MIN_BUFFER_BYTES } else { DEFAULT_BUFFER_BYTES };
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

    /// Returns the default configuration where the same commits must give the same bytes on any
    /// machine.
    #[must_use]
    pub fn by_count(geometry: &LogGeometry) -> Self {
        Self { slots: 1, threads: 1, by_count: true, ..Self::new(geometry) }
    }

    /// Returns the size at which a checkpoint is written without a request, in a log of this many
    /// bytes.
    pub(super) fn soft_bytes(&self, log_bytes: u64) -> u64 {
        self.checkpoint_bytes.min(log_bytes / 8).min(MAX_CHECKPOINT_BYTES)
    }

    /// Returns how much of a log of this many bytes is kept free by writing items in place. The
    /// result is at least a checkpoint at its hard limit and the bytes that new transactions leave.
    /// With less, new transactions would wait for space all the time in a log that has filled once,
    /// however fast items get in place.
    pub(super) fn free_bytes(&self, log_bytes: u64) -> u64 {
        let checkpoint = hard_bytes(self.soft_bytes(log_bytes));
        (checkpoint + Urgency::Begin.kept_back(log_bytes)).max(log_bytes / 4)
    }

    /// Returns the layout of records. A dirty log keeps its buffer size, because recovery takes the
    /// length of all record headers from the first one.
    ///
    /// # Panics
    ///
    /// Panics if the configuration is outside its limits.
    pub(super) fn layout(&self, geometry: &LogGeometry, state: &LogState) -> RecordLayout {
        let buffer_range = MIN_BUFFER_BYTES..=MAX_BUFFER_BYTES;
        assert!(buffer_range.contains(&self.buffer_bytes), "buffer_bytes is outside its limits");
        assert!((2..=8).contains(&self.buffers), "buffers is outside its limits");
        let roundoff_bytes = geometry
            .stripe_unit_bytes
            .max(geometry.sector_bytes)
            .next_multiple_of(BASIC_BLOCK_BYTES);
        let found = state.buffer_bytes.clamp(MIN_FOUND_BUFFER_BYTES, MAX_BUFFER_BYTES);
        let buffer_bytes = if state.clean { self.buffer_bytes } else { found.max(roundoff_bytes) };
        RecordLayout { buffer_bytes, roundoff_bytes }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
