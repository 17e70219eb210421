//! Replay of logged buffers: the logged byte ranges are written over the block on disk.

use xfs_buffer::Result;
use xfs_format::btree::BtreeKind;
use xfs_format::features::IncompatFeatures;
use xfs_format::inode::{self, INODE_MAGIC};
use xfs_format::kind;
use xfs_format::log_item::{
    BufferFlags, BufferFormat, BufferRegion, BufferType, LogItemCheck, LoggedBuffer,
};
use xfs_format::superblock::Superblock;
use xfs_format::symlink::{MAX_TARGET_BYTES, SYMLINK_HEADER_BYTES};
use xfs_format::{
    BASIC_BLOCK_BYTES, BlockKind, Check, Corruption, DiskAddr, FormatVersion, Geometry, Structure,
    StructureAddress, VerifyContext, dabtree,
};

use super::Targets;
use super::dquot::{self, DquotReplay};
use super::realtime;
use super::refusal::RecoveryError;
use super::store::RecoveryStore;

/// The offset in bytes in a directory's file at which its hash index starts.
#[doc(alias = "XFS_DIR2_LEAF_OFFSET")]
const INDEX_OFFSET: u64 = 32 << 30;

/// The offset in bytes, in a node of a directory or attribute btree, of the node's own address.
const NODE_PLACE: usize = 16;

/// The offset in bytes, in an inode, of the link to the next inode of an unlinked list.
const NEXT_UNLINKED: usize = 96;

/// Replays a buffer that is not cancelled. Returns `false` if the buffer was skipped, because the
/// block on disk was not older, or because dquots of its type are not replayed.
///
/// If the replay ends before the end of the log, the lost part may have freed the block, and the
/// block may hold file data by now. Therefore a buffer is then also skipped if the block on disk is
/// not metadata with an LSN. Pieces of directory blocks, blocks of dquots and buffers of v4 volumes
/// are skipped too, because they have no LSN that can be compared.
#[doc(alias = "xlog_recover_buf_commit_pass2")]
pub(super) fn replay(
    store: &mut RecoveryStore,
    dquots: &mut DquotReplay,
    item: &LoggedBuffer<'_>,
) -> Result<bool, RecoveryError> {
    let format = &item.format;
    store.check_range(format.at, format.blocks.into())?;
    if format.flags.contains(BufferFlags::INODES) {
        replay_links(store, item)?;
        return Ok(true);
    }
    if let Some(kind) = format.buffer_type().and_then(dquot::kind_of_buffer) {
        if store.is_cut {
            return Ok(dquots.skip(store, kind));
        }
        return dquots.replay_buffer(store, item, kind);
    }
    if store.geometry().version == FormatVersion::V4 {
        if store.is_cut {
            return Ok(false);
        }
        replay_v4(store, item)?;
        return Ok(true);
    }
    let raw = (format.flags.bits() >> 11) as u8;
    let wrong_type = || store.corrupt(LogItemCheck::BufferType { raw });
    let buffer_type = format.buffer_type().ok_or_else(wrong_type)?;
    let may_be_realtime =
        store.geometry().has_incompat(IncompatFeatures::METADIR) || is_realtime(buffer_type);
    if may_be_realtime && let Some(changed) = realtime::replay(store, item, buffer_type)? {
        return Ok(changed);
    }
    let length = usize::from(format.blocks) * BASIC_BLOCK_BYTES as usize;
    let mut bytes = store.read(format.at, length)?;
    let logged = kind::find_lsn(&bytes, store.geometry());
    for BufferRegion { offset_bytes, bytes: piece } in &item.pieces {
        let target = bytes.get_mut(*offset_bytes..offset_bytes + piece.len());
        // Decoding has compared the bitmap with the length.
        target.ok_or_else(wrong_type)?.copy_from_slice(piece);
    }
    if is_part(buffer_type, &bytes, format.at, store.geometry()) {
        if store.is_cut {
            return Ok(false);
        }
        for piece in &item.pieces {
            store.write(format.at, piece.offset_bytes, piece.bytes)?;
        }
        let lsn = store.lsn();
        store.pieces.note(format.at, length, lsn);
        return Ok(true);
    }
    if logged.is_some_and(|logged| logged >= store.lsn()) {
        return Ok(false);
    }
    if store.is_cut && logged.is_none() && !is_metadata(store, item, buffer_type)? {
        return Ok(false);
    }
    let Some(kind) = kind_of(buffer_type, &bytes, store.geometry()) else {
        if buffer_type == BufferType::Btree && store.targets == Targets::Damaged {
            return Ok(false);
        }
        return Err(wrong_type().into());
    };
    check_length(store, length, kind)?;
    for piece in &item.pieces {
        store.write(format.at, piece.offset_bytes, piece.bytes)?;
    }
    store.touch(format.at, length, kind);
    if kind == BlockKind::Superblock && format.at == DiskAddr(0) {
        read_geometry(store, bytes)?;
    }
    Ok(true)
}

