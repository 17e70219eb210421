//! Log items: the regions of a transaction in the log.
//!
//! Owns: decoding and encoding the header of a transaction, and every item type that a v5 kernel
//! without a realtime device writes. Does **not** own records and operations
//! ([`log_record`](crate::log_record)), the assembly of regions, or replay.
//!
//! ```text
//! transaction  header (16 bytes), then the regions of its items one after the other
//! item         first region: kind (2 bytes), number of regions (2), then fields by kind
//!              further regions: inode core and forks, parts of a buffer, names and values
//! ```
//!
//! The fields of items have the byte order of the machine that wrote the log. The header of the
//! record states this byte order ([`ByteOrder`](crate::log_record::ByteOrder)). Bytes that replay
//! copies to the disk unchanged are big-endian, like the disk: forks, parts of buffers, and all of
//! an inode creation.
//!
//! # Invariants
//!
//! - **I1** Counts and lengths in an item are compared with the actual regions before they are
//!   used. A decoded item holds all the bytes that its fields describe.
//! - This module does not know the volume. Replay checks whether an item's addresses exist.

mod actions;
mod attr;
mod buffer;
mod create;
mod dquot;
mod exchange;
mod extents;
mod fields;
mod inode;
mod kind;

pub use crate::checks::log_item::LogItemCheck;
pub use actions::{RefcountAction, RmapAction};
pub use attr::{AttrIntent, AttrNames, AttrOperation};
pub use buffer::{BufferFlags, BufferFormat, BufferRegion, BufferType, CHUNK_BYTES, LoggedBuffer};
pub use create::InodeCreate;
pub use dquot::{DQUOT_BYTES, DquotFormat, DquotItem, QuotaOff};
pub use exchange::{ExchangeFlags, ExchangeIntent};
pub use extents::{ExtentFree, IntentDone, IntentExtents, MapExtent, RefcountExtent, RmapExtent};
pub use fields::HostOrder;
pub use inode::{
    InodeFormat, InodeItem, LOG_CORE_BYTES, LOG_CORE_BYTES_V4, LoggedFields, core_to_disk,
    core_to_disk_v4, core_to_log, logged_flush_count, stored_flush_count,
};
pub use kind::ItemKind;

use alloc::vec;
use alloc::vec::Vec;
use core::iter::once;

use crate::corruption::{Corruption, Structure, StructureAddress};
use fields::{Fields, FieldsMut, Sink};

/// Magic number of a transaction's header: "TRAN".
#[doc(alias = "XFS_TRANS_HEADER_MAGIC")]
pub const TRANSACTION_MAGIC: u32 = 0x5452_414e;

/// The only kind of transaction that delayed logging writes.
#[doc(alias = "XFS_TRANS_CHECKPOINT")]
pub const CHECKPOINT: u32 = 40;

/// Number of regions of the largest item: a buffer of 64 KiB in which every second chunk is dirty.
#[doc(alias = "XLOG_MAX_REGIONS_IN_ITEM")]
pub const MAX_ITEM_REGIONS: u16 = 257;

/// The start of every item: its kind and its number of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemHeader {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The number of regions of the item, including this one; at least 1.
    pub regions: u16,
}

impl ItemHeader {
    /// Length of an encoded item header in bytes.
    pub const BYTES: usize = 4;

    /// Decodes the item header at the start of an item's first region.
    ///
    /// # Errors
    ///
    /// Returns an error if the kind is unknown, or no item has this number of regions.
    pub fn decode(
        region: &[u8],
        order: HostOrder,
        place: StructureAddress,
    ) -> Result<Self, Corruption> {
        Self::read(region, order).map_err(|check| corrupt(place, check))
    }

    fn read(region: &[u8], order: HostOrder) -> Result<Self, LogItemCheck> {
        let mut fields = Fields::new(region, order);
        let (Some(raw), Some(regions)) = (fields.u16(), fields.u16()) else {
            return Err(LogItemCheck::Short { item: "item", bytes: region.len(), needed: 4 });
        };
        let kind = ItemKind::decode(raw).ok_or(LogItemCheck::Kind { raw })?;
        if regions == 0 || regions > MAX_ITEM_REGIONS {
            return Err(LogItemCheck::RegionCount { item: kind.name(), regions });
        }
        Ok(Self { kind, regions })
    }

    #[inline]
    fn write<S: Sink>(self, fields: &mut FieldsMut<S>) {
        fields.u16(self.kind.encode());
        fields.u16(self.regions);
    }
}

/// The header of a transaction: its first region.
#[doc(alias = "xfs_trans_header")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionHeader {
    /// The kind of transaction; always [`CHECKPOINT`] since delayed logging.
    pub kind: u32,
    /// The transaction's identifier.
    pub transaction: u32,
    /// Number of regions that follow.
    #[doc(alias = "th_num_items")]
    pub regions: u32,
}

