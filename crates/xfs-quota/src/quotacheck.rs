//! Counting all inodes of a volume.
//!
//! Owns: the walk over the inodes, and setting the counts in all dquots. Does **not** own: the
//! flags in the superblock that say that the counts are right.
//!
//! The counts are logged like all other changes of dquots, in transactions before the one that sets
//! the flags. So when the flags are durable, the counts are too. A crash before that leaves types
//! that are not checked, which the next mount counts again.
//!
//! A block that fails its checks is written again only if it is empty or still has a dquot that
//! belongs at its place. The map of a damaged quota inode may name blocks of other files or
//! metadata, and such blocks stay as they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::{BufferCache, Error, Result};
use xfs_format::dquot::{DquotDisk, QuotaKind, may_have_been_dquots, rebuild_block};
use xfs_format::extent::ExtentCheck;
use xfs_format::inode::{InodeCore, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::{
    BlockKind, Corruption, DiskAddr, FileBlock, FsBlock, InodeNumber, Structure, StructureAddress,
};
use xfs_inode::LiveInode;
use xfs_trans::{Dquot, Journal, QuotaAmount, QuotaLedger, QuotaOwners};
use zerocopy::IntoBytes;

use crate::engine::QuotaEngine;
use crate::quota_file::{DquotIds, extents, first_id, read_block};

/// Number of dquots that one transaction changes: as many as the reservation of the transaction has
/// room for.
const BATCH_DQUOTS: usize = 6;

/// The usage of all owners.
type UsageByOwner = BTreeMap<(QuotaKind, u32), QuotaAmount>;

/// Counts the usage of the types in `kinds` over all inodes, and sets the counts in the dquots of
/// these types. Writes damaged blocks of dquots again. The intact dquots in such a block keep their
/// limits.
///
/// # Errors
///
/// Returns ENOSPC if the volume has no space for a dquot, a corruption if an inode or inode btree
/// is damaged, the device's error, or the error that stopped the log.
#[doc(alias = "xfs_qm_quotacheck")]
pub(crate) fn run(engine: &QuotaEngine, journal: &Arc<Journal>, kinds: &[QuotaKind]) -> Result<()> {
    let _span = tracing::info_span!("quotacheck").entered();
    let counts = count_inodes(engine, journal, kinds)?;
    for kind in kinds {
        rebuild_damaged(engine, journal, *kind)?;
        engine.load_defaults(journal, *kind)?;
    }
    for (kind, id) in counts.keys() {
        engine.allocate(journal, *kind, *id)?;
    }
    kinds.iter().try_for_each(|kind| set_counts(engine, journal, *kind, &counts))
}

fn count_inodes(
    engine: &QuotaEngine,
    journal: &Journal,
    kinds: &[QuotaKind],
) -> Result<UsageByOwner> {
    let (mut counts, mut scratch) = (UsageByOwner::new(), Vec::new());
    let mut realtime = Vec::new();
    let geometry = journal.geometry();
    for group in geometry.groups() {
        for chunk in xfs_alloc::inode_chunks(journal.cache(), group)? {
            let chunk = chunk?;
            let first = geometry.join_inode(group, chunk.start);
            // Only inodes in use are read: the holes of a sparse chunk may lie past the end of the
            // group.
            let mut left = chunk.allocated();
            while left != 0 {
                let index = left.trailing_zeros();
                let at = InodeNumber(first.0 + u64::from(index));
                let wanted = left >> index;
                let mut found = Ok(());
                let count = |number, core: Result<InodeCore>| match core {
                    Ok(core) if engine.is_exempt(number) || is_metadata(&core) => {}
                    // The map of a realtime file is read later: the cluster is in use here.
                    Ok(core) if core.is_realtime() && core.blocks != 0 => realtime.push(number),
                    Ok(core) => charge(&mut counts, kinds, &core),
                    Err(error) => found = Err(error),
                };
                let passed = journal.peek_cluster(at, wanted, &mut scratch, count)?;
                found?;
                assert!(passed > 0, "a cluster holds the inode by which it was found");
                // No bit is left if the cluster is the last one of the chunk.
                left &= u64::MAX.checked_shl(index + passed).unwrap_or(0);
            }
        }
    }
    for number in realtime {
        let live = LiveInode::load(journal, number)?;
        let usage = live.quota_usage(journal.cache())?;
        add(&mut counts, kinds, QuotaOwners::of(live.inode().core()), usage);
    }
    // ID 0 always has a dquot: it holds the default limits.
    for kind in kinds {
        counts.entry((*kind, 0)).or_default();
    }
    Ok(counts)
}

fn is_metadata(core: &InodeCore) -> bool {
    core.flags2.contains(InodeFlags2::METADATA)
}

fn charge(counts: &mut UsageByOwner, kinds: &[QuotaKind], core: &InodeCore) {
    let amount = QuotaAmount { inodes: 1, ..QuotaAmount::of_blocks(core.blocks) };
    add(counts, kinds, QuotaOwners::of(core), amount);
}

fn add(counts: &mut UsageByOwner, kinds: &[QuotaKind], owners: QuotaOwners, amount: QuotaAmount) {
    for kind in kinds {
        let usage = counts.entry((*kind, owners.id(*kind))).or_default();
        usage.inodes += amount.inodes;
        usage.blocks = usage.blocks.saturating_add(amount.blocks);
        usage.rt_blocks = usage.rt_blocks.saturating_add(amount.rt_blocks);
    }
}

/// Writes the damaged blocks of a quota inode again.
fn rebuild_damaged(engine: &QuotaEngine, journal: &Arc<Journal>, kind: QuotaKind) -> Result<()> {
    let file = engine.file(kind)?;
    let extents: Vec<_> = extents(&file.inode(), journal.cache())?.collect();
    for extent in extents {
        for index in 0..u64::from(extent.length_blocks) {
            let block = FileBlock(extent.file_block.0 + index);
            let start = FsBlock(extent.start.0 + index);
            let read = read_block(&file.inode(), journal.cache(), kind, block).map(drop);
            match read {
                Err(Error::Corrupt(damage)) => {
                    let damaged = DamagedBlock { kind, block, start, damage };
                    damaged.rebuild(journal, file)?;
                }
                read => read?,
            }
        }
    }
    Ok(())
}

/// A block of a quota inode that failed a check.
struct DamagedBlock {
    kind: QuotaKind,
    block: FileBlock,
    start: FsBlock,
    /// The check that failed.
    damage: Corruption,
}

impl DamagedBlock {
    /// Writes the block again, and keeps the intact dquots in it. Returns the damage as an error,
    /// and writes nothing, if the block has no sign that it held dquots of this place before: a
    /// damaged map may name a block of other metadata or of a file.
    fn rebuild(self, journal: &Arc<Journal>, file: &LiveInode) -> Result<()> {
        let (geometry, kind) = (journal.geometry(), self.kind);
        let misplaced = || {
            let place = StructureAddress::Data(file.number(), self.block);
            let check = ExtentCheck::NotMapped { file_block: self.block };
            Error::from(Corruption::new(Structure::Extent, place, check))
        };
        let first = first_id(self.block, journal.cache()).ok_or_else(misplaced)?;
        let at = geometry.block_disk_addr(self.start).ok_or_else(misplaced)?;
        let mut new = newest_bytes(journal.cache(), at)?;
        if is_log(journal, self.start) || !may_have_been_dquots(&new, kind, first) {
            return Err(self.damage.into());
        }
        tracing::warn!(kind = kind.name(), first, "quota: a damaged block of dquots is rewritten");
        rebuild_block(&mut new, kind, first, geometry);
        let tx = journal.begin(TransactionKind::AllocateQuota, 0)?;
        tx.commit_or_cancel(|tx| {
            let buffer = tx.claim(at, geometry.block_size, BlockKind::Dquots)?;
            let length = buffer.length_bytes() as usize;
            tx.change(&buffer, 0..length, |bytes| bytes.copy_from_slice(&new));
            Ok(())
        })
    }
}

/// Returns whether a block belongs to a log on the data device.
fn is_log(journal: &Journal, block: FsBlock) -> bool {
    let superblock = journal.superblock();
    let inside = block.0.checked_sub(superblock.log_start.0);
    !superblock.has_external_log()
        && inside.is_some_and(|inside| inside < u64::from(superblock.log_blocks))
}

/// Returns the newest bytes of a block, without checks: from the cache if the cache has the block,
/// and from the device otherwise. Returns an error if the cache has a buffer of another kind at
/// this address.
fn newest_bytes(cache: &BufferCache, at: DiskAddr) -> Result<Vec<u8>> {
    let length = cache.geometry().block_size;
    if let Some(buffer) = cache.find(at, length, BlockKind::Dquots)? {
        return Ok(buffer.bytes().to_vec());
    }
    let mut bytes = vec![0; length as usize];
    match cache.read_uncached(at, BlockKind::Dquots, &mut bytes) {
        // The read bytes are there. The caller looks for intact dquots.
        Ok(()) | Err(Error::Corrupt(_)) => Ok(bytes),
        Err(error) => Err(error),
    }
}

/// Sets the counts of all dquots of a type, and starts the timers of owners that exceed a limit.
fn set_counts(
    engine: &QuotaEngine,
    journal: &Arc<Journal>,
    kind: QuotaKind,
    counts: &UsageByOwner,
) -> Result<()> {
    let ids = DquotIds::of(&engine.file(kind)?.inode(), journal.cache())?;
    let mut batch: Vec<(Arc<Dquot>, DquotDisk)> = Vec::new();
    for id in ids {
        let Some(dquot) = engine.find(journal, kind, id)? else { continue };
        let before = dquot.with(|fields| fields.disk);
        let usage = counts.get(&(kind, id));
        let mut after = reset(&before, journal, kind);
        let QuotaAmount { blocks, rt_blocks, inodes } = usage.copied().unwrap_or_default();
        (after.blocks, after.inodes) = (blocks.into(), inodes.into());
        after.realtime_blocks = rt_blocks.into();
        if usage.is_some() {
            engine.adjust(kind, &mut after);
        }
        if after.fields() != before.fields() {
            batch.push((dquot, after));
        }
        if batch.len() == BATCH_DQUOTS {
            write_batch(journal, &mut batch)?;
        }
    }
    write_batch(journal, &mut batch)
}

/// Returns the dquot `before` with its limits, but without usage. The timers are stopped, except
/// those of ID 0, which are grace periods.
#[doc(alias = "xfs_qm_reset_dqcounts")]
fn reset(before: &DquotDisk, journal: &Journal, kind: QuotaKind) -> DquotDisk {
    let id = before.id.get();
    let empty = DquotDisk::unused(kind, id, journal.geometry());
    let mut after = *before;
    (after.blocks, after.inodes, after.realtime_blocks) = Default::default();
    if id != 0 {
        (after.block_timer, after.inode_timer, after.realtime_timer) = Default::default();
        (after.block_warnings, after.inode_warnings) = Default::default();
        after.realtime_warnings = Default::default();
        after.kind = empty.kind;
    }
    after
}

fn write_batch(journal: &Arc<Journal>, batch: &mut Vec<(Arc<Dquot>, DquotDisk)>) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    let tx = journal.begin(TransactionKind::ChangeInode, 0)?;
    tx.commit_or_cancel(|tx| {
        for (dquot, after) in batch.drain(..) {
            tx.change_dquot(&dquot, |disk| {
                disk.as_mut_bytes().copy_from_slice(after.as_bytes());
            });
        }
        Ok(())
    })
}
