//! The part of a cached inode that lookups and opens read without a lock.
//!
//! Owns: the layout, in which this part has a cache line of its own. So a thread that changes the
//! rest of the inode does not take the line from readers. Does **not** own the values.

use std::sync::Arc;

use xfs_format::inode::FileType;
use xfs_locks::LockWord;

use crate::chunk::ChunkSlot;
use crate::kind::InodeKind;
use crate::marks::Marks;
use crate::rights::RightsHint;

/// The fields that every lookup reads and few threads write.
#[repr(align(64))]
pub(crate) struct Hints<K: InodeKind> {
    word: LockWord,
    file_type: FileType,
    rights: RightsHint,
    live: Arc<K::Inode>,
    /// The slot of the inode in its chunk. `None` if the filesystem has no chunks.
    slot: Option<ChunkSlot<K>>,
    /// The marks of the inode: the watches and the keepers, which only keep the inode cached.
    marks: Marks<K::Watch>,
}

impl<K: InodeKind> Hints<K> {
    pub(crate) fn new(
        file_type: FileType,
        live: Arc<K::Inode>,
        slot: Option<ChunkSlot<K>>,
    ) -> Self {
        let (word, rights) = (LockWord::new(), RightsHint::default());
        Self { word, file_type, rights, live, slot, marks: Marks::default() }
    }

    pub(crate) fn live(&self) -> &Arc<K::Inode> {
        &self.live
    }

    pub(crate) fn slot(&self) -> Option<&ChunkSlot<K>> {
        self.slot.as_ref()
    }

    pub(crate) fn marks(&self) -> &Marks<K::Watch> {
        &self.marks
    }

    pub(crate) fn word(&self) -> &LockWord {
        &self.word
    }

    pub(crate) fn rights(&self) -> &RightsHint {
        &self.rights
    }

    pub(crate) fn file_type(&self) -> FileType {
        self.file_type
    }
}
