//! Replay of logged inodes: core and forks are written over the inode on disk.

use xfs_buffer::Result;
use xfs_format::btree::BtreeKind;
use xfs_format::inode::{self, CORE_BYTES, FORK_OFFSET_BYTES, ForkFormat, INODE_MAGIC, InodeDisk};
use xfs_format::log_item::{
    HostOrder, InodeItem, LOG_CORE_BYTES_V4, LogItemCheck, LoggedFields, core_to_disk,
    core_to_disk_v4, logged_flush_count, stored_flush_count,
};
use xfs_format::{Check, Corruption, FormatVersion, Structure, StructureAddress};
use zerocopy::FromBytes;

use super::Targets;
use super::realtime;
use super::refusal::{RecoveryError, Refusal};
use super::store::RecoveryStore;

/// The offset in bytes, in the core, of the format of the data fork.
const DATA_FORMAT_AT: usize = 5;
/// The offset in bytes, in the core, of the kind of a metadata inode.
const METATYPE_AT: usize = 6;
/// The offset in bytes, in the core, of the field that says where the attribute fork begins.
const FORK_OFFSET_AT: usize = 82;
/// The length in bytes of the header of a btree root in a fork: level and number of records.
const DISK_ROOT_BYTES: usize = 4;
/// The length in bytes of a key, and also of a pointer.
const ENTRY_BYTES: usize = 8;

/// Replays an inode. Returns `false` if it was skipped because the inode on disk is newer than the
/// logged one, or destroyed.
#[doc(alias = "xlog_recover_inode_commit_pass2")]
pub(super) fn replay(
    store: &mut RecoveryStore,
    item: &InodeItem<'_>,
    order: HostOrder,
) -> Result<bool, RecoveryError> {
    let format = &item.format;
    let number = format.inode;
    let (cluster, inside) = store.inode_address(number)?;
    // The log names the address too; it must be the one that follows from the number.
    let logged = format.cluster.byte_offset().map(|at| at + u64::from(format.offset_bytes));
    if logged != cluster.byte_offset().map(|at| at + inside as u64) {
        let value = format.cluster.0;
        return Err(store.corrupt(LogItemCheck::OutOfRange { field: "cluster", value }).into());
    }
    let mut bytes = store.read_inode(number)?;
    let (on_disk, _) = InodeDisk::ref_from_prefix(&bytes)
        .map_err(|_| store.corrupt(LogItemCheck::OutOfRange { field: "inode", value: number.0 }))?;
    let magic = on_disk.magic.get();
    if magic != INODE_MAGIC && store.targets == Targets::Damaged {
        return Ok(false);
    }
    if magic != INODE_MAGIC {
        let check = Check::Magic { found: magic.into(), expected: INODE_MAGIC.into() };
        return Err(
            Corruption::new(Structure::Inode, StructureAddress::Inode(number), check).into()
        );
    }
    let version = item.version();
    if version != store.geometry().version {
        let (field, value) = ("version of the inode's volume", version.number().into());
        return Err(store.corrupt(LogItemCheck::OutOfRange { field, value }).into());
    }
    let is_newer = match version {
        FormatVersion::V4 => is_flushed_later(&bytes, item.core, order),
        FormatVersion::V5 => {
            let lsn = xfs_format::Lsn(on_disk.lsn.get());
            !lsn.is_null() && lsn > store.lsn()
        }
    };
    if is_newer {
        return Ok(false);
    }
    if format.fields.intersects(LoggedFields::DATA_OWNER | LoggedFields::ATTR_OWNER) {
        return Err(Refusal::BlockOwner { inode: number }.into());
    }
    apply_inode_item(item, order, &mut bytes).map_err(|check| store.corrupt(check))?;
    if version == FormatVersion::V5 {
        inode::seal(&mut bytes, store.lsn());
    }
    store.write_inode(number, &bytes)?;
    store.touch_inode(number);
    Ok(true)
}

/// Returns whether the inode of a v4 volume in `bytes` was written in place after `core` was
/// logged. An inode of a v4 volume has no LSN. It counts how often it was written in place, and the
/// count starts again at 0 after the highest number.
#[doc(alias = "di_flushiter")]
pub(super) fn is_flushed_later(bytes: &[u8], core: &[u8], order: HostOrder) -> bool {
    let (Some(stored), Some(core)) = (stored_flush_count(bytes), core.first_chunk()) else {
        return false;
    };
    let logged = logged_flush_count(core, order);
    let has_wrapped = stored == u16::MAX && logged < u16::MAX / 2;
    logged < stored && !has_wrapped
}

/// Replaces the core of the inode of a v4 volume in `bytes`. The link of an unlinked list stays: on
/// disk it lies after the bytes of the logged core.
fn replay_core_v4(core: &[u8], order: HostOrder, bytes: &mut [u8]) -> Result<(), LogItemCheck> {
    let (needed, available) = (LOG_CORE_BYTES_V4, core.len());
    let short = LogItemCheck::Short { item: "INODE", bytes: available, needed };
    let core = core_to_disk_v4(core.first_chunk().ok_or(short)?, order);
    let target = bytes.first_chunk_mut().expect("an inode is as long as the superblock says");
    *target = core;
    Ok(())
}

/// Applies the logged parts of an inode to `bytes`, the inode in disk form. The LSN and the
/// checksum are not set. The link of an unlinked list stays, because it is not logged with the
/// inode.
///
/// # Errors
///
/// Returns the check of an item whose parts do not fit the inode. `bytes` may be changed in part.
///
/// # Panics
///
/// Panics if `bytes` is shorter than the core of an inode.
pub fn apply_inode_item(
    item: &InodeItem<'_>,
    order: HostOrder,
    bytes: &mut [u8],
) -> Result<(), LogItemCheck> {
    match item.version() {
        FormatVersion::V4 => replay_core_v4(item.core, order, bytes)?,
        FormatVersion::V5 => replay_core(item.core, order, bytes)?,
    }
    replay_forks(item, bytes)
}

