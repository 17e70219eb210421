//! One inode in memory, and who uses it.
//!
//! ```text
//!            ready            release: last user
//!   new ──────────► live ◄──────────────────────► reclaimable ──► reclaiming
//!                    │ │       take: recycled                evict    ▲
//!                    │ └──────────────────────────────────────────────┘
//!                    │       release: last user, not to stay
//!                    │
//!                    └──────► needs inactivation
//!           release: last user, no name; claim: the only user, who removes the last name
//! ```
//!
//! # Invariants
//!
//! - **I1** An inode has users exactly while it is new or live.
//! - **I2** From reclaiming and needs-inactivation no way leads back: who meets one looks again, or is
//!   told that there is no such inode. So an inode is removed, or freed, by one.
//! - **I3** One that is reclaimable bears the tag of those without a user. Who finds an inode without knowing that it is
//!   still in its place leaves the tag alone once it is gone (I2): it may be that of another file by then.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::Directory;
use xfs_format::InodeNumber;
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, InodeCore};
use xfs_inode::Live;
use xfs_locks::{FileLocks, LockState};
use xfs_sync::{Mutex, Object, SetOnce};
use xfs_trans::Journal;

use crate::chunk::ChunkSlot;
use crate::filter::WalkFilter;
use crate::hints::Hints;
use crate::kind::{Inode, InodeKind};
use crate::marks::{Mark, Marks};
use crate::rights::Rights;

/// An inode in memory.
pub struct CachedInode<K: InodeKind> {
    /// What everybody reads, on a cache line that hardly anybody writes.
    hints: Hints<K>,
    locks: LockState,
    /// Most files are never read or written while they are in memory.
    contents: SetOnce<Box<K::Contents>, Object>,
    state: Mutex<State, Object>,
}

// With the counts of references, which the line of the hints keeps apart, three lines of a processor's cache.
#[cfg(not(shuttle))]
const _: () = assert!(size_of::<CachedInode<crate::small::SmallKind>>() == 128);

/// Where an inode is in its life: see the figure above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Being made: walks pass over it.
    New,
    /// In use.
    Live,
    /// Without a user, and there for who looks it up.
    Reclaimable,
    /// On its way out of memory.
    Reclaiming,
    /// Without a name and without a user: it is being freed on disk.
    NeedsInactivation,
}

/// Whether an inode stays in memory when its last user goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// As long as there is room.
    Cached,
    /// No: it was brought in to be looked at once.
    #[doc(alias = "XFS_IGET_DONTCACHE")]
    Once,
}

struct State {
    users: u32,
    /// Of the users, those that are only there as long as somebody can come to the inode: marks.
    marks: u32,
    phase: Phase,
    keep: Keep,
    /// Whether somebody looked it up since it was last swept.
    referenced: bool,
    /// Whether it was made without a name, and never had one.
    awaits_name: bool,
}

impl State {
    fn add_user(&mut self) {
        assert!(self.users < u32::MAX, "more users of an inode than memory has room for");
        self.users += 1;
    }
}

/// What came of asking for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// There is one more user.
    Here,
    /// There is one user, where there was none.
    Recycled,
    /// It is being freed.
    NeedsInactivation,
    /// It leaves the index next.
    Evicted,
}

impl TakeOutcome {
    /// Whether the inode was there to be used.
    pub fn is_here(self) -> bool {
        matches!(self, Self::Here | Self::Recycled)
    }
}

/// What a release leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// Others still reference it.
    InUse,
    /// Nobody uses it now.
    Idle,
    /// Whoever released it has to take it out.
    Evicted,
    /// Whoever released it has to have it freed.
    NeedsInactivation,
    /// It has no name any more, and no users but marks: whoever released it has to take those away.
    Abandoned,
}

/// What a sweep makes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepOutcome {
    /// It stays: it is in use, was used since it was last swept, or is on its way out.
    Stays,
    /// Whoever swept has to take it out.
    Evicted,
}

impl<K: InodeKind> CachedInode<K> {
    /// An entry with one user.
    pub(crate) fn new(
        live: Arc<K::Inode>,
        phase: Phase,
        keep: Keep,
        slot: Option<ChunkSlot<K>>,
    ) -> Self {
        assert!(matches!(phase, Phase::New | Phase::Live), "I1");
        let state =
            State { users: 1, marks: 0, phase, keep, referenced: false, awaits_name: false };
        let hints = Hints::new(live.file_type(), live, slot);
        let (locks, contents) = (LockState::new(), SetOnce::new());
        Self { hints, locks, contents, state: Mutex::new(state) }
    }