/// Returns whether the block on disk over which a buffer would be replayed is valid metadata of the
/// type `buffer_type`. Called for a block whose LSN does not say how old it is: the block was not
/// logged since mkfs or a repair wrote it. A block that transactions of the current LSN have
/// changed counts as metadata.
fn is_metadata(
    store: &RecoveryStore,
    item: &LoggedBuffer<'_>,
    buffer_type: BufferType,
) -> Result<bool> {
    let (at, geometry) = (item.format.at, store.geometry());
    if store.is_unsealed(at) {
        return Ok(true);
    }
    let on_disk = store.read(at, usize::from(item.format.blocks) * BASIC_BLOCK_BYTES as usize)?;
    let context = VerifyContext { geometry, log_head: None };
    let kind = kind_of(buffer_type, &on_disk, geometry);
    Ok(kind.is_some_and(|kind| kind.verify(&on_disk, at, &context).is_ok()))
}

/// Replays a buffer of a v4 volume. Its blocks have no LSN, so every logged change is replayed in
/// the order of the log, whatever is on disk: the log holds all later changes too.
///
/// A buffer of a known type is verified after the last change. Kernels before 3.8 logged no types.
/// New inode chunks are logged as buffers, because v4 logs have no item for them.
fn replay_v4(store: &mut RecoveryStore, item: &LoggedBuffer<'_>) -> Result<(), RecoveryError> {
    let format = &item.format;
    let length = usize::from(format.blocks) * BASIC_BLOCK_BYTES as usize;
    for piece in &item.pieces {
        let outside = LogItemCheck::Piece { bytes: length, needed: piece.offset_bytes };
        if piece.offset_bytes + piece.bytes.len() > length {
            return Err(store.corrupt(outside).into());
        }
        store.write(format.at, piece.offset_bytes, piece.bytes)?;
    }
    let buffer_type = format.buffer_type();
    if buffer_type == Some(BufferType::Inodes) {
        store.forget(format.at, format.blocks.into());
        return Ok(());
    }
    let bytes = store.read(format.at, length)?;
    let kind = buffer_type.and_then(|buffer| kind_of(buffer, &bytes, store.geometry()));
    if let Some(kind) = kind.filter(|kind| check_length(store, length, *kind).is_ok()) {
        store.touch(format.at, length, kind);
    }
    // Without a type the address identifies the superblock, which every growth changes.
    if format.at == DiskAddr(0) {
        read_geometry(store, bytes)?;
    }
    Ok(())
}

const fn is_realtime(buffer_type: BufferType) -> bool {
    matches!(buffer_type, BufferType::RealtimeBitmap | BufferType::RealtimeSummary)
}

/// Returns the kind of the block that a logged buffer is. `bytes` are the bytes of the whole buffer
/// after the change.
///
/// Returns `None` for a buffer that is not one whole block with a checksum of its own: inodes,
/// dquots, realtime bitmaps and summaries, a piece of a directory block, buffers of unknown types,
/// and all buffers of v4 volumes.
#[must_use]
pub fn kind_of_buffer(
    format: &BufferFormat,
    bytes: &[u8],
    geometry: &Geometry,
) -> Option<BlockKind> {
    let is_inodes = format.flags.contains(BufferFlags::INODES);
    if is_inodes || geometry.version == FormatVersion::V4 {
        return None;
    }
    let buffer_type = format.buffer_type()?;
    if is_part(buffer_type, bytes, format.at, geometry) {
        return None;
    }
    let kind = kind_of(buffer_type, bytes, geometry)?;
    let is_whole = match needed_bytes(kind, geometry) {
        Some(needed) => needed == bytes.len(),
        None => bytes.len() <= longest_link_bytes(geometry),
    };
    is_whole.then_some(kind)
}

