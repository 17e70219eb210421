//! Bytes of small writes, joined before they go to the device.

use xfs_format::FileBlock;
use xfs_format::timestamp::Timestamp;
use xfs_trans::BlockReservation;

/// The most buffered bytes of a file. A buffer ends at a multiple of it.
pub(crate) const BUFFER_BYTES: u64 = 1 << 20;

/// Returns the end of a buffer that begins at an offset.
pub(crate) const fn end_of_buffer(offset: u64) -> u64 {
    (offset / BUFFER_BYTES + 1).saturating_mul(BUFFER_BYTES)
}

/// Written bytes that are not on the device.
pub(crate) struct Buffered {
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) now: Timestamp,
    /// Blocks before this one are counted in `needed_blocks`.
    pub(crate) counted: FileBlock,
    pub(crate) needed_blocks: u64,
    pub(crate) reservation: BlockReservation,
    /// Memory that it has claimed of the volume's limit.
    pub(crate) claimed_bytes: u64,
    /// Passes of the flusher before it began.
    pub(crate) begun: u64,
}

impl Buffered {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Returns the offset at which it is full.
    pub(crate) fn limit(&self) -> u64 {
        end_of_buffer(self.offset)
    }

    /// Returns whether bytes at an offset belong into it.
    pub(crate) fn takes(&self, at: u64) -> bool {
        (self.offset..=self.end()).contains(&at) && at < self.limit()
    }

    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) {
        let within = (at - self.offset) as usize;
        let (over, behind) = bytes.split_at((self.bytes.len() - within).min(bytes.len()));
        if let Some(place) = self.bytes.get_mut(within..within + over.len()) {
            place.copy_from_slice(over);
        }
        self.bytes.extend_from_slice(behind);
    }
}
