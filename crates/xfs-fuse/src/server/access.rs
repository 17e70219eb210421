//! The policy for access times, and the times at which they are written.
//!
//! With `lazytime`, access times wait in `LazyTimes`, one per inode. A waiting access time is
//! written when its inode is synced, when the kernel forgets the inode, or when the volume is
//! closed. An access time that has waited for a day is written when another file is read. A crash
//! loses the waiting access times. Change times never wait: they are part of the transactions of
//! the changes.
//!
//! Owns: [`LazyTimes`], and which access time is shown. Does **not** own: an access time that a
//! program sets ([`attributes`](super::attributes)), which replaces a waiting one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferroxfs::attr::ExtendedFlags;
use ferroxfs::{InodeNumber, Metadata, Node, Timestamp};
use rustix::fs::OFlags;

use super::shards::Shards;
use super::{AccessTimes, Server, now};

/// The age in seconds from which an access time is updated, whatever the other times of the file
/// are.
const STALE_SECONDS: i64 = 24 * 3600;
/// How long an access time may wait before it is written.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// The most access times that wait in one shard: some 64,000 in all shards. Further access times
/// are written at once.
const MOST_IN_SHARD: usize = 1000;

/// Access times that are not written yet, by inode number.
#[derive(Default)]
pub(super) struct LazyTimes(Shards<BTreeMap<u64, WaitingTime>>);

/// An access time that waits to be written.
#[derive(Clone, Copy)]
pub(super) struct WaitingTime {
    /// Generation of the inode. The inode number may belong to a newer inode by the time of the
    /// write.
    generation: u32,
    accessed: Timestamp,
    since: Instant,
}

impl LazyTimes {
    fn of(&self, metadata: &Metadata) -> Option<Timestamp> {
        let number = metadata.number.0;
        let waiting = self.0.of(number).lock().get(&number).copied()?;
        (waiting.generation == metadata.generation).then_some(waiting.accessed)
    }

    /// Adds an access time that waits to be written. Returns the access times that must be written
    /// now: those that have waited for a day, and the given one if too many wait already.
    pub(super) fn add(&self, metadata: &Metadata, accessed: Timestamp) -> Vec<(u64, WaitingTime)> {
        let number = metadata.number.0;
        let mut shard = self.0.of(number).lock();
        let mut due: Vec<_> =
            shard.extract_if(.., |_, waiting| waiting.since.elapsed() >= LONGEST_WAIT).collect();
        due.retain(|(other, _)| *other != number);
        let generation = metadata.generation;
        let mut waiting = WaitingTime { generation, accessed, since: Instant::now() };
        match shard.get(&number) {
            // The new time inherits the waiting period of the old one.
            Some(before) if before.generation == generation => waiting.since = before.since,
            None if shard.len() >= MOST_IN_SHARD => {
                due.push((number, waiting));
                return due;
            }
            _ => {}
        }
        shard.insert(number, waiting);
        due
    }

    fn take(&self, number: InodeNumber) -> Option<WaitingTime> {
        self.0.of(number.0).lock().remove(&number.0)
    }

    pub(super) fn take_all(&self) -> impl Iterator<Item = (u64, WaitingTime)> {
        self.0.iter().flat_map(|shard| std::mem::take(&mut *shard.lock()))
    }
}

impl Server {
    /// Updates the access time of a node that is read, if the settings of the mount and the times
    /// of the node require an update.
    pub(super) fn note_access(&self, node: &Node, flags: OFlags) {
        if flags.contains(OFlags::NOATIME) {
            return;
        }
        if self.settings.read_only || self.settings.access_times == AccessTimes::Never {
            return;
        }
        let metadata = node.metadata();
        if metadata.is_dir() && self.settings.access_times == AccessTimes::Files {
            return;
        }
        let (accessed, now) = (self.accessed(&metadata), now());
        let is_due = accessed <= metadata.modified
            || accessed <= metadata.changed
            || now.seconds() - accessed.seconds() >= STALE_SECONDS;
        // The mount is checked last, as that takes a system call.
        if !is_due
            || metadata.xflags.contains(ExtendedFlags::NOATIME)
            || self.is_mounted_read_only()
        {
            return;
        }
        if let Some(times) = &self.lazy_times {
            for (number, waiting) in times.add(&metadata, now) {
                self.write_time(InodeNumber(number), waiting);
            }
        } else {
            // An error here must not fail the read.
            let _ = node.note_access(now);
        }
    }

    /// Returns the access time to show: the one that waits to be written, or else the one in
    /// `metadata`.
    pub(super) fn accessed(&self, metadata: &Metadata) -> Timestamp {
        let waiting = self.lazy_times.as_ref().and_then(|times| times.of(metadata));
        waiting.unwrap_or(metadata.accessed)
    }

    /// Writes the access time that `LazyTimes` holds for an inode, if there is one.
    pub(super) fn write_waiting_time(&self, number: InodeNumber) {
        if let Some(waiting) = self.lazy_times.as_ref().and_then(|times| times.take(number)) {
            self.write_time(number, waiting);
        }
    }

    /// Discards the access time that `LazyTimes` holds for an inode, because a program sets another
    /// one.
    pub(super) fn forget_time(&self, number: InodeNumber) {
        if let Some(times) = &self.lazy_times {
            times.take(number);
        }
    }

    /// Writes all access times that wait to be written.
    pub(super) fn write_waiting_times(&self) {
        for (number, waiting) in self.lazy_times.iter().flat_map(LazyTimes::take_all) {
            self.write_time(InodeNumber(number), waiting);
        }
    }

    /// Writes an access time if its inode still exists and the mount has not been made read-only. A
    /// write error is not reported, with `lazytime` or without it.
    fn write_time(&self, number: InodeNumber, waiting: WaitingTime) {
        if self.is_mounted_read_only() {
            return;
        }
        let Ok(node) = self.volume.node_trusted(number) else { return };
        if node.metadata().generation == waiting.generation {
            let _ = node.note_access(waiting.accessed);
        }
    }
}
