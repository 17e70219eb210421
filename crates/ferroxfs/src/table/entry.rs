//! One inode in memory, and who uses it.

use std::sync::Arc;

use xfs_buffer::Result;
use xfs_dir::Directory;
use xfs_format::InodeNumber;
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, InodeCore};
use xfs_inode::Live;
use xfs_sync::{Mutex, Object, RwLock};
use xfs_trans::Journal;

/// An inode in the table.
pub(crate) struct Entry {
    live: Arc<Live>,
    /// Held shared to read contents, exclusively to change them or where they lie. Taken before any
    /// transaction begins.
    contents: RwLock<(), Object>,
    state: Mutex<State, Object>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Present,
    /// Without a name and without a user: it is being freed.
    Doomed,
    /// No longer in the table.
    Evicted,
}

struct State {
    users: u64,
    phase: Phase,
    /// Whether it stands in the queue of idle entries.
    queued: bool,
    /// Whether somebody took it since it was queued.
    referenced: bool,
}

/// What came of asking for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Here,
    Doomed,
    Evicted,
}

/// What a release leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    InUse,
    /// Nobody uses it now, and it has to be queued.
    Idle,
    /// Whoever released it has to have it freed.
    Doomed,
}

/// What the sweep of idle entries makes of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sweep {
    /// In use: it comes back when it is released.
    Unqueued,
    /// It was used since: it stays in the queue.
    Again,
    Evicted,
}

impl Entry {
    /// An entry with one user.
    pub(super) fn new(live: Arc<Live>) -> Self {
        let state = State { users: 1, phase: Phase::Present, queued: false, referenced: false };
        Self { live, contents: RwLock::new(()), state: Mutex::new(state) }
    }

    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }

    pub(crate) fn number(&self) -> InodeNumber {
        self.live.number()
    }

    /// The lock of the contents: see the field.
    pub(crate) fn contents(&self) -> &RwLock<(), Object> {
        &self.contents
    }

    /// One more user, who is there because another one is.
    pub(crate) fn share(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "a user of an inode that nobody holds");
        state.users += 1;
    }

    pub(super) fn take(&self) -> Taken {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Present => {
                state.users += 1;
                state.referenced = true;
                Taken::Here
            }
            Phase::Doomed => Taken::Doomed,
            Phase::Evicted => Taken::Evicted,
        }
    }

    pub(super) fn release(&self) -> Release {
        let mut state = self.state.lock();
        assert!(state.users > 0, "released without a user");
        state.users -= 1;
        if state.users > 0 {
            return Release::InUse;
        }
        if self.live.record().image().core.nlink == 0 {
            state.phase = Phase::Doomed;
            return Release::Doomed;
        }
        if std::mem::replace(&mut state.queued, true) { Release::InUse } else { Release::Idle }
    }

    /// Looks at an entry at the end of the queue.
    pub(super) fn sweep(&self) -> Sweep {
        let mut state = self.state.lock();
        if state.users > 0 || state.phase != Phase::Present {
            state.queued = false;
            return Sweep::Unqueued;
        }
        if std::mem::take(&mut state.referenced) {
            return Sweep::Again;
        }
        state.phase = Phase::Evicted;
        Sweep::Evicted
    }

    /// Whether it gets no users any more.
    pub(super) fn is_gone(&self) -> bool {
        self.state.lock().phase != Phase::Present
    }
}

impl Entry {
    /// Whether it is a directory. A file does not change its type.
    pub(crate) fn is_directory(&self) -> bool {
        self.live.inode().file_type() == FileType::Directory
    }

    /// Everything but the forks, as it is now. In a transaction that has latched the inode it stays so.
    pub(crate) fn core(&self) -> InodeCore {
        self.live.inode().core().clone()
    }

    /// What a name means in this directory now.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR; what the volume holds may be corrupt.
    pub(crate) fn find(&self, journal: &Journal, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        let _shared = self.live.record().latch().shared();
        let inode = self.live.inode();
        let directory = Directory::new(journal.cache(), &inode)?;
        if name == b".." {
            return Ok((directory.parent()?, EntryType::Directory));
        }
        directory.lookup(name)
    }
}