/// Returns the length in bytes of the longest buffer of a symbolic link: that of the longest target
/// in one extent.
fn longest_link_bytes(geometry: &Geometry) -> usize {
    let block = geometry.block_size as usize;
    let room = block.saturating_sub(SYMLINK_HEADER_BYTES).max(1);
    (MAX_TARGET_BYTES as usize).div_ceil(room) * block
}

/// Returns the kind that the buffer has after the change, or `None` if buffers of this type are not
/// replayed. For btrees the kind depends on the magic number; for all other types, `buffer_type`
/// alone gives the kind.
#[doc(alias = "xlog_recover_validate_buf_type")]
fn kind_of(buffer_type: BufferType, bytes: &[u8], geometry: &Geometry) -> Option<BlockKind> {
    Some(match buffer_type {
        BufferType::Btree => {
            let magic = u32::from_be_bytes(*bytes.first_chunk()?);
            BlockKind::Btree(BtreeKind::of_magic_in(magic, geometry.version)?)
        }
        BufferType::Agf => BlockKind::Agf,
        BufferType::Agfl => BlockKind::Agfl,
        BufferType::Agi => BlockKind::Agi,
        BufferType::Symlink => BlockKind::Symlink,
        BufferType::DirectoryBlock | BufferType::DirectoryData => BlockKind::DirectoryData,
        BufferType::DirectoryFree => BlockKind::DirectoryFree,
        BufferType::DirectoryLeaf1 | BufferType::DirectoryLeafN => BlockKind::DirectoryIndex,
        BufferType::DaNode if points_into_directory(bytes, geometry) => BlockKind::DirectoryIndex,
        BufferType::DaNode | BufferType::AttrLeaf => BlockKind::Attr,
        BufferType::Superblock => BlockKind::Superblock,
        // Inodes have a flag of their own, and remote values are never logged.
        _ => return None,
    })
}

/// Returns whether a buffer, after the change, is one piece of a directory block that lies in
/// several pieces.
fn is_part(buffer_type: BufferType, bytes: &[u8], at: DiskAddr, geometry: &Geometry) -> bool {
    let whole = geometry.directory_block_size() as usize;
    if bytes.len() >= whole || !bytes.len().is_multiple_of(geometry.block_size as usize) {
        return false;
    }
    match buffer_type {
        BufferType::DirectoryBlock
        | BufferType::DirectoryData
        | BufferType::DirectoryFree
        | BufferType::DirectoryLeaf1
        | BufferType::DirectoryLeafN => true,
        // Nodes of attributes are whole blocks, and have their header.
        BufferType::DaNode => {
            let place = bytes.get(NODE_PLACE..).and_then(<[u8]>::first_chunk::<8>);
            let has_header = dabtree::magic(bytes) == Some(dabtree::NODE_MAGIC)
                && place.is_some_and(|place| u64::from_be_bytes(*place) == at.0);
            !has_header || points_into_directory(bytes, geometry)
        }
        _ => false,
    }
}

/// Returns whether the first child of a node lies where only directories have index blocks. Nodes
/// of attributes are filesystem blocks, and nodes of directories are directory blocks. Nothing else
/// distinguishes the two kinds of nodes.
fn points_into_directory(node: &[u8], geometry: &Geometry) -> bool {
    let first_child = match geometry.version {
        FormatVersion::V4 => 20,
        FormatVersion::V5 => 68,
    };
    let child = node.get(first_child..).and_then(<[u8]>::first_chunk::<4>);
    let child = child.map_or(0, |child| u32::from_be_bytes(*child));
    u64::from(child) << geometry.block_log >= INDEX_OFFSET
}

/// Checks that a buffer of `length` bytes has all the bytes that the checksum of a block of this
/// kind covers, so that the checksum can be computed after the replay.
fn check_length(
    store: &RecoveryStore,
    length: usize,
    kind: BlockKind,
) -> Result<(), RecoveryError> {
    match needed_bytes(kind, store.geometry()) {
        Some(needed) if needed != length => {
            Err(store.corrupt(Check::Truncated { available: length, needed }).into())
        }
        _ => Ok(()),
    }
}

