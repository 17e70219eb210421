//! The check whether a directory has room for a new entry without a new block.
//!
//! Owns: the check for every form, which changes nothing. Does **not** own: adding the entry.
//!
//! Used when the quota of the owner allows no more blocks: the entry may be added only if it needs
//! none.

use xfs_buffer::Result;

use super::free::{FreeSearch, fits};
use super::{DirectoryChange, EntrySearch, NewEntry, block, data, leaf};
use crate::store::ForkStore;

impl<S: ForkStore> DirectoryChange<'_, S> {
    /// Returns whether the directory has room for an entry without a new block. `search` is the
    /// result of a search for the entry's name, which must not exist.
    #[doc(alias = "xfs_dir_canenter")]
    pub(crate) fn has_room(
        &mut self,
        search: &EntrySearch<S::Block>,
        entry: &NewEntry<'_>,
    ) -> Result<bool> {
        let length = data::length_of(entry.name);
        Ok(match search {
            EntrySearch::Short(short, _) => {
                let mut after = short.clone();
                after.insert(entry, self.block_bytes)
                    && after.encode().len() <= self.store.local_room()
            }
            EntrySearch::Block(block, _) => {
                self.store.view(block, |bytes| block::has_room(bytes, length))
            }
            EntrySearch::Leaf(leaf, _) => self.store.view(leaf, |bytes| {
                let has_record = leaf::lengths(bytes).any(|best| fits(best, length));
                has_record && leaf::LeafCounts::of(bytes).has_room_compacted(0)
            }),
            EntrySearch::Node(path, _) => {
                let has_entry =
                    self.store.view(&path.leaf, |bytes| leaf::LeafCounts::of(bytes).has_room(0));
                has_entry && matches!(self.find_free(length)?, FreeSearch::Block(..))
            }
        })
    }
}