impl TransactionHeader {
    /// Length of the encoded header in bytes.
    pub const BYTES: usize = 16;

    /// Decodes the header of a transaction from its first region.
    ///
    /// # Errors
    ///
    /// Returns an error if the length or the magic number is wrong.
    pub fn decode(
        region: &[u8],
        order: HostOrder,
        place: StructureAddress,
    ) -> Result<Self, Corruption> {
        let read = || -> Result<Self, LogItemCheck> {
            let (bytes, needed) = (region.len(), Self::BYTES);
            let short = LogItemCheck::Short { item: "transaction", bytes, needed };
            let mut fields = Fields::new(region, order);
            let magic = fields.u32().ok_or(short)?;
            if magic != TRANSACTION_MAGIC {
                return Err(LogItemCheck::TransactionMagic { magic });
            }
            let mut next = || fields.u32().ok_or(short);
            Ok(Self { kind: next()?, transaction: next()?, regions: next()? })
        };
        read().map_err(|check| corrupt(place, check))
    }

    /// Encodes the header.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        let mut fields = FieldsMut::new(order);
        fields.u32(TRANSACTION_MAGIC);
        fields.u32(self.kind);
        fields.u32(self.transaction);
        fields.u32(self.regions);
        fields.into_bytes()
    }
}

/// One item of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each variant is the kind of the same name")]
pub enum LoggedItem<'a> {
    ExtentFree(IntentExtents<ExtentFree>),
    ExtentFreeDone(IntentExtents<ExtentFree>),
    Inode(InodeItem<'a>),
    Buffer(LoggedBuffer<'a>),
    Dquot(DquotItem<'a>),
    QuotaOff(QuotaOff),
    InodeCreate(InodeCreate),
    Rmap(IntentExtents<RmapExtent>),
    Refcount(IntentExtents<RefcountExtent>),
    Map(IntentExtents<MapExtent>),
    Attr(AttrIntent<'a>),
    Exchange(ExchangeIntent),
    RealtimeFree(IntentExtents<ExtentFree>),
    RealtimeFreeDone(IntentExtents<ExtentFree>),
    RealtimeRmap(IntentExtents<RmapExtent>),
    RealtimeRefcount(IntentExtents<RefcountExtent>),
    /// The completion of any intent other than [`ExtentFree`](Self::ExtentFree) and
    /// [`RealtimeFree`](Self::RealtimeFree).
    Done(IntentDone),
}

impl<'a> LoggedItem<'a> {
    /// Decodes an item from its regions. `place` is the address in the log at which the transaction
    /// of the item starts, for messages. Addresses in the item are not checked.
    ///
    /// # Errors
    ///
    /// Returns an error for the first count or length that is wrong.
    pub fn decode(
        regions: &[&'a [u8]],
        order: HostOrder,
        place: StructureAddress,
    ) -> Result<Self, Corruption> {
        Self::read(regions, order).map_err(|check| corrupt(place, check))
    }

    fn read(regions: &[&'a [u8]], order: HostOrder) -> Result<Self, LogItemCheck> {
        let Some((first, rest)) = regions.split_first() else {
            return Err(LogItemCheck::Short { item: "item", bytes: 0, needed: ItemHeader::BYTES });
        };
        let header = ItemHeader::read(first, order)?;
        let (kind, promised) = (header.kind, usize::from(header.regions));
        if promised != regions.len() {
            let found = regions.len();
            return Err(LogItemCheck::Regions { item: kind.name(), found, promised });
        }
        let alone = |item: Self| {
            let found = regions.len();
            match found {
                1 => Ok(item),
                _ => Err(LogItemCheck::Regions { item: kind.name(), found, promised: 1 }),
            }
        };
        match kind {
            ItemKind::Inode => InodeItem::read(first, rest, order).map(Self::Inode),
            ItemKind::Buffer => LoggedBuffer::read(first, rest, order).map(Self::Buffer),
            ItemKind::Dquot => DquotItem::read(first, rest, order).map(Self::Dquot),
            ItemKind::Attr => AttrIntent::read(first, rest, order).map(Self::Attr),
            ItemKind::ExtentFree => {
                alone(Self::ExtentFree(extents::decode_list(kind, first, order)?))
            }
            ItemKind::ExtentFreeDone => {
                alone(Self::ExtentFreeDone(extents::decode_list(kind, first, order)?))
            }
            ItemKind::RealtimeFree => {
                alone(Self::RealtimeFree(extents::decode_list(kind, first, order)?))
            }
            ItemKind::RealtimeFreeDone => {
                alone(Self::RealtimeFreeDone(extents::decode_list(kind, first, order)?))
            }
            ItemKind::RealtimeRmap => {
                alone(Self::RealtimeRmap(extents::decode_list(kind, first, order)?))
            }
            ItemKind::RealtimeRefcount => {
                alone(Self::RealtimeRefcount(extents::decode_list(kind, first, order)?))
            }
            ItemKind::Rmap => alone(Self::Rmap(extents::decode_list(kind, first, order)?)),
            ItemKind::Refcount => alone(Self::Refcount(extents::decode_list(kind, first, order)?)),
            ItemKind::Map => alone(Self::Map(extents::decode_list(kind, first, order)?)),
            ItemKind::InodeCreate => alone(Self::InodeCreate(fields::decode(kind, first, order)?)),
            ItemKind::QuotaOff => alone(Self::QuotaOff(fields::decode(kind, first, order)?)),
            ItemKind::Exchange => alone(Self::Exchange(fields::decode(kind, first, order)?)),
            ItemKind::RmapDone
            | ItemKind::RefcountDone
            | ItemKind::MapDone
            | ItemKind::AttrDone
            | ItemKind::ExchangeDone
            | ItemKind::RealtimeRmapDone
            | ItemKind::RealtimeRefcountDone => {
                alone(Self::Done(IntentDone::read(kind, first, order)?))
            }
        }
    }

    /// Encodes the regions of the item.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<Vec<u8>> {
        let kind = self.kind();
        match self {
            Self::ExtentFree(list)
            | Self::ExtentFreeDone(list)
            | Self::RealtimeFree(list)
            | Self::RealtimeFreeDone(list) => {
                vec![extents::encode_list(kind, list, order)]
            }
            Self::Rmap(list) | Self::RealtimeRmap(list) => {
                vec![extents::encode_list(kind, list, order)]
            }
            Self::Refcount(list) | Self::RealtimeRefcount(list) => {
                vec![extents::encode_list(kind, list, order)]
            }
            Self::Map(list) => vec![extents::encode_list(kind, list, order)],
            Self::Done(done) => vec![done.encode(order)],
            Self::Attr(intent) => intent.encode(order),
            Self::Exchange(intent) => vec![intent.encode(order)],
            Self::InodeCreate(create) => vec![create.encode(order)],
            Self::QuotaOff(end) => vec![end.encode(order)],
            Self::Dquot(item) => vec![item.format.encode(order), item.dquot.to_vec()],
            Self::Inode(item) => {
                let regions = [Some(item.core), item.data, item.attr].into_iter().flatten();
                once(item.format.encode(order).to_vec())
                    .chain(regions.map(<[u8]>::to_vec))
                    .collect()
            }
            Self::Buffer(item) => {
                let pieces = item.pieces.iter().map(|piece| piece.bytes.to_vec());
                once(item.format.encode(order)).chain(pieces).collect()
            }
        }
    }

    /// Returns the kind of the item.
    #[must_use]
    pub const fn kind(&self) -> ItemKind {
        match self {
            Self::ExtentFree(_) => ItemKind::ExtentFree,
            Self::ExtentFreeDone(_) => ItemKind::ExtentFreeDone,
            Self::Inode(_) => ItemKind::Inode,
            Self::Buffer(_) => ItemKind::Buffer,
            Self::Dquot(_) => ItemKind::Dquot,
            Self::QuotaOff(_) => ItemKind::QuotaOff,
            Self::InodeCreate(_) => ItemKind::InodeCreate,
            Self::Rmap(_) => ItemKind::Rmap,
            Self::Refcount(_) => ItemKind::Refcount,
            Self::Map(_) => ItemKind::Map,
            Self::Attr(_) => ItemKind::Attr,
            Self::Exchange(_) => ItemKind::Exchange,
            Self::RealtimeFree(_) => ItemKind::RealtimeFree,
            Self::RealtimeFreeDone(_) => ItemKind::RealtimeFreeDone,
            Self::RealtimeRmap(_) => ItemKind::RealtimeRmap,
            Self::RealtimeRefcount(_) => ItemKind::RealtimeRefcount,
            Self::Done(done) => done.kind,
        }
    }

    /// Returns the identifier that links an intent and its completion, or `None` for other items.
    #[must_use]
    pub const fn intent_id(&self) -> Option<u64> {
        match self {
            Self::ExtentFree(intent) | Self::RealtimeFree(intent) => Some(intent.id),
            Self::ExtentFreeDone(done) | Self::RealtimeFreeDone(done) => Some(done.id),
            Self::Rmap(intent) | Self::RealtimeRmap(intent) => Some(intent.id),
            Self::Refcount(intent) | Self::RealtimeRefcount(intent) => Some(intent.id),
            Self::Map(intent) => Some(intent.id),
            Self::Attr(intent) => Some(intent.id),
            Self::Exchange(intent) => Some(intent.id),
            Self::Done(done) => Some(done.id),
            _ => None,
        }
    }
}

fn corrupt(place: StructureAddress, check: LogItemCheck) -> Corruption {
    Corruption::new(Structure::LogItem, place, check)
}

#[cfg(test)]
mod tests;
