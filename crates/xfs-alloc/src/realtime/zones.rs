//! The zones of a zoned realtime section: their states, and the number of blocks that users (files,
//! as opposed to the garbage collector) may still take.
//!
//! Owns: the write pointers, the choice of the zone for new blocks, the count of blocks that users
//! may still take, and the choice of the victim of a collection. Does **not** own: the records of a
//! zone ([`zone_records`](super::zone_records)), or the copies of a collection (`xfs-inode`).
//!
//! docs/internals/zoned.md has the states, the invariants Z1 to Z6, and the crash argument.

use xfs_buffer::Result;
use xfs_format::realtime::RealtimeSpaceCheck;
use xfs_format::superblock::Superblock;
use xfs_sync::{Mutex, MutexGuard, Volume};

use super::runs::corrupt;

/// Number of zones that users cannot fill. They are kept for the garbage collector.
#[doc(alias = "XFS_RESERVED_ZONES")]
const RESERVED_ZONES: u64 = 4;
/// The lower limit for the number of zones that may be open at once, including the zone of the
/// collector.
const MIN_OPEN_ZONES: u64 = 2;
/// Number of empty zones that users must leave to the collector, while the zone to which it writes
/// has no room or it has none.
const KEPT_ZONES: usize = 2;

/// The reason why blocks are taken. It decides how many blocks may be taken (Z4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneUse {
    /// A write to a hole of a file. It needs additional blocks.
    New,
    /// A write that replaces blocks of a file. It later frees as many blocks as it takes.
    Replace,
    /// The garbage collector, which moves used blocks to another zone.
    Collect,
}

/// A range of blocks of one zone: the number of the zone, the first block, and the number of
/// blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ZoneBlocks {
    pub(super) zone: u32,
    pub(super) start: u32,
    pub(super) count: u32,
}

/// The result of [`Zones::take`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakenBlocks {
    Blocks(ZoneBlocks),
    /// Users have not filled the section, but no zone has free blocks for them: zones must be
    /// collected first.
    NeedsCollection,
    /// Users have filled the section.
    Full,
}

/// The next thing to do in a garbage collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CollectionStep {
    /// Reset these zones, which are full and have no used block.
    Reset(Vec<u32>),
    /// Move the used blocks of this zone to another zone.
    Move(u32),
    /// No zone can be emptied.
    Stuck,
}

/// The state of a zone.
#[derive(Clone, Copy, Debug, Default)]
struct Zone {
    /// The write pointer: the index of the next block to take. The blocks before it have been taken
    /// since the last reset.
    written: u32,
    /// Number of blocks that belong to files.
    used: u32,
    /// Number of blocks that were taken and are not mapped yet.
    pending: u32,
}

/// The states of all zones.
#[derive(Debug)]
struct ZoneTable {
    zones: Vec<Zone>,
    /// The zone to which the collector writes.
    collector: Option<usize>,
    /// The zone at which the search for an open zone for a new file starts.
    next: usize,
    used: u64,
    pending: u64,
}

/// The zones of a section that is open for writing.
#[derive(Debug)]
pub(super) struct Zones {
    zone_blocks: u32,
    /// Number of blocks that files may use in total (Z4).
    capacity: u64,
    /// From this number of open zones on, new files share the open zones, and no empty zone is
    /// opened for them.
    most_open: usize,
    table: Mutex<ZoneTable, Volume>,
    /// The lock that a thread holds while it collects zones.
    collecting: Mutex<(), Volume>,
}

impl Zones {
    /// Returns the zones of a section. `used` has the number of used blocks of each zone. No blocks
    /// can be taken until [`start`](Self::start) is called, because all zones count as full until
    /// then.
    pub(super) fn new(superblock: &Superblock, used: &[u32]) -> Self {
        let geometry = &superblock.geometry.realtime;
        let count = u64::from(geometry.group_count);
        let zone_blocks = u32::try_from(geometry.group_blocks).unwrap_or(u32::MAX);
        let kept = RESERVED_ZONES * geometry.group_blocks + superblock.realtime_reserved;
        let most_open = (count.saturating_sub(5) / 2 + 2).min(count / 4).max(MIN_OPEN_ZONES) - 1;
        let zone = |used: &u32| Zone { written: zone_blocks, used: *used, pending: 0 };
        let table = ZoneTable {
            zones: used.iter().map(zone).collect(),
            collector: None,
            next: 0,
            used: used.iter().map(|used| u64::from(*used)).sum(),
            pending: 0,
        };
        Self {
            zone_blocks,
            capacity: geometry.blocks.saturating_sub(kept),
            most_open: most_open as usize,
            table: Mutex::new(table),
            collecting: Mutex::new(()),
        }
    }

