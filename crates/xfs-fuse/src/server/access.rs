//! When times of access are set, and when they are written.
//!
//! With `lazytime` they wait here, each for its inode, until that is synced, the kernel forgets it, a day
//! is over and something else is read, or the volume is closed. A crash loses what waits. The times of changes never wait: they are in the
//! transactions of those changes.
//!
//! Owns: [`LazyTimes`], and which time of access is shown. Does **not** own: the time that somebody sets
//! ([`attributes`](super::attributes)), which takes the place of one that waits.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ferroxfs::format::inode::ExtendedFlags;
use ferroxfs::{InodeNumber, Metadata, Node, Timestamp};
use rustix::fs::OFlags;

use super::shards::Shards;
use super::{AccessTimes, Server, now};

/// How old a time of access may be.
const STALE_SECONDS: i64 = 24 * 3600;
/// How long one may wait to be written.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 3600);
/// How many may wait in a shard: some 64,000 in all. Further ones are written at once.
const MOST_IN_SHARD: usize = 1000;

/// Times of access that are not written yet, by inode number.
#[derive(Default)]
pub(super) struct LazyTimes(Shards<BTreeMap<u64, Waiting>>);

/// One that waits.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    /// Of the inode: the number alone may be another file's by now.
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

    /// Has a time wait. Returns those of other inodes that have waited for long enough; with them the
    /// given one, if there is no room.
    pub(super) fn add(&self, metadata: &Metadata, accessed: Timestamp) -> Vec<(u64, Waiting)> {
        let number = metadata.number.0;
        let mut shard = self.0.of(number).lock();
        let mut due: Vec<_> =
            shard.extract_if(.., |_, waiting| waiting.since.elapsed() >= LONGEST_WAIT).collect();
        due.retain(|(other, _)| *other != number);
        let generation = metadata.generation;
        let mut waiting = Waiting { generation, accessed, since: Instant::now() };
        match shard.get(&number) {
            // It has waited as long as the one before it.
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

    fn take(&self, number: InodeNumber) -> Option<Waiting> {
        self.0.of(number.0).lock().remove(&number.0)
    }

    pub(super) fn take_all(&self) -> impl Iterator<Item = (u64, Waiting)> {
        self.0.iter().flat_map(|shard| std::mem::take(&mut *shard.lock()))
    }
}

impl Server {
    /// Sets the time of access where that is due.
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
        // The mount is asked last: that is a system call.
        if !is_due || metadata.xflags.contains(ExtendedFlags::NOATIME) || self.is_held() {
            return;
        }
        if let Some(times) = &self.lazy_times {
            for (number, waiting) in times.add(&metadata, now) {
                self.write_time(InodeNumber(number), waiting);
            }
        } else {
            // What is read is read all the same.
            let _ = node.note_access(now);
        }
    }

    /// The time of access that is shown.
    pub(super) fn accessed(&self, metadata: &Metadata) -> Timestamp {
        let waiting = self.lazy_times.as_ref().and_then(|times| times.of(metadata));
        waiting.unwrap_or(metadata.accessed)
    }

    /// Writes the time of an inode, if one waits.
    pub(super) fn settle_time(&self, number: InodeNumber) {
        if let Some(waiting) = self.lazy_times.as_ref().and_then(|times| times.take(number)) {
            self.write_time(number, waiting);
        }
    }

    /// Lets go of the time of an inode: it is given another one.
    pub(super) fn forget_time(&self, number: InodeNumber) {
        if let Some(times) = &self.lazy_times {
            times.take(number);
        }
    }

    /// Writes all times that wait.
    pub(super) fn settle_times(&self) {
        for (number, waiting) in self.lazy_times.iter().flat_map(LazyTimes::take_all) {
            self.write_time(InodeNumber(number), waiting);
        }
    }

    /// Writes a time, if its inode is still there and the mount was not made read-only. As without `lazytime`,
    /// nobody is told if it cannot be written.
    fn write_time(&self, number: InodeNumber, waiting: Waiting) {
        if self.is_held() {
            return;
        }
        let Ok(node) = self.volume.node_trusted(number) else { return };
        if node.metadata().generation == waiting.generation {
            let _ = node.note_access(waiting.accessed);
        }
    }
}