/// Returns the length in bytes of a block of this kind. `None` for blocks of symbolic links, whose
/// length varies.
fn needed_bytes(kind: BlockKind, geometry: &Geometry) -> Option<usize> {
    let needed = match kind {
        BlockKind::Superblock | BlockKind::Agf | BlockKind::Agi | BlockKind::Agfl => {
            geometry.sector_size
        }
        BlockKind::DirectoryData | BlockKind::DirectoryIndex | BlockKind::DirectoryFree => {
            geometry.directory_block_size()
        }
        BlockKind::Symlink => return None,
        _ => geometry.block_size,
    };
    Some(needed as usize)
}

/// Decodes the primary superblock after its logged change. The rest of the replay uses the new
/// superblock, because the volume may have grown.
#[doc(alias = "xlog_recover_do_primary_sb_buffer")]
fn read_geometry(store: &mut RecoveryStore, mut bytes: Vec<u8>) -> Result<(), RecoveryError> {
    if store.geometry().version == FormatVersion::V5 {
        BlockKind::Superblock.seal(&mut bytes, store.lsn());
    }
    let place = StructureAddress::Disk(DiskAddr(0));
    let superblock = Superblock::decode(&bytes, place).map_err(xfs_buffer::Error::from)?;
    let (before, found) = (store.geometry().ag_count, superblock.geometry.ag_count);
    if found < before {
        return Err(store.corrupt(LogItemCheck::Groups { found, before }).into());
    }
    store.set_superblock(superblock);
    Ok(())
}

/// Replays the links of unlinked lists from a logged inode buffer. All other fields of an inode
/// have a log item of their own, or are written by the creation of the cluster.
#[doc(alias = "xlog_recover_do_inode_buffer")]
fn replay_links(store: &RecoveryStore, item: &LoggedBuffer<'_>) -> Result<()> {
    let inode_size = store.geometry().inode_size as usize;
    let length = usize::from(item.format.blocks) * BASIC_BLOCK_BYTES as usize;
    for start in (0..length).step_by(inode_size).take_while(|start| start + inode_size <= length) {
        let Some(link) = find_bytes(&item.pieces, start + NEXT_UNLINKED) else { continue };
        if link == [0; 4] {
            return Err(store.corrupt(LogItemCheck::NextUnlinked).into());
        }
        let at = DiskAddr(item.format.at.0 + (start / BASIC_BLOCK_BYTES as usize) as u64);
        let skipped = start % BASIC_BLOCK_BYTES as usize;
        let mut bytes = store.read(at, skipped + inode_size)?;
        let inode = bytes.get_mut(skipped..).expect("the inode was read after the skipped bytes");
        let found = inode.first_chunk().map_or(0, |magic| u16::from_be_bytes(*magic));
        if found != INODE_MAGIC && store.targets == Targets::Damaged {
            continue;
        }
        // The lost part of the log may have changed the link of a newer inode.
        if store.is_cut && store.is_current_inode(inode) {
            continue;
        }
        if found != INODE_MAGIC {
            let (found, expected) = (found.into(), INODE_MAGIC.into());
            let check = Check::Magic { found, expected };
            return Err(Corruption::new(Structure::Inode, StructureAddress::Disk(at), check).into());
        }
        let field = inode.get_mut(NEXT_UNLINKED..NEXT_UNLINKED + 4);
        field.expect("an inode holds a link").copy_from_slice(&link);
        if store.geometry().version == FormatVersion::V5 {
            xfs_format::crc::seal(inode, inode::CRC_OFFSET);
        }
        store.write(at, skipped, inode)?;
    }
    Ok(())
}

/// Returns the four bytes at `offset` of a buffer whose logged regions are `pieces`. `None` if
/// these bytes were not logged.
fn find_bytes(pieces: &[BufferRegion<'_>], offset: usize) -> Option<[u8; 4]> {
    let mut found = pieces.iter().filter_map(|piece| {
        let inside = offset.checked_sub(piece.offset_bytes)?;
        piece.bytes.get(inside..)?.first_chunk().copied()
    });
    found.next()
}