    /// Returns the number of the inode.
    pub fn number(&self) -> InodeNumber {
        self.live().number()
    }

    pub(crate) fn release(&self, is_active: bool) -> ReleaseOutcome {
        let mut state = self.state.lock();
        assert!(state.users > 0, "released without a user");
        state.users -= 1;
        if state.users > 0 {
            let is_abandoned = state.users == state.marks && !self.live().has_name();
            return if is_abandoned { ReleaseOutcome::Abandoned } else { ReleaseOutcome::InUse };
        }
        let (phase, release) = if !self.live().has_name() {
            (Phase::NeedsInactivation, ReleaseOutcome::NeedsInactivation)
        } else if state.keep == Keep::Once || !is_active {
            (Phase::Reclaiming, ReleaseOutcome::Evicted)
        } else {
            self.slot().into_iter().for_each(ChunkSlot::set_idle);
            (Phase::Reclaimable, ReleaseOutcome::Idle)
        };
        state.phase = phase;
        release
    }
}

impl<K: InodeKind> CachedInode<K> {
    /// Returns the inode.
    #[inline]
    pub fn live(&self) -> &Arc<K::Inode> {
        self.hints.live()
    }

    /// The contents of a regular file, as far as they are in memory.
    pub fn contents(&self) -> &K::Contents {
        self.contents.value_or_init(Box::default)
    }

    /// The same, if somebody has asked for them.
    pub fn known_contents(&self) -> Option<&K::Contents> {
        self.contents.value().map(|contents| &**contents)
    }

    /// The locks that programs have on it, and its opens.
    pub fn locks(&self) -> FileLocks<'_> {
        FileLocks { word: self.hints.word(), state: &self.locks }
    }

    /// Returns the watches and keepers that hold it.
    pub fn marks(&self) -> &Marks<K::Watch> {
        self.hints.marks()
    }

    /// What it is: read without a lock.
    pub fn file_type(&self) -> FileType {
        self.hints.file_type()
    }

    /// What it lets whom do, where that is known: read without a lock.
    pub fn rights(&self) -> Option<Rights> {
        self.hints.rights().rights()
    }

    /// Notes its rights. The caller shares its latch, or has it.
    pub fn note_rights(&self, rights: Rights) {
        self.hints.rights().note(rights);
    }

    /// Forgets its rights, which change. The caller has its exclusive latch, and keeps it until they have.
    pub fn forget_rights(&self) {
        self.hints.rights().forget();
    }

    /// Says whether it has something to write, or blocks that it does not need.
    pub fn set_unsettled(&self, is_unsettled: bool) {
        self.slot().into_iter().for_each(|slot| slot.set_unsettled(is_unsettled));
    }

    pub(crate) fn slot(&self) -> Option<&ChunkSlot<K>> {
        self.hints.slot()
    }

    /// Where the inode is in its life. It may be elsewhere by the time that the answer is there.
    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Notes whether it was made without a name, and may get a first one.
    #[doc(alias = "I_LINKABLE")]
    pub fn set_awaits_name(&self, awaits_name: bool) {
        self.state.lock().awaits_name = awaits_name;
    }

    /// Whether it may get a first name. Another file without any was removed, and never gets one again.
    pub fn awaits_name(&self) -> bool {
        self.state.lock().awaits_name
    }

    /// Ends the time in which walks pass over it.
    pub fn set_ready(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::New {
            state.phase = Phase::Live;
        }
    }

    /// One more user, who is there because another one is.
    pub fn share(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "a user of an inode that nobody holds");
        state.add_user();
    }

    /// One more user, who gives the inode up when nobody else can come to it. The caller uses it.
    pub fn share_as_mark(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "a mark on an inode that nobody holds");
        state.add_user();
        state.marks += 1;
    }

    /// Makes the use of a mark one like any other, which the caller gives up then.
    pub fn unmark(&self) {
        let mut state = self.state.lock();
        assert!(state.marks > 0, "there is no mark");
        state.marks -= 1;
    }

    /// Whether the caller is the only user. It may have company by the time that the answer is there.
    pub fn is_alone(&self) -> bool {
        let state = self.state.lock();
        state.users == 1 && state.phase == Phase::Live
    }

    /// Gives up a use to free the inode, if the caller is its only user: nobody gets another.
    pub fn claim(&self) -> bool {
        let mut state = self.state.lock();
        let is_alone = state.users == 1 && state.phase == Phase::Live;
        if is_alone {
            (state.users, state.phase) = (0, Phase::NeedsInactivation);
        }
        is_alone
    }

    /// One more user, who has looked the inode up.
    pub fn take(&self, keep: Keep) -> TakeOutcome {
        let mut state = self.state.lock();
        let taken = match state.phase {
            Phase::New | Phase::Live => TakeOutcome::Here,
            Phase::Reclaimable => TakeOutcome::Recycled,
            Phase::NeedsInactivation => return TakeOutcome::NeedsInactivation,
            Phase::Reclaiming => return TakeOutcome::Evicted,
        };
        if taken == TakeOutcome::Recycled {
            state.phase = Phase::Live;
        }
        state.add_user();
        if keep == Keep::Cached {
            state.keep = Keep::Cached;
            state.referenced = true;
        }
        taken
    }

    /// One more user, for a walk over all inodes: one that leaves no trace. `false` if the walk passes
    /// over this inode.
    pub(crate) fn take_for_walk(&self, which: WalkFilter, is_active: bool) -> bool {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Live => {}
            Phase::Reclaimable if is_active && which != WalkFilter::Referenced => {
                state.phase = Phase::Live;
            }
            _ => return false,
        }
        state.add_user();
        true
    }

    /// Sets the inode to leave memory, if nobody uses it.
    pub(crate) fn evict(&self) -> SweepOutcome {
        self.leave(&mut self.state.lock())
    }

    /// As [`evict`](Self::evict), but one that was looked up since the last sweep stays once more.
    pub(crate) fn sweep(&self) -> SweepOutcome {
        let mut state = self.state.lock();
        if state.phase == Phase::Reclaimable && std::mem::take(&mut state.referenced) {
            return SweepOutcome::Stays;
        }
        self.leave(&mut state)
    }

    fn leave(&self, state: &mut State) -> SweepOutcome {
        // Another file may have its place, and its tag, by now (I3).
        if matches!(state.phase, Phase::Reclaiming | Phase::NeedsInactivation) {
            return SweepOutcome::Stays;
        }
        // Sweeps need not come again until it has been released.
        self.slot().into_iter().for_each(ChunkSlot::clear_idle);
        if state.phase != Phase::Reclaimable {
            return SweepOutcome::Stays;
        }
        state.phase = Phase::Reclaiming;
        SweepOutcome::Evicted
    }

    /// Whether it gets no users any more.
    pub fn is_gone(&self) -> bool {
        matches!(self.phase(), Phase::Reclaiming | Phase::NeedsInactivation)
    }
}

