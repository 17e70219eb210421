//! Fields in the byte order of the machine that wrote the log.
//!
//! This module and `crc` are the only ones that read little-endian numbers from the disk.
#![allow(clippy::little_endian_bytes, reason = "items are logged in the writer's byte order")]

use alloc::vec::Vec;

use super::{ItemKind, LogItemCheck};
use crate::log_record::ByteOrder;

/// The byte order of the fields of log items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOrder {
    /// Least significant byte first, as on nearly all machines.
    Little,
    /// Most significant byte first.
    Big,
}

impl HostOrder {
    /// The order of this machine. Its kernel can replay only logs in this order.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    /// Returns the byte order that a record's header states, or `None` if it is not supported.
    #[must_use]
    pub const fn of(order: ByteOrder) -> Option<Self> {
        match order {
            ByteOrder::LittleEndian => Some(Self::Little),
            ByteOrder::BigEndian => Some(Self::Big),
            ByteOrder::Other(_) => None,
        }
    }
}

/// Reads consecutive fields of a region. A read returns `None` if the region has too few bytes
/// left.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    order: HostOrder,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(region: &'a [u8], order: HostOrder) -> Self {
        Self { rest: region, order }
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*field)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        let bytes = self.bytes()?;
        Some(match self.order {
            HostOrder::Little => u16::from_le_bytes(bytes),
            HostOrder::Big => u16::from_be_bytes(bytes),
        })
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let bytes = self.bytes()?;
        Some(match self.order {
            HostOrder::Little => u32::from_le_bytes(bytes),
            HostOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.bytes()?;
        Some(match self.order {
            HostOrder::Little => u64::from_le_bytes(bytes),
            HostOrder::Big => u64::from_be_bytes(bytes),
        })
    }
}

/// A destination to which fields are written.
pub(super) trait Sink {
    /// Appends these bytes to the destination.
    fn put<const N: usize>(&mut self, bytes: &[u8; N]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes into a slice of exactly the length that is written. If that length is a constant, the
/// compiler removes the check for remaining space from every write. A field is an array, so it is
/// one store and not a call that copies bytes.
impl Sink for &mut [u8] {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: &[u8; N]) {
        let field = core::mem::take(self).split_first_chunk_mut::<N>();
        let (field, rest) = field.expect("the destination has room for each field");
        *field = *bytes;
        *self = rest;
    }
}

/// Writes consecutive fields in a byte order.
pub(super) struct FieldsMut<S = Vec<u8>> {
    sink: S,
    order: HostOrder,
}

impl FieldsMut {
    pub(super) const fn new(order: HostOrder) -> Self {
        Self { sink: Vec::new(), order }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.sink
    }
}

impl<'a> FieldsMut<&'a mut [u8]> {
    /// Creates a writer into `room`, whose length must equal the number of bytes that will be
    /// written.
    #[inline]
    pub(super) const fn within(room: &'a mut [u8], order: HostOrder) -> Self {
        Self { sink: room, order }
    }
}

impl<S: Sink> FieldsMut<S> {
    #[inline]
    pub(super) fn bytes<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.sink.put(bytes);
    }

    #[inline]
    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&match self.order {
            HostOrder::Little => value.to_le_bytes(),
            HostOrder::Big => value.to_be_bytes(),
        });
    }

    #[inline]
    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&match self.order {
            HostOrder::Little => value.to_le_bytes(),
            HostOrder::Big => value.to_be_bytes(),
        });
    }

    #[inline]
    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&match self.order {
            HostOrder::Little => value.to_le_bytes(),
            HostOrder::Big => value.to_be_bytes(),
        });
    }
}

/// A structure of fixed length: the first region of an item, or an entry in such a region.
pub(super) trait Format: Sized {
    /// Length of the structure in bytes.
    const BYTES: usize;

    /// Reads the structure. A first region includes the kind and the number of regions. Returns
    /// `None` if there are too few bytes.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;

    /// Writes the structure.
    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>);
}

/// Decodes the structure at the start of a region, which may be longer.
pub(super) fn decode<F: Format>(
    kind: ItemKind,
    region: &[u8],
    order: HostOrder,
) -> Result<F, LogItemCheck> {
    let (item, bytes, needed) = (kind.name(), region.len(), F::BYTES);
    F::read(&mut Fields::new(region, order)).ok_or(LogItemCheck::Short { item, bytes, needed })
}

/// Encodes the structure as a region.
pub(super) fn encode<F: Format>(format: &F, order: HostOrder) -> Vec<u8> {
    let mut fields = FieldsMut::new(order);
    format.write(&mut fields);
    fields.into_bytes()
}
