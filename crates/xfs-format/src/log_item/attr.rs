//! Intents to change an extended attribute.
//!
//! ```text
//! format  0 kind  2 regions  4 generation  8 id  16 inode  24 operation  28 name bytes
//!        32 value bytes  36 filter                                                      .. 40
//! then    old name; new name; value; new value: each only if the operation has it
//! ```
//!
//! An operation that replaces a parent pointer has two names and two values. The field for the name
//! bytes then holds two 16-bit lengths, and both values have the same length.

use alloc::vec::Vec;

use super::fields::{Fields, FieldsMut, HostOrder};
use super::{ItemHeader, ItemKind, LogItemCheck};
use crate::addr::InodeNumber;

const MAX_NAME_BYTES: u32 = 255;
const MAX_VALUE_BYTES: u32 = 64 << 10;

/// The valid bits of the field `filter` of an intent: the flags of namespaces, and the flag of an
/// incomplete attribute.
const FILTERS: u32 = 0x02 | 0x04 | 0x08 | 0x80;

/// A change of an attribute that an intent requests.
#[doc(alias = "XFS_ATTRI_OP_FLAGS_SET")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrOperation {
    /// Creates the attribute.
    Set,
    /// Removes the attribute.
    Remove,
    /// Changes the value of the attribute.
    Replace,
    /// Creates a parent pointer.
    ParentSet,
    /// Removes a parent pointer.
    ParentRemove,
    /// Replaces a parent pointer.
    ParentReplace,
}

impl AttrOperation {
    const ALL: [Self; 6] = [
        Self::Set,
        Self::Remove,
        Self::Replace,
        Self::ParentSet,
        Self::ParentRemove,
        Self::ParentReplace,
    ];

    /// Returns the number that stands for this operation in the log.
    #[must_use]
    pub const fn encode(self) -> u32 {
        self as u32 + 1
    }

    /// Returns the operation that this number stands for in the log, or `None` if the number is
    /// unknown.
    #[must_use]
    pub fn decode(raw: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.encode() == raw)
    }

    /// Returns whether the operation changes a parent pointer.
    #[must_use]
    pub const fn is_parent(self) -> bool {
        matches!(self, Self::ParentSet | Self::ParentRemove | Self::ParentReplace)
    }

    /// Returns the name of the operation in output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Remove => "remove",
            Self::Replace => "replace",
            Self::ParentSet => "set parent",
            Self::ParentRemove => "remove parent",
            Self::ParentReplace => "replace parent",
        }
    }

    /// Returns whether the operation has a value as well as a name.
    const fn has_value(self) -> bool {
        !matches!(self, Self::Remove)
    }
}

/// The names and values of an operation, without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttrNames<'a> {
    /// The name of the attribute.
    pub name: &'a [u8],
    /// The new name, if the operation replaces a parent pointer.
    pub new_name: Option<&'a [u8]>,
    /// The value; empty if the operation has none.
    pub value: &'a [u8],
    /// The new value, if the operation replaces a parent pointer.
    pub new_value: Option<&'a [u8]>,
}

/// An intent to change an attribute.
#[doc(alias = "xfs_attri_log_format")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttrIntent<'a> {
    /// The identifier that links intent and completion.
    pub id: u64,
    /// The inode of the file.
    pub inode: InodeNumber,
    /// The generation of the inode. Only operations on parent pointers use it.
    pub generation: u32,
    /// The change of the attribute that the intent requests.
    pub operation: AttrOperation,
    /// The flags of the attribute's namespace, and the flag of an incomplete attribute.
    pub filter: u32,
    /// The names and values of the operation.
    pub names: AttrNames<'a>,
}

struct AttrFormat {
    generation: u32,
    id: u64,
    inode: u64,
    operation: u32,
    name_bytes: u32,
    value_bytes: u32,
    filter: u32,
}

const FORMAT_BYTES: usize = 40;

impl AttrFormat {
    fn read(region: &[u8], order: HostOrder) -> Option<Self> {
        let mut fields = Fields::new(region, order);
        fields.u32()?;
        Some(Self {
            generation: fields.u32()?,
            id: fields.u64()?,
            inode: fields.u64()?,
            operation: fields.u32()?,
            name_bytes: fields.u32()?,
            value_bytes: fields.u32()?,
            filter: fields.u32()?,
        })
    }
}

