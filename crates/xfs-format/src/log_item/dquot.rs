//! Quota items: a dquot in its disk form, and the end of quota accounting.
//!
//! ```text
//! dquot      0 kind  2 regions  4 id  8 address  16 blocks  20 offset .. 24, then the dquot
//! quota off  0 kind  2 regions  4 quota flags                               .. 8, padded to 20
//! ```

use alloc::vec::Vec;

use super::fields::{self, Fields, FieldsMut, Format, HostOrder, Sink};
use super::{ItemHeader, ItemKind, LogItemCheck};
use crate::addr::DiskAddr;

/// Length in bytes of a dquot without the fields that version 5 appends.
#[doc(alias = "xfs_disk_dquot")]
pub const DQUOT_BYTES: usize = 104;

/// The first region of a dquot item.
#[doc(alias = "xfs_dq_logformat")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DquotFormat {
    /// The ID of the user, group or project of the dquot.
    pub id: u32,
    /// The disk address of the buffer that holds the dquot.
    pub at: DiskAddr,
    /// Length of the buffer in filesystem blocks.
    pub blocks: u32,
    /// Offset of the dquot in the buffer, in bytes.
    pub offset_bytes: u32,
}

impl DquotFormat {
    /// Encodes the region.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        fields::encode(self, order)
    }
}

impl Format for DquotFormat {
    const BYTES: usize = 24;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.u32()?;
        let (id, at) = (fields.u32()?, DiskAddr(fields.u64()?));
        Some(Self { id, at, blocks: fields.u32()?, offset_bytes: fields.u32()? })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        ItemHeader { kind: ItemKind::Dquot, regions: 2 }.write(fields);
        fields.u32(self.id);
        fields.u64(self.at.0);
        fields.u32(self.blocks);
        fields.u32(self.offset_bytes);
    }
}

/// A logged dquot.
#[doc(alias = "xfs_dq_logitem")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DquotItem<'a> {
    /// The identity and location of the dquot.
    pub format: DquotFormat,
    /// The dquot in its disk form, without checksum, LSN and UUID.
    pub dquot: &'a [u8; DQUOT_BYTES],
}

impl<'a> DquotItem<'a> {
    pub(super) fn read(
        first: &[u8],
        rest: &[&'a [u8]],
        order: HostOrder,
    ) -> Result<Self, LogItemCheck> {
        let format = fields::decode(ItemKind::Dquot, first, order)?;
        let (item, found) = (ItemKind::Dquot.name(), rest.len() + 1);
        let &[region] = rest else {
            return Err(LogItemCheck::Regions { item, found, promised: 2 });
        };
        let short = LogItemCheck::Short { item, bytes: region.len(), needed: DQUOT_BYTES };
        Ok(Self { format, dquot: region.first_chunk().ok_or(short)? })
    }
}

/// The end of accounting for some kinds of quota. Dquots of those kinds are not replayed.
#[doc(alias = "xfs_qoff_logformat")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaOff {
    /// The kinds of quota, as flags of the superblock.
    pub flags: u32,
}

impl QuotaOff {
    /// Encodes the region.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        fields::encode(self, order)
    }
}

impl Format for QuotaOff {
    const BYTES: usize = 20;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.u32()?;
        Some(Self { flags: fields.u32()? })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        ItemHeader { kind: ItemKind::QuotaOff, regions: 1 }.write(fields);
        fields.u32(self.flags);
        fields.bytes(&[0; 12]);
    }
}
