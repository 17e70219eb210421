//! Writes the blocks of a rebuilt fork.
//!
//! Owns: the choice of a block on disk for each block of the fork. A block of the fork that has a
//! block on disk keeps it, so that the allocated space changes only if the fork's map changes. Does
//! **not** own: the contents of the blocks.

use std::collections::BTreeMap;

use xfs_format::attr::remote::{self, RemoteIdentity};
use xfs_format::extent::{Extent, MAX_EXTENT_BLOCKS};
use xfs_format::inode::{ForkFormat, ForkKind};
use xfs_format::{FileBlock, FsBlock, Geometry, InodeNumber};

use crate::build::attributes::RemotePart;
use crate::build::blocks::NewBlock;
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::model::{Model, ModelFork};
use crate::patient::Patient;

/// A block of a fork that is written: a block of a directory or attribute btree, or a part of a
/// remote value.
#[derive(Clone, Debug)]
pub(crate) enum WrittenBlock {
    /// A block of a directory or of the attribute btree, which contains its own address and
    /// checksum.
    Block(NewBlock),
    /// A part of a remote value: an attribute value that is stored outside of its leaf.
    Value(RemotePart),
}

impl WrittenBlock {
    fn first(&self) -> FileBlock {
        match self {
            Self::Block(block) => block.file_block,
            Self::Value(part) => part.file_block,
        }
    }

    /// Returns the number of filesystem blocks that this block or this part of a value fills.
    fn count(&self, geometry: &Geometry) -> u64 {
        match self {
            Self::Block(block) => block.bytes.len() as u64 >> geometry.block_log,
            Self::Value(_) => 1,
        }
    }
}

/// One fork of one inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForkPlace {
    /// The number of the inode.
    pub(crate) inode: InodeNumber,
    /// The fork of the inode: the data fork or the attribute fork.
    pub(crate) kind: ForkKind,
}

impl ForkPlace {
    /// Returns this fork of the inode in the model. `None` if the model lacks the inode.
    fn of_model(self, model: &Model) -> Option<&ModelFork> {
        let inode = model.inodes.get(&self.inode)?;
        Some(match self.kind {
            ForkKind::Data => &inode.data,
            ForkKind::Attr => &inode.attr,
        })
    }
}

/// Writes `pieces` as the new contents of a fork. Takes free blocks if the fork maps too few, and
/// changes the fork's extent map if the blocks differ.
///
/// # Errors
///
/// [`RepairError::NoSpace`] if too few blocks are free.
pub(crate) fn write(
    patient: &mut Patient,
    model: &Model,
    fork: ForkPlace,
    pieces: Vec<WrittenBlock>,
) -> Result<(), RepairError> {
    let old = fork.of_model(model).map_or(&[][..], |fork| fork.extents.as_slice());
    let places = places(patient, old, fork.inode, &pieces)?;
    let extents = joined(&places, patient.geometry());
    let format = model.core(fork.inode).and_then(|core| core.fork_format(fork.kind));
    let has_extents = matches!(format, Some(ForkFormat::Extents | ForkFormat::Btree));
    if extents != old || !has_extents {
        patient.set_fork(fork.inode, fork.kind, ForkContents::Extents(extents))?;
    }
    for piece in pieces {
        write_piece(patient, fork.inode, &places, piece)?;
    }
    Ok(())
}

/// Returns the block on disk for each block of the fork that `pieces` fill. A block that the fork
/// already maps keeps its place; free blocks are taken for the others.
fn places(
    patient: &mut Patient,
    old: &[Extent],
    inode: InodeNumber,
    pieces: &[WrittenBlock],
) -> Result<BTreeMap<FileBlock, FsBlock>, RepairError> {
    let geometry = patient.geometry().clone();
    let mut places = BTreeMap::new();
    let mut missing = Vec::new();
    for piece in pieces {
        let first = piece.first().0;
        for block in (first..first + piece.count(&geometry)).map(FileBlock) {
            let after = old.partition_point(|extent| extent.file_block <= block);
            let before = after.checked_sub(1).and_then(|index| old.get(index));
            match before.filter(|extent| block < extent.end()) {
                Some(extent) => {
                    let at = FsBlock(extent.start.0 + (block.0 - extent.file_block.0));
                    places.insert(block, at);
                }
                None => missing.push(block),
            }
        }
    }
    if !missing.is_empty() {
        let (near, _) = geometry.split_inode(inode).expect("the inode lies in the volume");
        let count = u32::try_from(missing.len()).expect("a fork has fewer than 2^32 blocks");
        let taken = patient.take_blocks(near, count)?;
        assert_eq!(taken.len(), missing.len(), "as many blocks as were asked for");
        places.extend(missing.into_iter().zip(taken));
    }
    Ok(places)
}

/// Joins blocks to extents. The blocks of an extent are consecutive both in the fork and on the
/// volume, and lie in one group.
fn joined(places: &BTreeMap<FileBlock, FsBlock>, geometry: &Geometry) -> Vec<Extent> {
    let group = |block: FsBlock| geometry.split_block(block).map(|(group, _)| group);
    let mut extents: Vec<Extent> = Vec::new();
    for (file_block, start) in places {
        let last = extents.last_mut().filter(|last| {
            last.end() == *file_block
                && last.start.0 + u64::from(last.length_blocks) == start.0
                && group(last.start) == group(*start)
                && last.length_blocks < MAX_EXTENT_BLOCKS
        });
        match last {
            Some(last) => last.length_blocks += 1,
            None => extents.push(Extent {
                file_block: *file_block,
                start: *start,
                length_blocks: 1,
                unwritten: false,
            }),
        }
    }
    extents
}

fn write_piece(
    patient: &mut Patient,
    owner: InodeNumber,
    places: &BTreeMap<FileBlock, FsBlock>,
    piece: WrittenBlock,
) -> Result<(), RepairError> {
    let geometry = patient.geometry().clone();
    let first = piece.first();
    let address = |block: FileBlock| {
        let place = places.get(&block).expect("each block of the pieces has a place");
        geometry.block_disk_addr(*place).expect("the map of a fork lies inside the volume")
    };
    let bytes = match piece {
        WrittenBlock::Block(block) => block.sealed(address(first), patient.lsn()),
        WrittenBlock::Value(part) => {
            let mut bytes = vec![0; geometry.block_size as usize];
            let identity = RemoteIdentity { owner, uuid: geometry.meta_uuid };
            remote::encode(&mut bytes, address(first), &identity, part.offset, &part.part);
            bytes
        }
    };
    let parts = bytes.chunks(geometry.block_size as usize);
    for (index, part) in parts.enumerate() {
        patient.write(address(FileBlock(first.0 + index as u64)), part)?;
    }
    Ok(())
}
