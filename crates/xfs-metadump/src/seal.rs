//! Computes the checksums of blocks again after the blocks were changed in memory.

use xfs_format::crc;

/// Whether the checksum of a block was right before the block was changed.
#[derive(Clone, Copy)]
pub(crate) struct Seal {
    field: usize,
    was_right: bool,
}

impl Seal {
    /// Notes whether the checksum at offset `field` of the block is right.
    pub(crate) fn of(bytes: &[u8], field: usize) -> Self {
        let computed = crc::compute(bytes, field);
        Self { field, was_right: computed.is_some() && crc::stored(bytes, field) == computed }
    }

    /// Makes the checksum right again if it was right before. A wrong checksum stays wrong (M4 of
    /// the crate).
    pub(crate) fn renew(self, bytes: &mut [u8]) {
        // M4: a checksum that was wrong stays wrong.
        if self.was_right {
            crc::seal(bytes, self.field);
        }
    }
}