    /// Sets the write pointers of all zones, after the open intents of the log were finished. If
    /// there are fewer empty zones than the collector needs, gives it the open zone with the most
    /// room (Z5).
    pub(super) fn start(&self, written: &[u32]) -> Result<()> {
        let mut table = self.table.lock();
        for (zone, end) in table.zones.iter_mut().zip(written) {
            if *end < zone.used {
                let check = RealtimeSpaceCheck::ZoneRecords { end: (*end).into(), used: zone.used };
                return Err(corrupt(check));
            }
            zone.written = *end;
        }
        if table.empty().count() < KEPT_ZONES {
            let open = (0..table.zones.len()).filter(|zone| self.is_open(&table, *zone));
            let best = open.min_by_key(|zone| table.zone(*zone).written);
            table.collector = best;
        }
        Ok(())
    }

    /// Returns the number of blocks that users may still take for new contents.
    pub(super) fn room(&self) -> u64 {
        let table = self.table.lock();
        self.capacity.saturating_sub(table.used + table.pending)
    }

    /// Returns the number of blocks that files may use in total.
    pub(super) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Waits until no other thread collects zones. The collection of this thread ends when the
    /// guard is dropped.
    pub(super) fn begin_collection(&self) -> MutexGuard<'_, ()> {
        self.collecting.lock()
    }

    /// Takes up to `wanted` blocks at the write pointer of one zone (Z1). The blocks are pending
    /// until they are mapped or given up. `near` is the zone of the preceding blocks of the file.
    pub(super) fn take(&self, near: Option<u32>, wanted: u32, purpose: ZoneUse) -> TakenBlocks {
        let mut table = self.table.lock();
        let taken = table.used + table.pending;
        // Z4: writes that replace blocks free as many as they take.
        let room = match purpose {
            ZoneUse::New => self.capacity.saturating_sub(taken),
            ZoneUse::Replace => {
                self.capacity.saturating_add(self.zone_blocks.into()).saturating_sub(taken)
            }
            ZoneUse::Collect => u64::MAX,
        };
        if room == 0 {
            return TakenBlocks::Full;
        }
        let found = match purpose {
            ZoneUse::Collect => self.collector_zone(&mut table),
            _ => self.user_zone(&mut table, near.map(|near| near as usize)),
        };
        let Some(number) = found else { return TakenBlocks::NeedsCollection };
        let zone = table.zone_mut(number);
        let left = self.zone_blocks - zone.written;
        let count = wanted.min(left).min(u32::try_from(room).unwrap_or(u32::MAX));
        let start = zone.written;
        zone.written += count;
        zone.pending += count;
        table.pending += u64::from(count);
        TakenBlocks::Blocks(ZoneBlocks { zone: number as u32, start, count })
    }

    /// Returns the zone to which the collector writes next: its present zone, or an empty zone if
    /// that one is full. `None` if there is no empty zone.
    fn collector_zone(&self, table: &mut ZoneTable) -> Option<usize> {
        if self.collector_room(table) == 0 {
            let empty = table.empty().next();
            table.collector = empty;
        }
        table.collector
    }

    /// Returns the number of blocks that the collector can still write to its zone.
    fn collector_room(&self, table: &ZoneTable) -> u32 {
        table.collector.map_or(0, |number| self.zone_blocks - table.zone(number).written)
    }

    /// Returns the zone from which a write takes blocks. It is the zone `near` of the preceding
    /// blocks of the file, if that zone is open. Otherwise an empty zone is opened, or another open
    /// zone is used. `None` if zones must be collected first.
    fn user_zone(&self, table: &mut ZoneTable, near: Option<usize>) -> Option<usize> {
        if let Some(near) = near.filter(|near| self.is_open(table, *near)) {
            return Some(near);
        }
        let count = table.zones.len();
        let first = table.next.min(count);
        let open: Vec<usize> =
            (first..count).chain(0..first).filter(|number| self.is_open(table, *number)).collect();
        // Z5: the collector keeps one empty zone, and a second one while its own has no room.
        let kept = if self.collector_room(table) == 0 { KEPT_ZONES } else { KEPT_ZONES - 1 };
        let may_open = table.empty().count() > kept;
        let chosen = match open.first() {
            Some(chosen) if open.len() >= self.most_open || !may_open => Some(*chosen),
            _ if may_open => table.empty().next(),
            _ => None,
        };
        table.next = chosen.map_or(first, |chosen| chosen + 1);
        chosen
    }

    /// Returns whether a zone is open: it is written in part, and is not the zone of the collector.
    fn is_open(&self, table: &ZoneTable, number: usize) -> bool {
        let is_partly_written = table
            .zones
            .get(number)
            .is_some_and(|zone| zone.written > 0 && zone.written < self.zone_blocks);
        is_partly_written && table.collector != Some(number)
    }

    /// Gives up pending blocks that will not be mapped into a file. They stay unused until their
    /// zone is reset.
    pub(super) fn give_up(&self, blocks: ZoneBlocks) {
        let mut table = self.table.lock();
        table.end_pending(blocks);
    }

    /// Counts pending blocks as used blocks of their zone, because they are mapped into a file now
    /// (Z2).
    pub(super) fn use_pending(&self, blocks: ZoneBlocks) {
        let mut table = self.table.lock();
        table.end_pending(blocks);
        table.zone_mut(blocks.zone as usize).used += blocks.count;
        table.used += u64::from(blocks.count);
    }

    /// Subtracts freed blocks from the used blocks of a zone (Z2).
    ///
    /// # Errors
    ///
    /// A corruption if the zone has fewer used blocks.
    pub(super) fn free(&self, number: u32, blocks: u32) -> Result<()> {
        let mut table = self.table.lock();
        let zone = table.zone_mut(number as usize);
        let used = zone.used;
        zone.used = used
            .checked_sub(blocks)
            .ok_or_else(|| corrupt(RealtimeSpaceCheck::ZoneUsed { blocks, used }))?;
        table.used -= u64::from(blocks);
        Ok(())
    }

    /// Returns whether a write can take a block without a collection.
    pub(super) fn has_zone_for_users(&self) -> bool {
        let mut table = self.table.lock();
        let next = table.next;
        let has_zone = self.user_zone(&mut table, None).is_some();
        table.next = next;
        has_zone
    }

    /// Returns the next thing to do in a garbage collection. The blocks of the zones `kept` are
    /// never moved.
    pub(super) fn next_step(&self, kept: &[u32]) -> CollectionStep {
        let table = self.table.lock();
        // A copy of the collector may be garbage, so its own zone may be a victim once it is full.
        let is_full = |zone: &Zone| zone.written == self.zone_blocks && zone.pending == 0;
        let full = || table.zones.iter().enumerate().filter(|(_, zone)| is_full(zone));
        let unused: Vec<u32> =
            full().filter(|(_, zone)| zone.used == 0).map(|(number, _)| number as u32).collect();
        if !unused.is_empty() {
            return CollectionStep::Reset(unused);
        }
        let empty = table.empty().count() as u64;
        let most = u64::from(self.collector_room(&table)) + empty * u64::from(self.zone_blocks);
        full()
            .filter(|(number, _)| !kept.contains(&(*number as u32)))
            .filter(|(_, zone)| zone.used < self.zone_blocks && u64::from(zone.used) <= most)
            .min_by_key(|(_, zone)| zone.used)
            .map_or(CollectionStep::Stuck, |(number, _)| CollectionStep::Move(number as u32))
    }

    /// Returns the number of used blocks of a zone.
    pub(super) fn used(&self, number: u32) -> u32 {
        self.table.lock().zone(number as usize).used
    }

    /// Calls `act` if a zone is empty. No thread takes blocks of any zone meanwhile.
    pub(super) fn while_empty<R>(&self, number: u32, act: impl FnOnce() -> R) -> Option<R> {
        let table = self.table.lock();
        (table.zone(number as usize).written == 0).then(act)
    }

    /// Makes a zone empty.
    ///
    /// # Panics
    ///
    /// Panics if the zone is not full, or has used or pending blocks.
    pub(super) fn reset(&self, number: u32) {
        let mut table = self.table.lock();
        let zone = table.zone(number as usize);
        let is_unused = zone.used == 0 && zone.pending == 0;
        assert!(
            is_unused && zone.written == self.zone_blocks,
            "only a full zone without used blocks is reset (Z3)"
        );
        if table.collector == Some(number as usize) {
            table.collector = None;
        }
        *table.zone_mut(number as usize) = Zone::default();
    }
}

impl ZoneTable {
    fn zone(&self, number: usize) -> &Zone {
        self.zones.get(number).expect("a section has a zone of each number below its count")
    }

    fn zone_mut(&mut self, number: usize) -> &mut Zone {
        self.zones.get_mut(number).expect("a section has a zone of each number below its count")
    }

    /// Returns the zones from which no block was taken since their reset.
    fn empty(&self) -> impl Iterator<Item = usize> {
        let zones = self.zones.iter().enumerate();
        zones.filter(|(_, zone)| zone.written == 0).map(|(number, _)| number)
    }

    fn end_pending(&mut self, blocks: ZoneBlocks) {
        let zone = self.zone_mut(blocks.zone as usize);
        let left = zone.pending.checked_sub(blocks.count);
        zone.pending = left.expect("pending blocks were taken before (Z1)");
        self.pending -= u64::from(blocks.count);
    }
}

#[cfg(test)]
mod tests;
