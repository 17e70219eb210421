//! The fields that every self-describing block carries: checksum, own address, UUID, LSN.
//!
//! Owns: checking and sealing these fields at given offsets, which differ between structures. Does
//! **not** own magic numbers, which identify structures, or the owner field: only the code that
//! follows a pointer knows the required owner.

use uuid::Uuid;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{DiskAddr, Lsn};
use crate::corruption::Check;
use crate::crc;
use crate::features::FormatVersion;
use crate::group::Group;
use crate::verify_context::VerifyContext;

/// The byte offsets of the common fields in one kind of block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    pub(crate) crc: usize,
    /// Offset of the block's own address; `None` for the header sectors of a group, which do not
    /// store it.
    pub(crate) block: Option<usize>,
    pub(crate) lsn: usize,
    pub(crate) uuid: usize,
}

impl Envelope {
    /// Checks the common fields of the whole block `bytes`, read from `at`. Blocks of a v4 volume
    /// have none of these fields.
    pub(crate) fn verify(
        &self,
        bytes: &[u8],
        at: DiskAddr,
        context: &VerifyContext<'_>,
    ) -> Result<(), Check> {
        if context.geometry.version == FormatVersion::V4 {
            return Ok(());
        }
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

    /// Returns the LSN of a block of this volume, or `None` if the block does not carry the UUID
    /// `meta_uuid`.
    pub(crate) fn find_lsn(&self, bytes: &[u8], meta_uuid: Uuid) -> Option<Lsn> {
        let uuid = Uuid::from_bytes(*array(bytes, self.uuid).ok()?);
        let lsn = Lsn(u64::from_be_bytes(*array(bytes, self.lsn).ok()?));
        (uuid == meta_uuid).then_some(lsn)
    }

    /// Stores the block's own address, if the structure has a field for it.
    ///
    /// # Panics
    ///
    /// Panics if the field does not lie inside `bytes`: a mistake of the caller.
    pub(crate) fn set_address(&self, bytes: &mut [u8], at: DiskAddr) {
        let Some(offset) = self.block else { return };
        let field = bytes.get_mut(offset..offset + size_of::<u64>());
        field.expect("the address lies inside the block").copy_from_slice(&at.0.to_be_bytes());
    }

    /// Stores the LSN and then the checksum.
    ///
    /// # Panics
    ///
    /// Panics if the fields do not lie inside `bytes`: a mistake of the caller.
    pub(crate) fn seal(&self, bytes: &mut [u8], lsn: Lsn) {
        let field = bytes.get_mut(self.lsn..self.lsn + size_of::<u64>());
        field.expect("the LSN lies inside the block").copy_from_slice(&lsn.0.to_be_bytes());
        crc::seal(bytes, self.crc);
    }
}

/// The disk form of a header sector of a group that has a magic number and a version: AGF, AGI.
pub(crate) trait HeaderSector: FromBytes + Immutable + KnownLayout + Unaligned {
    const MAGIC: u32;
    const VERSION: u32;
    /// The number of the sector in the group.
    const INDEX: u32;
    const ENVELOPE: Envelope;

    fn magic(&self) -> u32;

    fn version(&self) -> u32;

    /// Returns the failed check of a version other than [`VERSION`](Self::VERSION).
    fn wrong_version(version: u32) -> Check;

    /// Checks the fields of the structure that [`verify_header`] does not check.
    fn verify_fields(&self, group: &Group<'_>) -> Result<(), Check>;
}

/// Returns the disk form in a header sector, after a check of its magic number.
#[inline]
pub(crate) fn header_form<T: HeaderSector>(sector: &[u8]) -> Result<&T, Check> {
    let (disk, _) = T::ref_from_prefix(sector).map_err(|_| truncated(sector, size_of::<T>()))?;
    verify_magic(disk.magic(), T::MAGIC)?;
    Ok(disk)
}

/// Checks a whole header sector, which was read from `at`.
pub(crate) fn verify_header<T: HeaderSector>(
    sector: &[u8],
    at: DiskAddr,
    context: &VerifyContext<'_>,
) -> Result<(), Check> {
    let disk = header_form::<T>(sector)?;
    T::ENVELOPE.verify(sector, at, context)?;
    let version = disk.version();
    if version != T::VERSION {
        return Err(T::wrong_version(version));
    }
    disk.verify_fields(&group_of_sector(at, T::INDEX, context)?)
}

/// Checks that the checksum stored at `offset` is the checksum of all `bytes`.
pub(crate) fn verify_checksum(bytes: &[u8], offset: usize) -> Result<(), Check> {
    match (crc::stored(bytes, offset), crc::compute(bytes, offset)) {
        (Some(stored), Some(computed)) if stored == computed => Ok(()),
        (Some(stored), Some(computed)) => Err(Check::Checksum { stored, computed }),
        _ => Err(truncated(bytes, offset + crc::CRC_BYTES)),
    }
}

/// Checks that an LSN is not after the head of the log. Structures that were never logged have LSN
/// 0 or all ones.
pub(crate) fn verify_lsn(found: Lsn, context: &VerifyContext<'_>) -> Result<(), Check> {
    match context.log_head {
        Some(log_head) if !found.is_null() && found > log_head => {
            Err(Check::LsnAheadOfLog { found, log_head })
        }
        _ => Ok(()),
    }
}

/// Checks the magic number of a structure.
pub(crate) fn verify_magic(found: u32, expected: u32) -> Result<(), Check> {
    if found == expected {
        return Ok(());
    }
    Err(Check::Magic { found: found.into(), expected: expected.into() })
}

/// Checks that `found`, the format version that a block's magic number gives, is the version of the
/// volume.
#[inline]
pub(crate) fn verify_version(
    found: FormatVersion,
    context: &VerifyContext<'_>,
) -> Result<(), Check> {
    if found == context.geometry.version {
        return Ok(());
    }
    Err(Check::OtherVersion { version: found.number() })
}

/// Returns the group whose header sector `index` lies at `at`. Returns the failed check if there is
/// no such group.
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

/// Writes a structure to the start of `bytes` and zeros after it.
///
/// # Panics
///
/// Panics if the structure is longer than `bytes`: a mistake of the caller.
pub(crate) fn fill<T: IntoBytes + Immutable>(bytes: &mut [u8], disk: &T) {
    bytes.fill(0);
    disk.write_to_prefix(bytes).expect("the structure fits");
}

/// Returns the check that fails because `bytes` are fewer than `needed`.
pub(crate) const fn truncated(bytes: &[u8], needed: usize) -> Check {
    Check::Truncated { available: bytes.len(), needed }
}

fn array<const N: usize>(bytes: &[u8], offset: usize) -> Result<&[u8; N], Check> {
    let field = bytes.get(offset..).and_then(<[u8]>::first_chunk::<N>);
    field.ok_or(truncated(bytes, offset + N))
}
