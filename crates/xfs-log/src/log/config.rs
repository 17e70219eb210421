//! The configuration of a log: its options, their defaults, and the settings that a dirty log
//! prescribes.

use xfs_format::BASIC_BLOCK_BYTES;

use crate::cil::hard_bytes;
use crate::device::LogGeometry;
use crate::space::Urgency;
use crate::state::LogState;
use crate::unit::RecordLayout;

/// The least size of an in-core log buffer in bytes. It is the default for a small log.
pub const MIN_BUFFER_BYTES: u32 = 32 << 10;

/// The greatest size of an in-core log buffer in bytes.
pub const MAX_BUFFER_BYTES: u32 = xfs_format::log_record::MAX_RECORD_BYTES;

/// The default buffer size in bytes of logs that are not small. Filling a record takes a lock of
/// the volume, so larger buffers take the lock less often. A force of a few bytes writes the
/// headers for a whole buffer, so smaller buffers make such forces cheaper.
const DEFAULT_BUFFER_BYTES: u32 = 128 << 10;

/// The least buffer size in bytes that a log keeps from its previous writer when it is opened
/// dirty. The kernel may have written the log with smaller buffers than [`MIN_BUFFER_BYTES`].
const MIN_FOUND_BUFFER_BYTES: u32 = 16 << 10;

/// The size in bytes below which a log is small.
const SMALL_LOG_BYTES: u64 = 32 << 20;

/// The greatest soft limit of a checkpoint in bytes, however large the log is.
const MAX_CHECKPOINT_BYTES: u64 = 32 << 20;

/// The least soft limit of a checkpoint in bytes if memory limits it. Each checkpoint flushes the
/// device.
const MIN_CHECKPOINT_BYTES: u64 = 256 << 10;

/// The settings of a log that is opened for writing.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The size of an in-core log buffer in bytes, from [`MIN_BUFFER_BYTES`] to
    /// [`MAX_BUFFER_BYTES`]. A log that is dirty when it is opened keeps the buffer size with which
    /// it was written.
    pub buffer_bytes: u32,
    /// Number of in-core log buffers, at least 2 and at most 8. More are not possible, because
    /// recovery looks for holes only in the last 8 records.
    pub buffers: usize,
    /// Number of slots of the committed item list. With 1, all threads share a single list.
    pub slots: usize,
    /// The greatest number of bytes that a chain of transactions reserves at once. If the log is
    /// small in relation to this number, slots cache no log space.
    pub largest_bytes: u64,
    /// The size in bytes at which a checkpoint is written without being forced. An eighth of the
    /// log, or 32 MiB, is used instead if that is less.
    pub checkpoint_bytes: u64,
    /// The number of items above which items are written to their home locations although the log
    /// has room. An item keeps memory until then: its buffer, or the image of its inode. By default
    /// only log space decides.
    pub most_items: u64,
    /// Number of threads that write checkpoints. With 0, the threads that commit or wait write the
    /// checkpoints, and no thread of the log writes items to their home locations.
    pub threads: usize,
    /// Whether the written bytes depend only on the commits and their order, and not on thread
    /// scheduling. This property holds only if the log has one slot (`slots`), and commits come one
    /// after another. At most one thread then writes checkpoints, also if `threads` is greater.
    /// Commits, and no timers, decide when a checkpoint is written (docs/internals/log.md, "By
    /// count").
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
            most_items: u64::MAX,
            threads: if processors < 4 { 1 } else { 2 },
            by_count: false,
        }
    }

    /// Returns the default configuration of a log for which the same commits must give the same
    /// bytes on any machine.
    #[must_use]
    pub fn by_count(geometry: &LogGeometry) -> Self {
        Self { slots: 1, threads: 1, by_count: true, ..Self::new(geometry) }
    }

    /// Returns this configuration, changed so that metadata that is not at its home location takes
    /// about `bytes` of memory at most. Each item keeps `item_bytes` of memory, on average.
    ///
    /// The open checkpoint and the one that is being written keep items too. A checkpoint therefore
    /// gets a 16th of the memory, which its items and their vectors exceed several times.
    #[must_use]
    pub fn with_memory(self, bytes: u64, item_bytes: u64) -> Self {
        let checkpoint_bytes = self.checkpoint_bytes.min((bytes / 16).max(MIN_CHECKPOINT_BYTES));
        Self { checkpoint_bytes, most_items: bytes / item_bytes.max(1), ..self }
    }

    /// Returns the size in bytes at which a checkpoint is written without a request. `log_bytes` is
    /// the size of the log.
    pub(super) fn soft_bytes(&self, log_bytes: u64) -> u64 {
        self.checkpoint_bytes.min(log_bytes / 8).min(MAX_CHECKPOINT_BYTES)
    }

    /// Returns the number of bytes that tail pushes keep free in a log of `log_bytes` bytes. The
    /// result is at least the sum of a checkpoint at its hard limit and the eighth of the log that
    /// new transactions may not take. With less, new transactions would always wait for space in a
    /// log that has filled once, however fast items are written.
    pub(super) fn free_bytes(&self, log_bytes: u64) -> u64 {
        let checkpoint = hard_bytes(self.soft_bytes(log_bytes));
        (checkpoint + Urgency::Begin.kept_back(log_bytes)).max(log_bytes / 4)
    }

    /// Returns the layout of records. A dirty log keeps its buffer size, because recovery takes the
    /// length of all record headers from the first record.
    ///
    /// # Panics
    ///
    /// Panics if a setting is outside the limits that its documentation names.
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
