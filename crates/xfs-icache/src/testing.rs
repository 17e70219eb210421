//! Fake inodes without a volume, for tests of walks and for models that explore schedules.

use std::collections::BTreeMap;
use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_format::InodeNumber;
use xfs_format::inode::FileType;
use xfs_sync::{Latch, Mutex, Object, Volume};

use crate::kind::{CacheableInode, InodeKind, InodeWatch};
use crate::store::{BulkRequest, InodeStore};

/// A fake inode on disk, with its latch.
pub(crate) struct FakeRecord {
    latch: Latch<Object>,
    state: Mutex<State, Object>,
}

#[derive(Clone, Copy, Default)]
struct State {
    allocated: bool,
    generation: u64,
    nlink: u32,
}

/// A fake inode in memory.
pub(crate) struct FakeInode {
    number: InodeNumber,
    generation: u64,
    record: Arc<FakeRecord>,
}

impl FakeInode {
    /// Removes the name of the inode.
    pub(crate) fn unlink(&self) {
        let _latch = self.record.latch.exclusive();
        self.record.state.lock().nlink = 0;
    }

    /// Returns the generation: a number that differs for each file with this inode number.
    #[cfg(shuttle)]
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Checks that the inode was not freed, and still is the file that was read.
    pub(crate) fn check(&self) {
        let state = *self.record.state.lock();
        assert!(state.allocated, "{}: in use, and freed", self.number.0);
        assert_eq!(
            state.generation, self.generation,
            "{}: in use, and another file",
            self.number.0
        );
    }
}

impl CacheableInode for FakeInode {
    fn number(&self) -> InodeNumber {
        self.number
    }

    fn file_type(&self) -> FileType {
        FileType::Regular
    }

    fn has_name(&self) -> bool {
        self.record.state.lock().nlink > 0
    }
}

/// A bug planted in the store, which a model must find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mutant {
    #[default]
    None,
    /// The store reads an inode without holding the inode's latch.
    Unlatched,
    /// When the store reads the inodes of a chunk together (a bulk visit), it unlocks their latches
    /// before it passes the inodes on for insertion into the cache.
    PassedLate,
}

/// Fake inodes by inode number. Each allocation group has 1024 inode numbers.
pub(crate) struct FakeStore {
    groups: u32,
    mutant: Mutant,
    records: Mutex<BTreeMap<u64, Arc<FakeRecord>>, Volume>,
}

const GROUP_INODES: u64 = 1024;

impl FakeStore {
    pub(crate) fn new(groups: u32, mutant: Mutant) -> Self {
        Self { groups, mutant, records: Mutex::default() }
    }

    fn record(&self, number: InodeNumber) -> Arc<FakeRecord> {
        let make = || Arc::new(FakeRecord { latch: Latch::new(), state: Mutex::default() });
        Arc::clone(self.records.lock().entry(number.0).or_insert_with(make))
    }

    /// Makes a file from a free inode, and passes it to `put` before another thread can get it.
    /// Returns the result of `put`, or `None` if the inode is in use.
    pub(crate) fn create<R>(
        &self,
        number: InodeNumber,
        put: impl FnOnce(Arc<FakeInode>) -> R,
    ) -> Option<R> {
        let record = self.record(number);
        let _latch = record.latch.exclusive();
        let generation = {
            let mut state = record.state.lock();
            if state.allocated {
                return None;
            }
            *state = State { allocated: true, generation: state.generation + 1, nlink: 1 };
            state.generation
        };
        Some(put(Arc::new(FakeInode { number, generation, record: Arc::clone(&record) })))
    }
}

/// The types of the fakes that the inode cache of a test holds: inodes, contents and watches.
pub(crate) enum FakeKind {}

impl InodeKind for FakeKind {
    type Inode = FakeInode;
    type Contents = ();
    type Watch = RecordedWatch;
}

/// A watch that records how it was ended.
#[derive(Clone, Default)]
pub struct RecordedWatch {
    end: Arc<Mutex<WatchEnd, Object>>,
    /// Whether the watch panics when its inode is gone.
    fails: bool,
}

/// How a watch was ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WatchEnd {
    #[default]
    Open,
    InodeGone,
    Closed,
}

impl RecordedWatch {
    /// Returns a watch that panics when its inode is gone.
    #[cfg(test)]
    pub(crate) fn failing() -> Self {
        Self { fails: true, ..Self::default() }
    }

    pub(crate) fn end(&self) -> WatchEnd {
        *self.end.lock()
    }
}

impl InodeWatch for RecordedWatch {
    fn inode_gone(&self, _: InodeNumber) {
        assert!(!self.fails, "the watch fails");
        *self.end.lock() = WatchEnd::InodeGone;
    }

    fn close(&self) {
        *self.end.lock() = WatchEnd::Closed;
    }
}

impl InodeStore for Arc<FakeStore> {
    type Kind = FakeKind;

    fn groups(&self) -> usize {
        self.groups as usize
    }

    fn place(&self, number: InodeNumber) -> Option<(u32, u32)> {
        let (group, inode) = (number.0 / GROUP_INODES, number.0 % GROUP_INODES);
        (group < u64::from(self.groups)).then_some((group as u32, inode as u32))
    }

    type Near = ();

    fn load<R>(
        &self,
        number: InodeNumber,
        (): &mut (),
        put: impl FnOnce(Arc<FakeInode>) -> R,
    ) -> Result<Option<R>> {
        let record = self.record(number);
        let latch = (self.mutant != Mutant::Unlatched).then(|| record.latch.shared());
        let state = *record.state.lock();
        if !state.allocated || state.nlink == 0 {
            return Err(PosixError::NotFound.into());
        }
        let book = FakeInode { number, generation: state.generation, record: Arc::clone(&record) };
        let put = put(Arc::new(book));
        drop(latch);
        Ok(Some(put))
    }

    fn load_together<R>(
        &self,
        wanted: BulkRequest,
        put: impl FnOnce(&[Arc<FakeInode>]) -> R,
    ) -> Option<R> {
        let records: Vec<_> = (0..u64::BITS)
            .filter(|bit| wanted.inodes >> bit & 1 != 0)
            .map(|bit| InodeNumber(wanted.first.0 + u64::from(bit)))
            .map(|number| (number, self.record(number)))
            .filter(|(_, record)| record.latch.try_lock_shared())
            .collect();
        let books: Vec<_> = records
            .iter()
            .map(|(number, record)| (*number, *record.state.lock(), Arc::clone(record)))
            .filter(|(_, state, _)| state.allocated && state.nlink > 0)
            .map(|(number, State { generation, .. }, record)| {
                Arc::new(FakeInode { number, generation, record })
            })
            .collect();
        let unlatch = || records.iter().for_each(|(_, record)| record.latch.unlock_shared());
        if self.mutant == Mutant::PassedLate {
            unlatch();
        }
        let put = put(&books);
        if self.mutant != Mutant::PassedLate {
            unlatch();
        }
        Some(put)
    }

    fn inactivate(&self, inode: &Arc<FakeInode>) -> Result<()> {
        let _latch = inode.record.latch.exclusive();
        inode.check();
        let mut state = inode.record.state.lock();
        assert_eq!(state.nlink, 0, "freed with a name");
        state.allocated = false;
        Ok(())
    }

    fn in_use(&self, _: InodeNumber) -> Error {
        PosixError::Exists.into()
    }
}