/// Replaces the core of the inode in `bytes`, except the link of an unlinked list. That link is
/// logged with the inode's buffer.
fn replay_core(core: &[u8], order: HostOrder, bytes: &mut [u8]) -> Result<(), LogItemCheck> {
    let short = LogItemCheck::Short { item: "INODE", bytes: core.len(), needed: CORE_BYTES };
    let core = core_to_disk(core.first_chunk::<CORE_BYTES>().ok_or(short)?, order);
    let (target, _) = InodeDisk::mut_from_prefix(bytes)
        .map_err(|_| ())
        .expect("an inode is as long as the superblock says");
    let source = InodeDisk::ref_from_bytes(&core).map_err(|_| ()).expect("a core is an InodeDisk");
    let next_unlinked = target.next_unlinked;
    *target = *source;
    target.next_unlinked = next_unlinked;
    target.pad.fill(0);
    Ok(())
}

fn replay_forks(item: &InodeItem<'_>, bytes: &mut [u8]) -> Result<(), LogItemCheck> {
    let fields = item.format.fields;
    let core_bytes = item.version().inode_core_bytes();
    let (core, literal) =
        bytes.split_at_mut_checked(core_bytes).expect("an inode is longer than its core");
    let fork_offset = *core.get(FORK_OFFSET_AT).expect("the core holds the offset of the fork");
    let format = core.get(DATA_FORMAT_AT).expect("the core holds the format of the fork");
    let is_metadata_btree = *format == ForkFormat::MetadataBtree.encode();
    let metatype = core.get(METATYPE_AT..).and_then(<[u8]>::first_chunk::<2>);
    let metatype = u16::from_be_bytes(*metatype.expect("the core holds the kind of metadata"));
    let middle = usize::from(fork_offset) * FORK_OFFSET_BYTES;
    let middle = if fork_offset == 0 { literal.len() } else { middle };
    let room = literal.len();
    let (data, attr) =
        literal.split_at_mut_checked(middle).ok_or(LogItemCheck::Fork { bytes: middle, room })?;
    if fields.contains(LoggedFields::DEVICE) {
        let room = data.len();
        let device = data.first_chunk_mut().ok_or(LogItemCheck::Fork { bytes: 4, room })?;
        *device = item.format.device.to_be_bytes();
    }
    // The root of a btree is logged in the form that it has in the kernel's memory, with the header
    // of a block.
    let root_header = BtreeKind::Extent.layout_in(item.version()).header_bytes();
    let header = |root| fields.contains(root).then_some(root_header);
    if let Some(region) = item.data.filter(|_| is_metadata_btree) {
        realtime::replay_root(region, data, metatype)?;
    } else if let Some(region) = item.data {
        replay_fork(region, data, header(LoggedFields::DATA_ROOT))?;
    }
    if let Some(region) = item.attr {
        replay_fork(region, attr, header(LoggedFields::ATTR_ROOT))?;
    }
    Ok(())
}

/// Replays a fork. `root_header` is the length in bytes of the header of a btree's root in the
/// region, or `None` if the fork is not the root of a btree.
fn replay_fork(
    region: &[u8],
    fork: &mut [u8],
    root_header: Option<usize>,
) -> Result<(), LogItemCheck> {
    let (bytes, room) = (region.len(), fork.len());
    if let Some(header_bytes) = root_header {
        return replay_root(region, fork, header_bytes);
    }
    let target = fork.get_mut(..bytes).ok_or(LogItemCheck::Fork { bytes, room })?;
    target.copy_from_slice(region);
    Ok(())
}

/// Replays the root of a btree: copies it from the logged `region` to `fork`. The root has a header
/// of `header_bytes` bytes in the region. Keys and pointers move, because their offsets depend on
/// the number of entries for which there is room.
#[doc(alias = "xfs_bmbt_to_bmdr")]
fn replay_root(region: &[u8], fork: &mut [u8], header_bytes: usize) -> Result<(), LogItemCheck> {
    let (bytes, room) = (region.len(), fork.len());
    let entries = |length: usize, header| length.saturating_sub(header) / (2 * ENTRY_BYTES);
    let (logged, fits) = (entries(bytes, header_bytes), entries(room, DISK_ROOT_BYTES));
    let word = |offset: usize| region.get(offset..).and_then(<[u8]>::first_chunk::<2>).copied();
    let records = word(6).map_or(0, u16::from_be_bytes);
    let bad = LogItemCheck::Root { bytes, records, room };
    let count = usize::from(records);
    if count == 0 || count > logged || count > fits {
        return Err(bad);
    }
    let header = region.get(4..8).ok_or(bad)?;
    let keys = region.get(header_bytes..).and_then(|rest| rest.get(..count * ENTRY_BYTES));
    let pointers = region.get(header_bytes + logged * ENTRY_BYTES..);
    let pointers = pointers.and_then(|rest| rest.get(..count * ENTRY_BYTES));
    let mut copy = |offset: usize, source: Option<&[u8]>| {
        let source = source.ok_or(bad)?;
        fork.get_mut(offset..offset + source.len()).ok_or(bad)?.copy_from_slice(source);
        Ok(())
    };
    copy(0, Some(header))?;
    copy(DISK_ROOT_BYTES, keys)?;
    copy(DISK_ROOT_BYTES + fits * ENTRY_BYTES, pointers)
}
