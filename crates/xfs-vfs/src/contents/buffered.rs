//! The buffer that joins small writes to one file before they go to the device.

use xfs_format::FileBlock;
use xfs_format::timestamp::Timestamp;
use xfs_trans::{BlockReservation, QuotaReservation};

/// The most buffered bytes of a file. A buffer does not continue past a file offset that is a
/// multiple of this number.
pub(crate) const BUFFER_BYTES: u64 = 1 << 20;

/// Returns the byte offset at which a buffer that begins at `offset` must end.
pub(crate) const fn end_of_buffer(offset: u64) -> u64 {
    (offset / BUFFER_BYTES + 1).saturating_mul(BUFFER_BYTES)
}

/// The buffered bytes of a file: they were written, and are not on the device yet.
pub(crate) struct Buffered {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) now: Timestamp,
    /// The first block of the buffer's range that `needed_blocks` does not count yet.
    pub(crate) counted: FileBlock,
    pub(crate) needed_blocks: u64,
    pub(crate) reservation: BlockReservation,
    /// Quota that is reserved for `needed_blocks`.
    pub(crate) quota: QuotaReservation,
    /// Number of bytes of memory that this buffer has claimed. The limit is on the sum over all
    /// buffers.
    pub(crate) claimed_bytes: u64,
    /// Number of flusher passes that had begun when the first byte was buffered.
    pub(crate) begun: u64,
}

impl Buffered {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns the byte offset at which the buffer is full.
    pub(crate) fn limit(&self) -> u64 {
        end_of_buffer(self.offset)
    }

    /// Returns whether bytes written at offset `at` can be added to this buffer: they overlap its
    /// bytes or directly follow them.
    pub(crate) fn takes(&self, at: u64) -> bool {
        (self.offset..=self.end()).contains(&at) && at < self.limit()
    }

    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let within = (at - self.offset) as usize;
        let (over, after) = bytes.split_at((self.bytes.len() - within).min(bytes.len()));
        let place = self.bytes.get_mut(within..within + over.len());
        place.expect("bytes that overlap lie in the buffer").copy_from_slice(over);
        self.bytes.extend_from_slice(after);
    }
}
