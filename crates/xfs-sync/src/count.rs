//! Counters of atomic writes and lock acquisitions, for builds with the feature `count`.
//!
//! Each thread writes counters of its own, so counting causes no memory traffic between threads. A
//! sum visits all threads. The counters of a thread that ends are added to one table. Writes of
//! scope [`Volume`] are also counted by source location: there are few of them, and a developer who
//! finds too many needs to know where they are.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::scope::{CountScope, Group, Object, Slot, Volume};

const SCOPES: usize = 4;

/// The number of writes to atomics of one scope, and the number of acquisitions of locks of that
/// scope. The scope of an atomic or lock states how widely it is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of atomic stores and read-modify-writes.
    pub writes: u64,
    /// Number of lock acquisitions, for reading or writing.
    pub locks: u64,
}

impl Tally {
    /// Returns the sum of the atomic writes and the lock acquisitions.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.writes + self.locks
    }
}

/// The numbers of atomic writes and of lock acquisitions, by scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The atomic writes and lock acquisitions of scope [`Slot`].
    pub slot: Tally,
    /// The atomic writes and lock acquisitions of scope [`Object`].
    pub object: Tally,
    /// The atomic writes and lock acquisitions of scope [`Group`].
    pub group: Tally,
    /// The atomic writes and lock acquisitions of scope [`Volume`].
    pub volume: Tally,
}

impl Counts {
    /// Returns by how much each count has grown since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: Tally, then: Tally| Tally {
            writes: now.writes - then.writes,
            locks: now.locks - then.locks,
        };
        Self {
            slot: less(self.slot, earlier.slot),
            object: less(self.object, earlier.object),
            group: less(self.group, earlier.group),
            volume: less(self.volume, earlier.volume),
        }
    }
}

/// The counters of one thread.
#[derive(Default)]
struct ScopeCounters {
    writes: [AtomicU64; SCOPES],
    locks: [AtomicU64; SCOPES],
    volume_places: Mutex<LocationCounts>,
}

/// Number of writes by source location.
type LocationCounts = BTreeMap<&'static Location<'static>, u64>;

impl ScopeCounters {
    fn add_to(&self, counts: &mut Counts) {
        let add = |tally: &mut Tally, index: usize| {
            let read = |table: &[AtomicU64; SCOPES]| {
                table.get(index).map_or(0, |counter| counter.load(Ordering::Relaxed))
            };
            tally.writes += read(&self.writes);
            tally.locks += read(&self.locks);
        };
        add(&mut counts.slot, Slot::INDEX);
        add(&mut counts.object, Object::INDEX);
        add(&mut counts.group, Group::INDEX);
        add(&mut counts.volume, Volume::INDEX);
    }
}

#[derive(Default)]
struct Registry {
    running: Vec<Arc<ScopeCounters>>,
    ended: Counts,
    ended_places: LocationCounts,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    running: Vec::new(),
    ended: Counts {
        slot: Tally { writes: 0, locks: 0 },
        object: Tally { writes: 0, locks: 0 },
        group: Tally { writes: 0, locks: 0 },
        volume: Tally { writes: 0, locks: 0 },
    },
    ended_places: LocationCounts::new(),
});

fn registry() -> MutexGuard<'static, Registry> {
    locked(&REGISTRY)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn add_places(sum: &mut LocationCounts, places: &LocationCounts) {
    for (place, times) in places {
        *sum.entry(place).or_default() += times;
    }
}

/// A thread's entry in the registry of counters. The end of the thread removes the entry.
struct Registered(Arc<ScopeCounters>);

impl Registered {
    fn new() -> Self {
        let counters = Arc::<ScopeCounters>::default();
        registry().running.push(Arc::clone(&counters));
        Self(counters)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut registry = registry();
        registry.running.retain(|counters| !Arc::ptr_eq(counters, &self.0));
        self.0.add_to(&mut registry.ended);
        add_places(&mut registry.ended_places, &locked(&self.0.volume_places));
    }
}

thread_local! {
    static MINE: Registered = Registered::new();
}

/// Adds one to the calling thread's counter for the scope with index `scope`. `table` selects the
/// counters of writes or those of lock acquisitions. No other thread writes that counter, so no
/// atomic addition is needed. Writes of a thread while its thread-local values are destroyed are
/// not counted.
#[track_caller]
fn note(scope: usize, table: impl Fn(&ScopeCounters) -> &[AtomicU64; SCOPES]) {
    let place = Location::caller();
    let _ = MINE.try_with(|mine| {
        if let Some(counter) = table(&mine.0).get(scope) {
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        if scope == Volume::INDEX {
            *locked(&mine.0.volume_places).entry(place).or_default() += 1;
        }
    });
}

#[track_caller]
pub(crate) fn note_write(scope: usize) {
    note(scope, |counters| &counters.writes);
}

#[track_caller]
pub(crate) fn note_lock(scope: usize) {
    note(scope, |counters| &counters.locks);
}

/// Returns how many atomic writes and lock acquisitions all threads of the process have made so
/// far, by scope.
#[must_use]
pub fn counts() -> Counts {
    let registry = registry();
    let mut counts = registry.ended;
    for counters in &registry.running {
        counters.add_to(&mut counts);
    }
    counts
}

/// Returns the number of atomic writes and lock acquisitions of scope [`Volume`] so far, of all
/// threads of the process, by file and line.
#[must_use]
pub fn volume_places() -> BTreeMap<String, u64> {
    let registry = registry();
    let mut places = registry.ended_places.clone();
    for counters in &registry.running {
        add_places(&mut places, &locked(&counters.volume_places));
    }
    let named = |(place, times): (&Location<'_>, u64)| {
        (format!("{}:{}", place.file(), place.line()), times)
    };
    let mut by_name = BTreeMap::new();
    for (name, times) in places.into_iter().map(named) {
        *by_name.entry(name).or_default() += times;
    }
    by_name
}

/// Returns how many atomic writes and lock acquisitions the calling thread has made so far, by
/// scope.
#[must_use]
pub fn thread_counts() -> Counts {
    let mut counts = Counts::default();
    let _ = MINE.try_with(|mine| mine.0.add_to(&mut counts));
    counts
}

#[cfg(test)]
mod tests;
