//! Inode creation: a chunk of free inodes, or a part of one. All fields are big-endian.
//!
//! ```text
//! 0 kind  2 regions  4 group  8 first block  12 inodes 16 inode size 20 blocks 24 generation .. 28
//! ```

use alloc::vec::Vec;

use super::fields::{self, Fields, FieldsMut, Format, HostOrder, Sink};
use super::{ItemHeader, ItemKind};
use crate::addr::{AgBlock, AgNumber};

/// Creation of a chunk of inodes.
#[doc(alias = "xfs_icreate_log")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeCreate {
    /// The allocation group of the chunk.
    pub group: AgNumber,
    /// The first block of the chunk, in the group.
    pub start: AgBlock,
    /// Number of inodes in the chunk.
    pub count: u32,
    /// Length of an inode in bytes.
    pub inode_size: u32,
    /// Number of blocks that the inodes occupy.
    pub length_blocks: u32,
    /// The generation of all inodes of the chunk.
    pub generation: u32,
}

impl InodeCreate {
    /// Encodes the item's only region.
    #[must_use]
    pub fn encode(&self, order: HostOrder) -> Vec<u8> {
        fields::encode(self, order)
    }
}

impl Format for InodeCreate {
    const BYTES: usize = 28;

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        fields.u32()?;
        let mut next = || Some(u32::from_be_bytes(fields.bytes()?));
        Some(Self {
            group: AgNumber(next()?),
            start: AgBlock(next()?),
            count: next()?,
            inode_size: next()?,
            length_blocks: next()?,
            generation: next()?,
        })
    }

    fn write<S: Sink>(&self, fields: &mut FieldsMut<S>) {
        ItemHeader { kind: ItemKind::InodeCreate, regions: 1 }.write(fields);
        let Self { group, start, count, inode_size, length_blocks, generation } = *self;
        for word in [group.0, start.0, count, inode_size, length_blocks, generation] {
            fields.bytes(&word.to_be_bytes());
        }
    }
}
