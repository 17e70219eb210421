//! Exchanging ranges of two files.
//!
//! Owns: the chain of steps, its intent, and resuming it after a crash. Does **not** own the locks
//! of the files, which the caller holds exclusively.
//!
//! The intent names the range that is still to be exchanged. Each step exchanges one pair of
//! mappings and replaces the intent with a shorter one. After a crash, recovery continues with the
//! range of the open intent, so either the whole range is exchanged or none of it.

use std::sync::Arc;

use xfs_buffer::{PosixError, Result};
use xfs_format::extent::{Extent, FILE_BLOCK_LIMIT};
use xfs_format::inode::{ForkKind, InodeFlags2};
use xfs_format::log_item::{ExchangeFlags, ExchangeIntent, LogItemCheck};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_format::{Corruption, FileBlock, Geometry, IncompatFeatures, Structure, StructureAddress};
use xfs_trans::{Deferred, Finish, IntentPayload, Journal, QuotaOwners, Transaction};

use super::LiveInode;
use super::map::map_blocks;
use super::share::join_two;
use super::with_transaction::with_transaction;
use super::write::check_end;
use crate::edit::BlockRange;
use crate::extent_map::Mapping;

/// The number of pairs of mappings for which an exchange reserves one split of each btree. A leaf
/// holds more records than this number, so it splits more rarely than once per this number of
/// pairs.
const PAIRS_PER_SPLIT: u64 = 16;

/// Two ranges of equal length in two files, to be exchanged.
#[derive(Clone, Copy, Debug)]
pub struct ExchangedRange {
    /// The start of the range in each of the two files, in bytes.
    pub starts: [u64; 2],
    /// The length in bytes. `None` exchanges everything from the starts to the ends of the files,
    /// and also the sizes of the files.
    pub length_bytes: Option<u64>,
}

impl LiveInode {
    /// Exchanges a range of two files, completely or not at all. The exchange is durable on return.
    ///
    /// # Errors
    ///
    /// [`PosixError::NotSupported`] on a volume that does not support exchanges;
    /// [`PosixError::InvalidArgument`] for incompatible ranges; the errors of
    /// [`write_at`](Self::write_at).
    #[doc(alias = "xfs_exchange_range")]
    pub fn exchange(
        journal: &Arc<Journal>,
        files: [&Arc<Self>; 2],
        range: ExchangedRange,
        now: Timestamp,
    ) -> Result<()> {
        let [left, right] = files;
        left.check_shareable(journal, right)?;
        if !journal.geometry().has_incompat(IncompatFeatures::EXCHRANGE) {
            return Err(PosixError::NotSupported.into());
        }
        let mut work = ExchangeWork::new(journal.geometry(), files, range)?;
        if work.left_blocks == 0 {
            return Ok(());
        }
        let blocks = work.blocks(journal)?;
        with_transaction(journal, TransactionKind::Write, blocks, |tx| {
            join_two(tx, left, right);
            work.reserve_quota(tx)?;
            let shares = left.shares(ForkKind::Data) || right.shares(ForkKind::Data);
            for live in files {
                live.change(tx, |core| core.flags2.set(InodeFlags2::REFLINK, shares));
                live.touch(tx, now);
            }
            work.generations = files.map(|live| live.inode().core().generation);
            tx.defer(Box::new(work));
            Ok(())
        })?;
        // If a crash undid the exchange, later writes to each file would appear in the other.
        journal.force_all()
    }
}

/// The deferred work of an exchange: the range that is still to be exchanged.
#[doc(alias = "xfs_exchmaps_intent")]
struct ExchangeWork {
    files: [Arc<LiveInode>; 2],
    generations: [u32; 2],
    fork: ForkKind,
    starts: [FileBlock; 2],
    left_blocks: u64,
    flags: ExchangeFlags,
    sizes: [u64; 2],
}

