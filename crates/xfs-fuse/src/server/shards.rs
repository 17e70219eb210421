//! State that many threads change, divided into shards by an integer key. Each shard has its own
//! lock.

use xfs_sync::{CachePadded, Group, Mutex};

/// The number of shards.
pub(super) const SHARDS: u64 = 64;

/// An array with one `T` per shard. The shard of a key is the key modulo `SHARDS`.
pub(super) struct Shards<T>(Box<[CachePadded<Mutex<T, Group>>]>);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| CachePadded::default()).collect())
    }
}

impl<T> Shards<T> {
    /// Returns all shards.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Mutex<T, Group>> {
        self.0.iter().map(|shard| &**shard)
    }

    /// Returns the shard to which the key `number` belongs.
    #[expect(clippy::indexing_slicing, reason = "a remainder is less than the number of shards")]
    pub(super) fn of(&self, number: u64) -> &Mutex<T, Group> {
        &self.0[(number % SHARDS) as usize]
    }
}