impl<K: InodeKind<Inode = Live>> CachedInode<K> {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Everything but the forks, as it is now. In a transaction that has latched the inode it stays so.
    pub fn core(&self) -> InodeCore {
        self.live().inode().core().clone()
    }

    /// Transactions that have changed the inode, or names in it.
    #[doc(alias = "di_changecount")]
    pub fn change_count(&self) -> u64 {
        self.live().inode().core().change_count
    }

    /// What a name means in this directory now.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR; what the volume holds may be corrupt.
    pub fn find(&self, journal: &Journal, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        self.find_and(journal, name, |_| ())
    }

    /// As [`find`](Self::find); `note` gets what was found, or that there is no such name, while nobody can
    /// change that.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn find_and(
        &self,
        journal: &Journal,
        name: &[u8],
        note: impl FnOnce(Option<InodeNumber>),
    ) -> Result<(InodeNumber, EntryType)> {
        let _shared = self.live().record().latch().shared();
        let inode = self.live().inode();
        let directory = Directory::new(journal.cache(), &inode)?;
        if name == b".." {
            return Ok((directory.parent()?, EntryType::Directory));
        }
        let found = directory.lookup(name);
        match &found {
            Ok((number, _)) => note(Some(*number)),
            Err(Error::Posix(PosixError::NotFound)) => note(None),
            Err(_) => {}
        }
        found
    }
}

impl<K: InodeKind> CachedInode<K> {
    /// Adds a mark, which takes a use of the inode. The caller uses it.
    pub fn mark(&self, mark: Mark<K::Watch>) {
        if mark.is_watch() {
            self.share_as_mark();
        } else {
            self.share();
        }
        self.marks().add(mark);
    }

    /// Takes out those marks for which `is_wanted`. The caller gives up a use for each.
    pub fn take_marks(&self, is_wanted: impl Fn(&Mark<K::Watch>) -> bool) -> Vec<Mark<K::Watch>> {
        let taken = self.marks().take(is_wanted);
        taken.iter().filter(|mark| mark.is_watch()).for_each(|_| self.unmark());
        taken
    }
}