impl ExchangeWork {
    fn new(
        geometry: &Geometry,
        files: [&Arc<LiveInode>; 2],
        range: ExchangedRange,
    ) -> Result<Self> {
        let invalid = || PosixError::InvalidArgument;
        let ExchangedRange { starts, length_bytes } = range;
        let [left, right] = files;
        let block = u64::from(geometry.block_size);
        let [left_size, right_size] = files.map(|live| live.inode().core().size);
        let [left_start, right_start] = starts;
        let (left_rest, right_rest) = (
            left_size.checked_sub(left_start).ok_or_else(invalid)?,
            right_size.checked_sub(right_start).ok_or_else(invalid)?,
        );
        let length = length_bytes.unwrap_or_else(|| left_rest.max(right_rest));
        for start in starts {
            check_end(geometry, start, length)?;
        }
        let is_whole =
            length.is_multiple_of(block) || (length == left_rest && length == right_rest);
        let is_inside = length_bytes.is_none() || (length <= left_rest && length <= right_rest);
        let is_aligned = starts.iter().all(|start| start.is_multiple_of(block));
        let is_apart = left.number() != right.number()
            || left_start.abs_diff(right_start) >= length.next_multiple_of(block);
        let may_set_sizes = length_bytes.is_some() || left.number() != right.number();
        let goes = is_aligned && is_inside && is_apart && may_set_sizes;
        if !goes || (length_bytes.is_some() && !is_whole) {
            return Err(invalid().into());
        }
        let flags = match length_bytes {
            None => ExchangeFlags::SET_SIZES,
            Some(_) => ExchangeFlags::empty(),
        };
        Ok(Self {
            files: [Arc::clone(left), Arc::clone(right)],
            generations: [0; 2],
            fork: ForkKind::Data,
            starts: starts.map(|start| geometry.file_block(start)),
            left_blocks: length.div_ceil(block),
            flags,
            // The bytes after the start of each file are after the start of the other afterwards.
            sizes: [left_start + right_rest, right_start + left_rest],
        })
    }

    /// Returns the number of blocks by which the btrees of the two extent maps may grow.
    fn blocks(&self, journal: &Arc<Journal>) -> Result<u64> {
        let mut pairs = 1;
        for (live, start) in self.files.iter().zip(self.starts) {
            let range = BlockRange { start, length_blocks: self.left_blocks };
            let inode = live.inode();
            let map = inode.extent_map(journal.cache(), self.fork)?;
            pairs += map.iter_from(start).take_while(|extent| range.cut(extent).is_some()).count();
        }
        let splits = (pairs as u64).div_ceil(PAIRS_PER_SPLIT) + 1;
        Ok(2 * splits * map_blocks(journal.geometry(), self.fork))
    }

    /// Reserves quota for the blocks that each file gains. Reserves nothing if both files have the
    /// same owners, because the usage of the owners does not change then.
    #[doc(alias = "xfs_exchmaps_reserve_quota")]
    fn reserve_quota(&self, tx: &mut Transaction<'_>) -> Result<()> {
        let owners = self.files.each_ref().map(|live| QuotaOwners::of(live.inode().core()));
        let [left_owners, right_owners] = owners;
        if !tx.counts_quota() || left_owners == right_owners {
            return Ok(());
        }
        let mut mapped = [0_u64; 2];
        for ((live, start), blocks) in self.files.iter().zip(self.starts).zip(&mut mapped) {
            let range = BlockRange { start, length_blocks: self.left_blocks };
            let inode = live.inode();
            let map = inode.extent_map(tx.cache(), self.fork)?;
            let inside = map.iter_from(start).map_while(|extent| range.cut(extent));
            *blocks = inside.map(|extent| u64::from(extent.length_blocks)).sum();
        }
        let [left, _] = &self.files;
        let [left_blocks, right_blocks] = mapped;
        let gained =
            [right_blocks.saturating_sub(left_blocks), left_blocks.saturating_sub(right_blocks)];
        for (owners, blocks) in owners.into_iter().zip(gained) {
            tx.reserve_quota(owners, left.contents_amount(tx.geometry(), blocks))?;
        }
        Ok(())
    }

    /// Returns the mappings at the starts of the two ranges, cut to equal lengths, and this length
    /// in blocks, which is at least 1. A hole is `None`.
    fn next_pair(&self, tx: &mut Transaction<'_>) -> Result<([Option<Extent>; 2], u64)> {
        let mut length = self.left_blocks;
        let mut mappings = [None; 2];
        for ((live, start), slot) in self.files.iter().zip(self.starts).zip(&mut mappings) {
            let mapping = live.find_joined(tx, self.fork, start)?;
            let rest = mapping.end().0.checked_sub(start.0);
            length = length.min(rest.expect("a mapping of a block ends after the block"));
            *slot = Some(mapping);
        }
        if length == 0 {
            return Err(PosixError::InvalidArgument.into());
        }
        let mut extents = [None; 2];
        for ((start, mapping), slot) in self.starts.iter().zip(mappings).zip(&mut extents) {
            let range = BlockRange { start: *start, length_blocks: length };
            *slot = match mapping {
                Some(Mapping::Extent(extent)) => {
                    Some(range.cut(&extent).expect("the extent at the start of a range is in it"))
                }
                Some(Mapping::Hole { .. }) | None => None,
            };
        }
        Ok((extents, length))
    }

