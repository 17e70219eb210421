//! Counters of a target (a volume on which a workload runs) that are measured in addition to the
//! time.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counters of a target. A field is `None` if the target does not count these events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Number of transactions. In a chain, each transaction is counted.
    pub transactions: Option<u64>,
    /// Number of bytes written to the log.
    pub log_bytes: Option<u64>,
    /// Number of inodes that entered the inode cache.
    pub inodes_in: Option<u64>,
    /// Number of inodes that left the inode cache.
    pub inodes_out: Option<u64>,
    /// Numbers of writes to memory that threads share. `None` in a build that does not count them.
    pub shared: Option<SharedWrites>,
}

/// Numbers of atomic writes and lock acquisitions, by the scope of the memory that they write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedWrites {
    /// Writes and lock acquisitions in the memory of one per-CPU slot.
    pub slot: ScopeCount,
    /// Writes and lock acquisitions in the memory of one inode, one buffer or one open file.
    pub object: ScopeCount,
    /// Writes and lock acquisitions in the memory of one allocation group, or of one shard of a
    /// table.
    pub group: ScopeCount,
    /// Writes and lock acquisitions in memory that belongs to the whole volume.
    pub volume: ScopeCount,
    /// Number of writes and lock acquisitions of volume-wide memory, by file and line of the code.
    #[serde(default)]
    pub volume_places: BTreeMap<String, u64>,
}

/// Number of writes to memory of one scope, and of acquisitions of locks of that scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeCount {
    /// Number of atomic stores and read-modify-writes.
    pub writes: u64,
    /// Number of lock acquisitions.
    pub locks: u64,
}

impl ScopeCount {
    /// Returns the sum of writes and lock acquisitions.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.writes + self.locks
    }

    const fn since(self, before: Self) -> Self {
        Self { writes: self.writes - before.writes, locks: self.locks - before.locks }
    }
}

impl SharedWrites {
    /// Returns the increase since `before`, the counters at an earlier time.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let more = |(place, now): (&String, &u64)| {
            let then = before.volume_places.get(place).copied().unwrap_or(0);
            (*now > then).then(|| (place.clone(), now - then))
        };
        Self {
            slot: self.slot.since(before.slot),
            object: self.object.since(before.object),
            group: self.group.since(before.group),
            volume: self.volume.since(before.volume),
            volume_places: self.volume_places.iter().filter_map(more).collect(),
        }
    }
}

impl Counted {
    /// Returns the sum of the counters of two volumes. Shared writes are counted for the whole
    /// process, not for one volume, so they are not added.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Self {
            transactions: sum(self.transactions, other.transactions),
            log_bytes: sum(self.log_bytes, other.log_bytes),
            inodes_in: sum(self.inodes_in, other.inodes_in),
            inodes_out: sum(self.inodes_out, other.inodes_out),
            shared: other.shared,
        }
    }

    /// Returns the increase since `before`, the counters at an earlier time.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            transactions: less(self.transactions, before.transactions),
            log_bytes: less(self.log_bytes, before.log_bytes),
            inodes_in: less(self.inodes_in, before.inodes_in),
            inodes_out: less(self.inodes_out, before.inodes_out),
            shared: self
                .shared
                .as_ref()
                .zip(before.shared.as_ref())
                .map(|(now, then)| now.since(then)),
        }
    }
}

/// Returns how many writes and lock acquisitions all threads of this process have made up to now.
/// Returns `None` in a build that does not count them.
#[cfg(feature = "count")]
#[must_use]
pub fn shared_writes() -> Option<SharedWrites> {
    /// The largest number of attempts to read the counters. An attempt succeeds if the counters by
    /// scope and those by place have the same sum, so that no thread counted in between.
    const MOST_READS: usize = 100;
    let mut read = read_counters();
    for _ in 1..MOST_READS {
        // A background thread may count between the reads of the two kinds.
        if read.volume.total() == read.volume_places.values().sum::<u64>() {
            break;
        }
        std::thread::yield_now();
        read = read_counters();
    }
    Some(read)
}

/// Reads the counters by scope, and then those by place.
#[cfg(feature = "count")]
fn read_counters() -> SharedWrites {
    let counts = xfs_sync::counts();
    let of = |tally: xfs_sync::Tally| ScopeCount { writes: tally.writes, locks: tally.locks };
    SharedWrites {
        slot: of(counts.slot),
        object: of(counts.object),
        group: of(counts.group),
        volume: of(counts.volume),
        volume_places: xfs_sync::volume_places(),
    }
}

/// Returns how many writes and lock acquisitions all threads of this process have made up to now.
/// Returns `None` in a build that does not count them.
#[cfg(not(feature = "count"))]
#[must_use]
pub const fn shared_writes() -> Option<SharedWrites> {
    None
}
