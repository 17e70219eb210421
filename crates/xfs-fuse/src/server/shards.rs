//! Something that many threads change, split by a number.

use xfs_sync::{CachePadded, Group, Mutex};

/// How many there are.
pub(super) const SHARDS: u64 = 64;

/// One `T` for each remainder of a number.
pub(super) struct Shards<T>(Box<[CachePadded<Mutex<T, Group>>]>);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Shards<T> {
    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Mutex<T, Group>> {
        self.0.iter().map(|shard| &**shard)
    }

    /// The one that a number belongs to.
    #[expect(clippy::indexing_slicing, reason = "a remainder is less than the number of shards")]
    pub(super) fn of(&self, number: u64) -> &Mutex<T, Group> {
        &self.0[(number % SHARDS) as usize]
    }
}
