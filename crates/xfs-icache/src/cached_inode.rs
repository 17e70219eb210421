//! One cached inode, its references and its life.
//!
//! ```text
//!            ready            release: last reference
//!   new ──────────► live ◄──────────────────────► reclaimable ──► reclaiming
//!                    │ │       take: recycled                evict    ▲
//!                    │ └──────────────────────────────────────────────┘
//!                    │       release: last reference, not to stay
//!                    │
//!                    └──────► needs inactivation
//!           release: last reference, no name; claim: the only referrer removes the last name
//! ```
//!
//! # Invariants
//!
//! - **I1** An inode has references exactly while it is new or live.
//! - **I2** No way leads back from reclaiming and needs-inactivation. A thread that meets such an
//!   inode looks it up again, or gets ENOENT. So exactly one thread removes an inode, and one frees
//!   it.
//! - **I3** A reclaimable inode has the idle tag. A thread that found an inode without knowing that
//!   it is still in its slot must not touch the tag once the inode is gone (I2): the slot may hold
//!   another file by then.

use std::sync::Arc;

use xfs_buffer::{Error, PosixError, Result};
use xfs_dir::Directory;
use xfs_format::InodeNumber;
use xfs_format::directory::EntryType;
use xfs_format::inode::{FileType, InodeCore};
use xfs_inode::LiveInode;
use xfs_locks::{FileLocks, LockState};
use xfs_sync::{Mutex, Object, SetOnce};
use xfs_trans::Journal;

use crate::chunk::ChunkSlot;
use crate::filter::WalkFilter;
use crate::hints::Hints;
use crate::kind::{Inode, InodeKind};
use crate::marks::{Mark, Marks};
use crate::rights::Rights;

/// A cached inode.
pub struct CachedInode<K: InodeKind> {
    /// Read by every lookup and rarely written: a cache line of its own.
    hints: Hints<K>,
    locks: LockState,
    /// Most files are never read or written while they are cached.
    contents: SetOnce<Box<K::Contents>, Object>,
    state: Mutex<State, Object>,
}

/// The phase of an inode's life; see the figure above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Under construction: walks skip it.
    New,
    /// Referenced.
    Live,
    /// Unreferenced. A lookup recycles it.
    Reclaimable,
    /// On its way out of the cache.
    Reclaiming,
    /// Without a name and without a reference: it is being freed on disk.
    NeedsInactivation,
}

/// Whether an inode stays cached when its last reference goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// It stays as long as there is room.
    Cached,
    /// It is evicted. It was read to be looked at once.
    #[doc(alias = "XFS_IGET_DONTCACHE")]
    Once,
}

struct State {
    users: u32,
    /// The part of `users` that marks hold: they give the inode up when it can be reached by
    /// nothing else.
    marks: u32,
    phase: Phase,
    keep: Keep,
    /// Whether a lookup took it since the last sweep.
    referenced: bool,
    /// Whether it was made without a name, and has never had one.
    awaits_name: bool,
}

impl State {
    fn add_user(&mut self) {
        assert!(self.users < u32::MAX, "more users of an inode than memory has room for");
        self.users += 1;
    }
}

/// The outcome of taking a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// Taken: the inode had references before.
    Here,
    /// Taken: the inode had no reference before.
    Recycled,
    /// Refused: the inode is being freed.
    NeedsInactivation,
    /// Refused: the inode is about to leave the index.
    Evicted,
}

impl TakeOutcome {
    /// Returns whether the reference was taken.
    pub fn is_here(self) -> bool {
        matches!(self, Self::Here | Self::Recycled)
    }
}

/// The outcome of releasing a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// Others still reference it.
    InUse,
    /// It has no reference now.
    Idle,
    /// The releasing thread must remove it from the index.
    Evicted,
    /// The releasing thread must have it freed.
    NeedsInactivation,
    /// It has no name, and no references except those of marks. The releasing thread must remove
    /// these.
    Abandoned,
}

/// The outcome of a sweep over one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepOutcome {
    /// It stays: it is referenced, was taken since the last sweep, or is on its way out.
    Stays,
    /// The sweeping thread must remove it from the index.
    Evicted,
}

impl<K: InodeKind> CachedInode<K> {
    /// Returns an inode with one reference.
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

    /// Returns the state of a regular file's contents.
    pub fn contents(&self) -> &K::Contents {
        self.contents.value_or_init(Box::default)
    }

    /// Returns the state of the contents, if it was needed before.
    pub fn known_contents(&self) -> Option<&K::Contents> {
        self.contents.value().map(|contents| &**contents)
    }

