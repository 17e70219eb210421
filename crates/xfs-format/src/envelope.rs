//! The fields that every self-describing block carries: checksum, own address, UUID, LSN.
//!
//! Owns: their checks and their sealing, given where they lie in the block; the layout differs by
//! structure. Does **not** own the owner field: only who followed a pointer knows whose block it
//! must be.

use uuid::Uuid;

use crate::addr::{DiskAddr, Lsn};
use crate::corruption::Check;
use crate::crc;
use crate::kind::VerifyContext;

/// Byte offsets of the common fields inside one kind of block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) crc: usize,
    pub(crate) block: usize,
    pub(crate) lsn: usize,
    pub(crate) uuid: usize,
}

impl Envelope {
    /// Checks the common fields of the whole block `bytes`, read from `at`.
    pub(crate) fn verify(
        &self,
        bytes: &[u8],
        at: DiskAddr,
        context: &VerifyContext<'_>,
    ) -> Result<(), Check> {
        let truncated = Check::Truncated { available: bytes.len(), needed: self.end() };
        let (Some(stored), Some(computed)) =
            (crc::stored(bytes, self.crc), crc::compute(bytes, self.crc))
        else {
            return Err(truncated);
        };
        if stored != computed {
            return Err(Check::Checksum { stored, computed });
        }
        let (Some(uuid), Some(block), Some(lsn)) =
            (self.read_uuid(bytes), read_u64(bytes, self.block), read_u64(bytes, self.lsn))
        else {
            return Err(truncated);
        };
        if uuid != context.geometry.meta_uuid {
            return Err(Check::ForeignUuid { found: uuid });
        }
        if block != at.0 {
            return Err(Check::MisplacedBlock { found: DiskAddr(block) });
        }
        verify_lsn(Lsn(lsn), context)
    }

    /// Stores the LSN and then the checksum.
    pub(crate) fn seal(&self, bytes: &mut [u8], lsn: Lsn) {
        if let Some(field) = bytes.get_mut(self.lsn..self.lsn + size_of::<u64>()) {
            field.copy_from_slice(&lsn.0.to_be_bytes());
        }
        crc::seal(bytes, self.crc);
    }

    fn read_uuid(&self, bytes: &[u8]) -> Option<Uuid> {
        Uuid::from_slice(bytes.get(self.uuid..self.uuid.checked_add(16)?)?).ok()
    }

    fn end(&self) -> usize {
        (self.crc + 4).max(self.block + 8).max(self.lsn + 8).max(self.uuid + 16)
    }
}

/// Nothing can have been logged after the head of the log.
pub(crate) fn verify_lsn(found: Lsn, context: &VerifyContext<'_>) -> Result<(), Check> {
    match context.log_head {
        Some(log_head) if !found.is_null() && found > log_head => {
            Err(Check::LsnAheadOfLog { found, log_head })
        }
        _ => Ok(()),
    }
}

fn read_u64(bytes: &[u8], offset: usize) -> Option<u64> {
    let field = bytes.get(offset..offset.checked_add(size_of::<u64>())?)?;
    Some(u64::from_be_bytes(field.try_into().ok()?))
}
