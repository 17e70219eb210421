//! Intents to exchange extents of two files.
//!
//! ```text
//!  0 kind  2 regions  4 pad  8 id  16 inodes (2 × 8)  32 generations (2 × 4)
//! 40 first blocks (2 × 8)  56 blocks  64 flags  72 sizes (2 × 8)                         .. 88
//! ```

use alloc::vec::Vec;

use super::fields::{self, Fields, FieldsMut, Format, HostOrder, Sink};
use super::{ItemHeader, ItemKind};
use crate::addr::{FileBlock, InodeNumber};

bitflags::bitflags! {
    /// Options of an exchange of extents.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExchangeFlags: u64 {
        /// The extents of the attribute forks are exchanged, not those of the data forks.
        const ATTR_FORK = 1;
        /// The sizes of the files are exchanged too.
        const SET_SIZES = 2;
        /// Holes and unwritten extents of the first file are skipped.
        const INODE1_WRITTEN = 4;
        /// The first file has no shared extents after the exchange.
        const CLEAR_INODE1_REFLINK = 8;
        /// The second file has no shared extents after the exchange.
        const CLEAR_INODE2_REFLINK = 0x10;
        /// All bits. This makes decoding keep the bits that have no name.
        const _ = !0;
    }
}

impl ExchangeFlags {
    /// Returns whether all bits have a name.
    #[must_use]
    pub fn are_known(self) -> bool {
        self.iter_names().fold(0, |named, (_, flag)| named | flag.bits()) == self.bits()
    }
}

/// An intent to exchange extents of two files.
#[doc(alias = "xfs_xmi_log_format")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeIntent {
    /// The identifier that links intent and completion.
    pub id: u64,
    /// The inodes of the two files.
    pub inodes: [InodeNumber; 2],
    /// The generations of the two inodes.
    pub generations: [u32; 2],
    /// The first block of the exchanged range in each file.
    pub starts: [FileBlock; 2],
    /// Number of blocks that are exchanged.
    pub length_blocks: u64,
    /// The options of the exchange.
    pub flags: ExchangeFlags,
    /// The new sizes of the files in bytes, valid with [`ExchangeFlags::SET_SIZES`].
    pub sizes: [u64; 2],
}

impl ExchangeIntent {
    /// Encodes the region.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        fields::encode(self, order)
    }
}

impl Format for ExchangeIntent {
    const BYTES: usize = 88;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.u64()?;
        Some(Self {
            id: fields.u64()?,
            inodes: [InodeNumber(fields.u64()?), InodeNumber(fields.u64()?)],
            generations: [fields.u32()?, fields.u32()?],
            starts: [FileBlock(fields.u64()?), FileBlock(fields.u64()?)],
            length_blocks: fields.u64()?,
            flags: ExchangeFlags::from_bits_retain(fields.u64()?),
            sizes: [fields.u64()?, fields.u64()?],
        })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        ItemHeader { kind: ItemKind::Exchange, regions: 1 }.write(fields);
        fields.u32(0);
        fields.u64(self.id);
        self.inodes.iter().for_each(|inode| fields.u64(inode.0));
        self.generations.iter().for_each(|generation| fields.u32(*generation));
        self.starts.iter().for_each(|start| fields.u64(start.0));
        fields.u64(self.length_blocks);
        fields.u64(self.flags.bits());
        self.sizes.iter().for_each(|size| fields.u64(*size));
    }
}
