//! The fields that every self-describing block carries: checksum, own address, UUID, LSN.
//!
//! Owns: their checks and their sealing, given where they lie in the block; the layout differs by
//! structure. Does **not** own magic numbers, which tell structures apart, or the owner field: only
//! who followed a pointer knows whose block it must be.

use uuid::Uuid;
use zerocopy::{Immutable, IntoBytes};

use crate::addr::{DiskAddr, Lsn};
use crate::corruption::Check;
use crate::crc;
use crate::group::Group;
use crate::kind::VerifyContext;

/// Byte offsets of the common fields inside one kind of block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) crc: usize,
    /// The block's own address; `None` for the header sectors of a group, which hold none.
    pub(crate) block: Option<usize>,
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
        verify_checksum(bytes, self.crc)?;
        let found = Uuid::from_bytes(*array(bytes, self.uuid)?);
        if found != context.geometry.meta_uuid {
            return Err(Check::ForeignUuid { found });
        }
        if let Some(offset) = self.block {
            let found = DiskAddr(u64::from_be_bytes(*array(bytes, offset)?));
            if found != at {
                return Err(Check::MisplacedBlock { found });
            }
        }
        verify_lsn(Lsn(u64::from_be_bytes(*array(bytes, self.lsn)?)), context)
    }

    /// The LSN in a block of this volume.
    pub(crate) fn find_lsn(&self, bytes: &[u8], meta_uuid: Uuid) -> Option<Lsn> {
        let uuid = Uuid::from_bytes(*array(bytes, self.uuid).ok()?);
        let lsn = Lsn(u64::from_be_bytes(*array(bytes, self.lsn).ok()?));
        (uuid == meta_uuid).then_some(lsn)
    }

    /// Stores the LSN and then the checksum.
    ///
    /// # Panics
    ///
    /// If the fields do not lie inside `bytes`: the caller chose both.
    pub(crate) fn seal(&self, bytes: &mut [u8], lsn: Lsn) {
        let field = bytes.get_mut(self.lsn..self.lsn + size_of::<u64>());
        field.expect("the LSN lies inside the block").copy_from_slice(&lsn.0.to_be_bytes());
        crc::seal(bytes, self.crc);
    }
}

/// Checks the checksum stored at `offset` against all of `bytes`.
pub(crate) fn verify_checksum(bytes: &[u8], offset: usize) -> Result<(), Check> {
    match (crc::stored(bytes, offset), crc::compute(bytes, offset)) {
        (Some(stored), Some(computed)) if stored == computed => Ok(()),
        (Some(stored), Some(computed)) => Err(Check::Checksum { stored, computed }),
        _ => Err(truncated(bytes, offset + crc::CRC_BYTES)),
    }
}

/// Nothing can have been logged after the head of the log. What was never logged carries 0 or all
/// ones.
pub(crate) fn verify_lsn(found: Lsn, context: &VerifyContext<'_>) -> Result<(), Check> {
    match context.log_head {
        Some(log_head) if !found.is_null() && found > log_head => {
            Err(Check::LsnAheadOfLog { found, log_head })
        }
        _ => Ok(()),
    }
}

/// The magic number at the start of a structure must be its own.
pub(crate) fn verify_magic(found: u32, expected: u32) -> Result<(), Check> {
    if found == expected {
        return Ok(());
    }
    Err(Check::Magic { found: found.into(), expected: expected.into() })
}

/// The group whose header sector `index` lies at `at`.
pub(crate) fn group_of_sector<'a>(
    at: DiskAddr,
    index: u32,
    context: &VerifyContext<'a>,
) -> Result<Group<'a>, Check> {
    let geometry = context.geometry;
    let (number, _) = geometry.split_disk_addr(at).ok_or(Check::MisplacedBlock { found: at })?;
    let is_header = geometry.header_disk_addr(number, index) == at;
    let group = Group::new(geometry, number).filter(|_| is_header);
    group.ok_or(Check::MisplacedBlock { found: at })
}

/// Writes a structure to the start of `bytes` and zeros behind it.
///
/// # Panics
///
/// If it does not fit: the caller chose both.
pub(crate) fn fill<T: IntoBytes + Immutable>(bytes: &mut [u8], disk: &T) {
    bytes.fill(0);
    disk.write_to_prefix(bytes).expect("the structure fits");
}

/// The check that fails when `bytes` are fewer than `needed`.
pub(crate) const fn truncated(bytes: &[u8], needed: usize) -> Check {
    Check::Truncated { available: bytes.len(), needed }
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> Result<&[u8; N], Check> {
    let field = bytes.get(offset..).and_then(<[u8]>::first_chunk::<N>);
    field.ok_or(truncated(bytes, offset + N))
}