    /// Exchanges one pair of mappings between the two files.
    fn exchange_pair(&self, tx: &mut Transaction<'_>, pair: [Option<Extent>; 2]) -> Result<()> {
        for live in &self.files {
            live.check_growth(self.fork, 2)?;
        }
        for (live, extent) in self.files.iter().zip(&pair) {
            extent.iter().try_for_each(|extent| live.take_extent(tx, self.fork, extent))?;
        }
        for ((live, start), extent) in self.files.iter().zip(self.starts).zip(pair.iter().rev()) {
            let Some(extent) = extent else { continue };
            live.put_extent(tx, self.fork, &Extent { file_block: start, ..*extent })?;
        }
        Ok(())
    }

    fn advance(&mut self, blocks: u64) {
        for start in &mut self.starts {
            start.0 += blocks;
        }
        let left = self.left_blocks.checked_sub(blocks);
        self.left_blocks = left.expect("a pair is no longer than the rest of the range");
    }

    /// Whether exchanging this pair of mappings would change nothing.
    fn keeps(&self, [left, right]: &[Option<Extent>; 2]) -> bool {
        let is_written = |extent: &Option<Extent>| extent.is_some_and(|extent| !extent.unwritten);
        (left.is_none() && right.is_none())
            || (self.flags.contains(ExchangeFlags::INODE1_WRITTEN) && !is_written(left))
    }

    fn finish_sizes(&self, tx: &mut Transaction<'_>) {
        for (live, size) in self.files.iter().zip(self.sizes) {
            if self.flags.contains(ExchangeFlags::SET_SIZES) {
                live.change(tx, |core| core.size = size);
            }
        }
        let cleared = [ExchangeFlags::CLEAR_INODE1_REFLINK, ExchangeFlags::CLEAR_INODE2_REFLINK];
        for (live, flag) in self.files.iter().zip(cleared) {
            if self.flags.contains(flag) {
                live.change(tx, |core| core.flags2.remove(InodeFlags2::REFLINK));
            }
        }
    }
}

impl Deferred for ExchangeWork {
    fn intent_payload(&self) -> Option<IntentPayload> {
        let [left, right] = &self.files;
        Some(IntentPayload::Exchange(ExchangeIntent {
            id: 0,
            inodes: [left.number(), right.number()],
            generations: self.generations,
            starts: self.starts,
            length_blocks: self.left_blocks,
            flags: self.flags,
            sizes: self.sizes,
        }))
    }

    fn finish(mut self: Box<Self>, tx: &mut Transaction<'_>) -> Result<Finish> {
        let [left, right] = &self.files;
        join_two(tx, left, right);
        while self.left_blocks != 0 {
            let (pair, blocks) = self.next_pair(tx)?;
            let is_kept = self.keeps(&pair);
            if !is_kept {
                self.exchange_pair(tx, pair)?;
            }
            self.advance(blocks);
            if !is_kept && self.left_blocks != 0 {
                return Ok(Finish::Again(self));
            }
        }
        self.finish_sizes(tx);
        Ok(Finish::Done)
    }
}

/// Returns the work that remains of an open exchange intent (XMI) in the log.
///
/// # Errors
///
/// [`PosixError::Stale`] if an inode number belongs to another file by now; a corruption if a flag
/// of the intent is unknown, or a range lies beyond the limit of file blocks; the errors of loading
/// the inodes.
pub(super) fn resume_exchange(
    journal: &Arc<Journal>,
    intent: &ExchangeIntent,
) -> Result<Box<dyn Deferred>> {
    let [left, right] = intent.inodes;
    if !intent.flags.are_known() {
        let check = LogItemCheck::ExchangeFlags { flags: intent.flags.bits() };
        let place = StructureAddress::Inode(left);
        return Err(Corruption::new(Structure::LogRecord, place, check).into());
    }
    for start in intent.starts {
        let end = start.0.checked_add(intent.length_blocks);
        if end.is_none_or(|end| end > FILE_BLOCK_LIMIT) {
            let check = LogItemCheck::OutOfRange { field: "start of a range", value: start.0 };
            let place = StructureAddress::Inode(left);
            return Err(Corruption::new(Structure::LogRecord, place, check).into());
        }
    }
    let left_file = Arc::new(LiveInode::load(journal, left)?);
    let right_file = if left == right {
        Arc::clone(&left_file)
    } else {
        Arc::new(LiveInode::load(journal, right)?)
    };
    let files = [left_file, right_file];
    let generations = files.each_ref().map(|live| live.inode().core().generation);
    if generations != intent.generations {
        return Err(PosixError::Stale.into());
    }
    let is_attr = intent.flags.contains(ExchangeFlags::ATTR_FORK);
    Ok(Box::new(ExchangeWork {
        files,
        generations,
        fork: if is_attr { ForkKind::Attr } else { ForkKind::Data },
        starts: intent.starts,
        left_blocks: intent.length_blocks,
        flags: intent.flags,
        sizes: intent.sizes,
    }))
}