    /// Returns the locks that programs hold on it, and its opens.
    pub fn locks(&self) -> FileLocks<'_> {
        FileLocks { word: self.hints.word(), state: &self.locks }
    }

    /// Returns the watches and keepers that hold it.
    pub fn marks(&self) -> &Marks<K::Watch> {
        self.hints.marks()
    }

    /// Returns the type. It is read without a lock.
    pub fn file_type(&self) -> FileType {
        self.hints.file_type()
    }

    /// Returns owner, group and mode, where they are known. They are read without a lock.
    pub fn rights(&self) -> Option<Rights> {
        self.hints.rights().rights()
    }

    /// Caches owner, group and mode. The caller holds the latch, shared or exclusive.
    pub fn note_rights(&self, rights: Rights) {
        self.hints.rights().note(rights);
    }

    /// Invalidates owner, group and mode, which change. The caller holds the exclusive latch, and
    /// keeps it until they have changed.
    pub fn forget_rights(&self) {
        self.hints.rights().forget();
    }

    /// Sets whether it has buffered bytes, or blocks that it does not need.
    pub fn set_unsettled(&self, is_unsettled: bool) {
        self.slot().into_iter().for_each(|slot| slot.set_unsettled(is_unsettled));
    }

    pub(crate) fn slot(&self) -> Option<&ChunkSlot<K>> {
        self.hints.slot()
    }

    /// Returns the phase. It may have changed by the time the caller looks at it.
    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Notes whether it was made without a name, and may get a first one.
    #[doc(alias = "I_LINKABLE")]
    pub fn set_awaits_name(&self, awaits_name: bool) {
        self.state.lock().awaits_name = awaits_name;
    }

    /// Returns whether it may get a first name. Any other file without a name was removed, and
    /// never gets a name again.
    pub fn awaits_name(&self) -> bool {
        self.state.lock().awaits_name
    }

    /// Makes it visible to walks.
    pub fn set_ready(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::New {
            state.phase = Phase::Live;
        }
    }

    /// Takes one more reference. The caller holds one already.
    pub fn share(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "a user of an inode that nobody holds");
        state.add_user();
    }

    /// Takes one more reference, as a mark: it is given up when nothing else can reach the inode.
    /// The caller holds a reference.
    pub fn share_as_mark(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "a mark on an inode that nobody holds");
        state.add_user();
        state.marks += 1;
    }

    /// Turns the reference of a mark into an ordinary one, which the caller then releases.
    pub fn unmark(&self) {
        let mut state = self.state.lock();
        assert!(state.marks > 0, "there is no mark");
        state.marks -= 1;
    }

    /// Returns whether the caller's reference is the only one. Another may have been taken by the
    /// time the caller looks at the answer.
    pub fn is_alone(&self) -> bool {
        let state = self.state.lock();
        state.users == 1 && state.phase == Phase::Live
    }

    /// Gives up the caller's reference in order to free the inode, if it is the only one. Nothing
    /// gets another reference then.
    pub fn claim(&self) -> bool {
        let mut state = self.state.lock();
        let is_alone = state.users == 1 && state.phase == Phase::Live;
        if is_alone {
            (state.users, state.phase) = (0, Phase::NeedsInactivation);
        }
        is_alone
    }

    /// Takes a reference for a lookup.
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

    /// Takes a reference for a walk, which leaves no trace. Returns `false` if the walk skips this
    /// inode.
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

    /// Sets the inode to leave the cache, if it is unreferenced.
    pub(crate) fn evict(&self) -> SweepOutcome {
        self.leave(&mut self.state.lock())
    }

    /// As [`evict`](Self::evict), except that an inode which was taken since the last sweep stays
    /// once more.
    pub(crate) fn sweep(&self) -> SweepOutcome {
        let mut state = self.state.lock();
        if state.phase == Phase::Reclaimable && std::mem::take(&mut state.referenced) {
            return SweepOutcome::Stays;
        }
        self.leave(&mut state)
    }

    fn leave(&self, state: &mut State) -> SweepOutcome {
        // Another file may have the slot and its tag by now (I3).
        if matches!(state.phase, Phase::Reclaiming | Phase::NeedsInactivation) {
            return SweepOutcome::Stays;
        }
        // Sweeps need not look at it again before it is released.
        self.slot().into_iter().for_each(ChunkSlot::clear_idle);
        if state.phase != Phase::Reclaimable {
            return SweepOutcome::Stays;
        }
        state.phase = Phase::Reclaiming;
        SweepOutcome::Evicted
    }

    /// Returns whether it gets no more references.
    pub fn is_gone(&self) -> bool {
        matches!(self.phase(), Phase::Reclaiming | Phase::NeedsInactivation)
    }
}

impl<K: InodeKind<Inode = LiveInode>> CachedInode<K> {
    /// Returns whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Returns a copy of everything except the forks. Inside a transaction that has latched the
    /// inode it does not change.
    pub fn core(&self) -> InodeCore {
        self.live().inode().core().clone()
    }

    /// Returns how many transactions have changed the inode, or names in it.
    #[doc(alias = "di_changecount")]
    pub fn change_count(&self) -> u64 {
        self.live().inode().core().change_count
    }

    /// Returns the inode that a name in this directory means now.
    ///
    /// # Errors
    ///
    /// ENOENT, ENOTDIR; EUCLEAN for a corrupt volume.
    pub fn find(&self, journal: &Journal, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        self.find_and(journal, name, |_| ())
    }

    /// As [`find`](Self::find). `note` gets the result, a missing name included, while nothing can
    /// change it.
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
        let _shared = self.live().log_item().latch().shared();
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
    /// Adds a mark, which takes a reference. The caller holds one.
    pub fn mark(&self, mark: Mark<K::Watch>) {
        if mark.is_watch() {
            self.share_as_mark();
        } else {
            self.share();
        }
        self.marks().add(mark);
    }

    /// Removes the marks for which `is_wanted` returns true. The caller releases a reference for
    /// each.
    pub fn take_marks(&self, is_wanted: impl Fn(&Mark<K::Watch>) -> bool) -> Vec<Mark<K::Watch>> {
        let taken = self.marks().take(is_wanted);
        taken.iter().filter(|mark| mark.is_watch()).for_each(|_| self.unmark());
        taken
    }
}
