//! Writing the target of a symbolic link.

use xfs_buffer::{PosixError, Result};
use xfs_format::inode::{FileType, ForkKind};
use xfs_format::symlink::{MAX_TARGET_BYTES, SYMLINK_HEADER_BYTES, encode_header};
use xfs_format::{BlockKind, FileBlock, Geometry};
use xfs_trans::Transaction;

use super::LiveInode;
use super::map::map_blocks;
use crate::extent_map::Mapping;
use crate::fork_block::BlockShape;
use crate::fork_room::literal_bytes;

/// A part of the target of a symbolic link.
struct TargetPiece<'a> {
    /// The offset of the part in the target, in bytes.
    offset: usize,
    bytes: &'a [u8],
}

impl LiveInode {
    /// Stores the target of a new symbolic link: in the inode if the target fits there, or else in
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`PosixError::NameTooLong`] for more than 1024 bytes, [`PosixError::InvalidArgument`] for an
    /// empty target or one with a NUL byte, with nothing changed; the errors of
    /// [`grow_fork`](Self::grow_fork).
    #[doc(alias = "xfs_symlink_write_target")]
    pub fn set_target(&self, tx: &mut Transaction<'_>, target: &[u8]) -> Result<()> {
        if target.len() > MAX_TARGET_BYTES as usize {
            return Err(PosixError::NameTooLong.into());
        }
        let is_link = self.inode().file_type() == FileType::Symlink;
        if target.is_empty() || target.contains(&0) || !is_link {
            return Err(PosixError::InvalidArgument.into());
        }
        if target.len() <= self.local_room(tx.geometry(), ForkKind::Data) {
            return self.set_local(tx, ForkKind::Data, target);
        }
        self.set_remote_target(tx, target)
    }

    /// Writes the target of a symbolic link to newly allocated blocks. The data fork must have no
    /// blocks yet.
    pub(super) fn set_remote_target(&self, tx: &mut Transaction<'_>, target: &[u8]) -> Result<()> {
        let blocks = remote_blocks(tx.geometry(), target.len());
        self.map_run(tx, ForkKind::Data, FileBlock(0), blocks as u32)?;
        let (mut rest, mut next) = (target, FileBlock(0));
        while !rest.is_empty() {
            let mapping = self.inode().find(tx.cache(), ForkKind::Data, next)?;
            let Mapping::Extent(extent) = mapping else {
                return Err(PosixError::InvalidArgument.into());
            };
            // One buffer for each extent, with its own header.
            let offset = target.len() - rest.len();
            let room = ((extent.length_blocks as usize) << tx.geometry().block_log)
                .saturating_sub(SYMLINK_HEADER_BYTES);
            let (piece, after) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            self.write_target_piece(
                tx,
                next,
                extent.length_blocks,
                TargetPiece { offset, bytes: piece },
            )?;
            (rest, next) = (after, extent.end());
        }
        self.change(tx, |core| core.size = target.len() as u64);
        Ok(())
    }

    fn write_target_piece(
        &self,
        tx: &mut Transaction<'_>,
        at: FileBlock,
        length_blocks: u32,
        piece: TargetPiece<'_>,
    ) -> Result<()> {
        let shape = BlockShape { length_blocks, kind: BlockKind::Symlink };
        let buffer = self.claim_fork_block(tx, ForkKind::Data, at, shape)?;
        let header = encode_header(
            tx.geometry(),
            self.number(),
            buffer.at(),
            piece.offset as u32,
            piece.bytes.len() as u32,
        );
        let end = SYMLINK_HEADER_BYTES + piece.bytes.len();
        tx.change(&buffer, 0..end, |bytes| {
            for (into, from) in bytes.iter_mut().zip(header.iter().chain(piece.bytes)) {
                *into = *from;
            }
        });
        Ok(())
    }

    /// Returns the number of blocks that storing the target of a link may take, including the
    /// blocks for the extent map.
    #[must_use]
    pub fn target_blocks(geometry: &Geometry, bytes: usize) -> u64 {
        let blocks = remote_blocks(geometry, bytes);
        blocks * (1 + map_blocks(geometry, ForkKind::Data))
    }

    /// Returns the number of blocks that the owners of a new link must have left for its target, as
    /// in the kernel: none for a target in the inode. With parent pointers (`has_parents`) the
    /// target may have to leave the inode, and counts as stored in blocks.
    #[must_use]
    pub fn target_quota_blocks(geometry: &Geometry, bytes: usize, has_parents: bool) -> u64 {
        let is_local = !has_parents && bytes <= literal_bytes(geometry);
        if is_local { 0 } else { remote_blocks(geometry, bytes) }
    }
}

/// Returns the number of blocks of a target if each block is an extent of its own, and so has a
/// header of its own.
#[doc(alias = "xfs_symlink_blocks")]
fn remote_blocks(geometry: &Geometry, bytes: usize) -> u64 {
    let room = (geometry.block_size as usize).saturating_sub(SYMLINK_HEADER_BYTES).max(1);
    bytes.div_ceil(room) as u64
}
