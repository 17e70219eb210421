//! Intents about extents (free, reverse map, reference counts, maps of files), and completions. The
//! numbers in the diagram are lengths in bytes.
//!
//! ```text
//! intent      kind 2  regions 2  entries 4  id 8, then the entries
//! EFI entry   block 8  length 4  (pad 4; not on 32-bit x86)
//! RUI, BUI    owner 8  block 8  offset 8  length 4  flags 4
//! CUI         block 8  length 4  flags 4
//! completion  kind 2  regions 2  pad 4  id 8; the completion of an EFI repeats the entries
//! ```

use alloc::vec::Vec;

use super::fields::{Fields, FieldsMut, Format, HostOrder, Sink};
use super::{ItemHeader, ItemKind, LogItemCheck};
use crate::addr::{FileBlock, FsBlock, InodeNumber};

const HEADER_BYTES: usize = 16;

/// Length in bytes of an extent to free as 32-bit x86 kernels write it, without padding.
const PACKED_EXTENT_BYTES: usize = 12;

/// An extent that an intent requests to free.
#[doc(alias = "xfs_extent")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentFree {
    /// The first block of the extent.
    pub start: FsBlock,
    /// Number of blocks.
    pub length_blocks: u32,
}

impl Format for ExtentFree {
    const BYTES: usize = 16;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { start: FsBlock(fields.u64()?), length_blocks: fields.u32()? })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        fields.u64(self.start.0);
        fields.u32(self.length_blocks);
        fields.u32(0);
    }
}

/// A change of the reverse map that an intent requests.
#[doc(alias = "xfs_map_extent")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RmapExtent {
    /// Owner of the extent: an inode number, or a code for a metadata owner.
    pub owner: u64,
    /// The first block of the extent.
    pub start: FsBlock,
    /// Offset of the extent's first block in the owner's fork.
    pub offset: FileBlock,
    /// Number of blocks.
    pub length_blocks: u32,
    /// Bits for the action, for the fork, and for blocks that are unwritten.
    pub flags: u32,
}

/// A change of a file's map that an intent requests.
#[doc(alias = "xfs_map_extent")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapExtent {
    /// The inode of the file.
    pub inode: InodeNumber,
    /// The first block of the extent.
    pub start: FsBlock,
    /// Offset of the extent's first block in the fork.
    pub offset: FileBlock,
    /// Number of blocks.
    pub length_blocks: u32,
    /// Bits for the action, for the fork, and for blocks that are unwritten.
    pub flags: u32,
}

impl Format for RmapExtent {
    const BYTES: usize = 32;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            owner: fields.u64()?,
            start: FsBlock(fields.u64()?),
            offset: FileBlock(fields.u64()?),
            length_blocks: fields.u32()?,
            flags: fields.u32()?,
        })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        fields.u64(self.owner);
        fields.u64(self.start.0);
        fields.u64(self.offset.0);
        fields.u32(self.length_blocks);
        fields.u32(self.flags);
    }
}

impl Format for MapExtent {
    const BYTES: usize = RmapExtent::BYTES;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let RmapExtent { owner, start, offset, length_blocks, flags } = RmapExtent::read(fields)?;
        Some(Self { inode: InodeNumber(owner), start, offset, length_blocks, flags })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        let Self { inode, start, offset, length_blocks, flags } = *self;
        RmapExtent { owner: inode.0, start, offset, length_blocks, flags }.write(fields);
    }
}

/// A change of reference counts that an intent requests.
#[doc(alias = "xfs_phys_extent")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefcountExtent {
    /// The first block of the extent.
    pub start: FsBlock,
    /// Number of blocks.
    pub length_blocks: u32,
    /// The action of the intent, as bits.
    pub flags: u32,
}

impl Format for RefcountExtent {
    const BYTES: usize = 16;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (start, length_blocks) = (FsBlock(fields.u64()?), fields.u32()?);
        Some(Self { start, length_blocks, flags: fields.u32()? })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        fields.u64(self.start.0);
        fields.u32(self.length_blocks);
        fields.u32(self.flags);
    }
}

/// The extents of an intent, or of a completion that repeats them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentExtents<E> {
    /// The identifier that links intent and completion.
    pub id: u64,
    /// The extents.
    pub extents: Vec<E>,
}

/// Decodes a region with a list of extents.
pub(super) fn decode_list<E: Format>(
    kind: ItemKind,
    region: &[u8],
    order: HostOrder,
) -> Result<IntentExtents<E>, LogItemCheck> {
    let bytes = region.len();
    let short = LogItemCheck::Short { item: kind.name(), bytes, needed: HEADER_BYTES };
    let (header, entries) = region.split_at_checked(HEADER_BYTES).ok_or(short)?;
    let (count, id) = read_header(header, order).ok_or(short)?;
    let frees = matches!(
        kind,
        ItemKind::ExtentFree
            | ItemKind::ExtentFreeDone
            | ItemKind::RealtimeFree
            | ItemKind::RealtimeFreeDone
    );
    let is_packed = frees && entries.len() == count as usize * PACKED_EXTENT_BYTES;
    let entry_bytes = if is_packed { PACKED_EXTENT_BYTES } else { E::BYTES };
    // The count is not trusted: it must equal the number of entries in the region (I1).
    if entries.len() / entry_bytes != count as usize {
        return Err(LogItemCheck::Entries { item: kind.name(), count, bytes });
    }
    let extents = entries.chunks_exact(entry_bytes);
    let extents = extents.map(|entry| E::read(&mut Fields::new(entry, order)));
    let extents = extents.collect::<Option<Vec<_>>>();
    Ok(IntentExtents { id, extents: extents.ok_or(short)? })
}

/// Encodes a list of extents as a region.
pub(super) fn encode_list<E: Format>(
    kind: ItemKind,
    list: &IntentExtents<E>,
    order: HostOrder,
) -> Vec<u8> {
    let mut fields = FieldsMut::new(order);
    ItemHeader { kind, regions: 1 }.write(&mut fields);
    fields.u32(list.extents.len() as u32);
    fields.u64(list.id);
    for extent in &list.extents {
        extent.write(&mut fields);
    }
    fields.into_bytes()
}

/// Reads the number of entries and the identifier. Returns `None` if there are too few bytes.
fn read_header(header: &[u8], order: HostOrder) -> Option<(u32, u64)> {
    let mut fields = Fields::new(header, order);
    fields.u32()?;
    Some((fields.u32()?, fields.u64()?))
}

/// The completion of an intent.
#[doc(alias = "done item")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntentDone {
    /// The kind of the completion item.
    pub kind: ItemKind,
    /// The identifier of the intent that is completed.
    pub id: u64,
}

impl IntentDone {
    pub(super) fn read(
        kind: ItemKind,
        region: &[u8],
        order: HostOrder,
    ) -> Result<Self, LogItemCheck> {
        let short =
            LogItemCheck::Short { item: kind.name(), bytes: region.len(), needed: HEADER_BYTES };
        let (_, id) = read_header(region, order).ok_or(short)?;
        Ok(Self { kind, id })
    }

    pub(super) fn encode(&self, order: HostOrder) -> Vec<u8> {
        let mut fields = FieldsMut::new(order);
        ItemHeader { kind: self.kind, regions: 1 }.write(&mut fields);
        fields.u32(0);
        fields.u64(self.id);
        fields.into_bytes()
    }
}