impl<'a> AttrIntent<'a> {
    pub(super) fn read(
        first: &[u8],
        rest: &[&'a [u8]],
        order: HostOrder,
    ) -> Result<Self, LogItemCheck> {
        let (item, bytes) = (ItemKind::Attr.name(), first.len());
        let short = LogItemCheck::Short { item, bytes, needed: FORMAT_BYTES };
        let format = AttrFormat::read(first, order).ok_or(short)?;
        let raw = format.operation;
        let operation = AttrOperation::decode(raw).ok_or(LogItemCheck::AttrOperation { raw })?;
        let filter = format.filter;
        if filter & !FILTERS != 0 {
            return Err(LogItemCheck::AttrFilter { filter });
        }
        let names = Self::read_names(operation, &format, rest, order)?;
        let (id, inode) = (format.id, InodeNumber(format.inode));
        Ok(Self { id, inode, generation: format.generation, operation, filter, names })
    }

    fn read_names(
        operation: AttrOperation,
        format: &AttrFormat,
        rest: &[&'a [u8]],
        order: HostOrder,
    ) -> Result<AttrNames<'a>, LogItemCheck> {
        let replaces_parent = operation == AttrOperation::ParentReplace;
        let (name, value) = (format.name_bytes, format.value_bytes);
        let (old_bytes, new_bytes) = match (replaces_parent, order) {
            (false, _) => (name, None),
            // The field holds two words. The first is the old name's length, in either byte order.
            (true, HostOrder::Little) => (name & 0xffff, Some(name >> 16)),
            (true, HostOrder::Big) => (name >> 16, Some(name & 0xffff)),
        };
        let is_name = |bytes: u32| (1..=MAX_NAME_BYTES).contains(&bytes);
        let lengths_hold = is_name(old_bytes) && new_bytes.is_none_or(is_name);
        if !lengths_hold || value > MAX_VALUE_BYTES || (operation.is_parent() && value == 0) {
            return Err(LogItemCheck::AttrLengths { name, value });
        }
        let has_value = operation.has_value() && value != 0;
        let (found, promised) =
            (rest.len() + 1, 2 + usize::from(has_value) + 2 * usize::from(replaces_parent));
        let item = ItemKind::Attr.name();
        if found != promised {
            return Err(LogItemCheck::Regions { item, found, promised });
        }
        let mut rest = rest.iter().copied();
        let mut next = |needed: u32| {
            let (region, needed) = (rest.next().unwrap_or_default(), needed as usize);
            let short = LogItemCheck::Short { item, bytes: region.len(), needed };
            region.get(..needed).ok_or(short)
        };
        let name = next(old_bytes)?;
        let new_name = new_bytes.map(&mut next).transpose()?;
        let old_value = if has_value { next(value)? } else { &[] };
        let new_value = if replaces_parent { Some(next(value)?) } else { None };
        Ok(AttrNames { name, new_name, value: old_value, new_value })
    }

    /// Encodes the regions of the item, with names and values padded to a multiple of four bytes.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<Vec<u8>> {
        let AttrNames { name, new_name, value, new_value } = self.names;
        let value_region = (!value.is_empty()).then_some(value);
        let pieces = [Some(name), new_name, value_region, new_value];
        let padded = |piece: &[u8]| {
            let mut region = piece.to_vec();
            region.resize(piece.len().next_multiple_of(4), 0);
            region
        };
        let pieces: Vec<Vec<u8>> = pieces.into_iter().flatten().map(padded).collect();
        let mut fields = FieldsMut::new(order);
        let regions = 1 + pieces.len() as u16;
        ItemHeader { kind: ItemKind::Attr, regions }.write(&mut fields);
        fields.u32(self.generation);
        fields.u64(self.id);
        fields.u64(self.inode.0);
        fields.u32(self.operation.encode());
        match new_name {
            None => fields.u32(name.len() as u32),
            Some(new_name) => {
                fields.u16(name.len() as u16);
                fields.u16(new_name.len() as u16);
            }
        }
        fields.u32(value.len() as u32);
        fields.u32(self.filter);
        let mut regions = Vec::with_capacity(1 + pieces.len());
        regions.push(fields.into_bytes());
        regions.extend(pieces);
        regions
    }
}
