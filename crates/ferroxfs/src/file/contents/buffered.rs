//! What is gathered of small writes before it goes to the device.

use xfs_format::FileBlock;
use xfs_format::timestamp::Timestamp;
use xfs_trans::BlockReservation;

/// The most that is buffered of a file; also the unit in whose multiples a buffer ends.
pub(super) const BUFFER_BYTES: u64 = 1 << 20;

/// Where a buffer ends that begins at an offset.
pub(super) const fn end_of_buffer(offset: u64) -> u64 {
    (offset / BUFFER_BYTES + 1).saturating_mul(BUFFER_BYTES)
}

/// Bytes that have been written, and are not on the device.
pub(super) struct Buffered {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) now: Timestamp,
    /// Blocks before this one are counted in `needed_blocks`.
    pub(super) counted: FileBlock,
    pub(super) needed_blocks: u64,
    pub(super) reservation: BlockReservation,
    /// What it has claimed of the memory that the volume allows.
    pub(super) claimed_bytes: u64,
    /// How many looks the volume had had when it began.
    pub(super) begun: u64,
}

impl Buffered {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Where it is full.
    pub(super) fn limit(&self) -> u64 {
        end_of_buffer(self.offset)
    }

    /// Whether bytes at an offset go into it.
    pub(super) fn takes(&self, at: u64) -> bool {
        (self.offset..=self.end()).contains(&at) && at < self.limit()
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        let within = (at - self.offset) as usize;
        let (over, behind) = bytes.split_at((self.bytes.len() - within).min(bytes.len()));
        if let Some(place) = self.bytes.get_mut(within..within + over.len()) {
            place.copy_from_slice(over);
        }
        self.bytes.extend_from_slice(behind);
    }
}
