//! One cached inode, its references and the phases of its life.
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
//! - **I2** No path leads back from the phases reclaiming and needs-inactivation. A thread that
//!   meets an inode in one of these phases looks the inode number up again, or gets ENOENT. So
//!   exactly one thread removes an inode, and one frees it.
//! - **I3** A reclaimable inode has the idle tag. A thread may have found an inode without knowing
//!   whether the inode is still in its slot. Such a thread must not touch the tag once the inode is
//!   in one of the phases of I2, because the slot may hold another file by then.

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
use crate::kind::{CacheableInode, InodeKind};
use crate::marks::{Mark, Marks};
use crate::rights::Rights;

/// An inode in the inode cache, with its references, file locks, contents and marks (watches and
/// keepers).
pub struct CachedInode<K: InodeKind> {
    /// The fields that every lookup reads and few threads write. These fields have a cache line of
    /// their own.
    hints: Hints<K>,
    locks: LockState,
    /// The state of the contents, made on first use. Most files are never read or written while
    /// they are cached.
    contents: SetOnce<Box<K::Contents>, Object>,
    state: Mutex<State, Object>,
}

/// The phase of a cached inode's life. The figure at the head of this module shows all phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The inode is under construction. Walks over the cache skip it.
    New,
    /// The inode has references.
    Live,
    /// The inode has no reference, but stays cached. A lookup takes a reference to it again.
    Reclaimable,
    /// The inode is being evicted from the cache.
    Reclaiming,
    /// The inode has neither a name nor a reference, and is being freed on disk.
    NeedsInactivation,
}

/// Whether an inode stays cached after its last reference is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The inode stays as long as the cache has room.
    Cached,
    /// The inode is evicted when its last reference is released, because the caller needs the inode
    /// only once.
    #[doc(alias = "XFS_IGET_DONTCACHE")]
    Once,
}

struct State {
    users: u32,
    /// The number of references in `users` that marks hold. A mark is a watch or a keeper. The
    /// marks are removed once nothing else can reach the inode.
    marks: u32,
    phase: Phase,
    keep: Keep,
    /// Whether a lookup has taken a reference since reclaim last swept over the inode.
    referenced: bool,
    /// Whether the inode was made without a name, and has never had a name.
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
pub(crate) enum TakeOutcome {
    /// The reference was taken. The inode had references before.
    Here,
    /// The reference was taken. The inode had no reference before.
    Recycled,
    /// The reference was refused, because the inode is being freed.
    NeedsInactivation,
    /// The reference was refused, because the inode is being evicted and is about to leave the
    /// index of the cache.
    Evicted,
}

impl TakeOutcome {
    /// Returns whether the reference was taken.
    pub(crate) fn is_here(self) -> bool {
        matches!(self, Self::Here | Self::Recycled)
    }
}

/// The outcome of releasing a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseOutcome {
    /// The inode has other references.
    InUse,
    /// The inode has no reference now, and stays cached.
    Idle,
    /// The inode is being evicted: the releasing thread must remove it from the index of the cache.
    Evicted,
    /// The inode has neither a name nor a reference now. The releasing thread must free it on disk,
    /// or queue it so that another thread does.
    NeedsInactivation,
    /// The inode has no name, and no references except those of marks (watches and keepers). The
    /// releasing thread must remove the marks.
    Abandoned,
}

/// The outcome of a sweep over one inode: whether reclaim evicts the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepOutcome {
    /// The inode stays: it is referenced, was taken since the last sweep, or is being evicted or
    /// freed.
    Stays,
    /// The inode is being evicted: the sweeping thread must remove it from the index of the cache.
    Evicted,
}

impl<K: InodeKind> CachedInode<K> {
    /// Makes the cached inode for `live`, with one reference, which the caller has.
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
    /// Returns the in-core inode.
    #[inline]
    pub fn live(&self) -> &Arc<K::Inode> {
        self.hints.live()
    }

    /// Returns the state of a regular file's contents.
    pub fn contents(&self) -> &K::Contents {
        self.contents.value_or_init(Box::default)
    }

    /// Returns the state of the contents, or `None` if no caller has needed the state yet.
    pub fn known_contents(&self) -> Option<&K::Contents> {
        self.contents.value().map(|contents| &**contents)
    }

    /// Returns the locks and leases that programs hold on the file, and the counts of its opens.
    pub fn locks(&self) -> FileLocks<'_> {
        FileLocks { word: self.hints.word(), state: &self.locks }
    }

    /// Returns the marks of the inode: its watches, and its keepers, which only keep it cached.
    pub fn marks(&self) -> &Marks<K::Watch> {
        self.hints.marks()
    }

    /// Returns the type of the file, without taking a lock.
    pub fn file_type(&self) -> FileType {
        self.hints.file_type()
    }

    /// Returns owner, group and mode, without taking a lock. Returns `None` if they are not cached.
    pub fn rights(&self) -> Option<Rights> {
        self.hints.rights().rights()
    }

    /// Caches owner, group and mode. The caller holds the latch of the inode, shared or exclusive.
    pub fn note_rights(&self, rights: Rights) {
        self.hints.rights().note(rights);
    }

    /// Removes owner, group and mode from the cache (of [`rights`](Self::rights)) before one of
    /// them changes. The caller holds the exclusive latch of the inode, and keeps it until the
    /// change is made.
    pub fn forget_rights(&self) {
        self.hints.rights().forget();
    }

    /// Sets whether the file has buffered bytes, or preallocated blocks past its end.
    pub fn set_needs_flush(&self, needs_flush: bool) {
        self.slot().into_iter().for_each(|slot| slot.set_needs_flush(needs_flush));
    }

    pub(crate) fn slot(&self) -> Option<&ChunkSlot<K>> {
        self.hints.slot()
    }

    /// Returns the phase of the inode. The phase may have changed by the time the caller uses the
    /// result.
    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }

    /// Sets whether the inode was made without a name and may still get its first name.
    #[doc(alias = "I_LINKABLE")]
    pub fn set_awaits_name(&self, awaits_name: bool) {
        self.state.lock().awaits_name = awaits_name;
    }

    /// Returns whether the inode may get its first name. Any other file without a name was removed,
    /// and never gets a name again.
    pub fn awaits_name(&self) -> bool {
        self.state.lock().awaits_name
    }

    /// Ends the construction of the inode: walks show it from now on.
    pub fn set_ready(&self) {
        let mut state = self.state.lock();
        if state.phase == Phase::New {
            state.phase = Phase::Live;
        }
    }

    /// Takes one more reference to the inode. The caller holds a reference already.
    pub(crate) fn share(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "an inode without a reference gets a user");
        state.add_user();
    }

    /// Takes another reference, for a mark: a watch or a keeper. The reference of a mark is
    /// released once nothing but marks can reach the inode. The caller holds a reference already.
    pub(crate) fn share_as_mark(&self) {
        let mut state = self.state.lock();
        assert!(state.users > 0, "an inode without a reference gets a mark");
        state.add_user();
        state.marks += 1;
    }

    /// Turns the reference of a mark into an ordinary reference, which the caller then releases.
    pub(crate) fn unmark(&self) {
        let mut state = self.state.lock();
        assert!(state.marks > 0, "there is no mark");
        state.marks -= 1;
    }

    /// Returns whether the caller's reference is the only one. Another thread may take a reference
    /// before the caller uses the result.
    pub fn is_alone(&self) -> bool {
        let state = self.state.lock();
        state.users == 1 && state.phase == Phase::Live
    }

    /// If the caller's reference is the only one, gives it up in order to free the inode. Returns
    /// whether the reference was given up. If so, no thread gets a reference to the inode any more.
    pub(crate) fn claim(&self) -> bool {
        let mut state = self.state.lock();
        let is_alone = state.users == 1 && state.phase == Phase::Live;
        if is_alone {
            (state.users, state.phase) = (0, Phase::NeedsInactivation);
        }
        is_alone
    }

    /// Takes a reference for a lookup, unless the inode is being evicted or freed.
    pub(crate) fn take(&self, keep: Keep) -> TakeOutcome {
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

    /// Takes a reference for a walk. Taking this reference does not count as a use of the inode.
    /// Returns `false` if the walk skips the inode. `is_active` says whether the filesystem is in
    /// use; if it is not, inodes without a reference are skipped.
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

    /// Starts the eviction of the inode if the inode has no reference. Returns `Evicted` if the
    /// eviction has started, and `Stays` otherwise.
    pub(crate) fn evict(&self) -> SweepOutcome {
        self.leave(&mut self.state.lock())
    }

    /// Starts the eviction as [`evict`](Self::evict) does, but spares an inode that a lookup has
    /// taken since the last sweep. Such an inode stays until the next sweep.
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
        // Sweeps need not visit the inode again before it is released.
        self.slot().into_iter().for_each(ChunkSlot::clear_idle);
        if state.phase != Phase::Reclaimable {
            return SweepOutcome::Stays;
        }
        state.phase = Phase::Reclaiming;
        SweepOutcome::Evicted
    }

    /// Returns whether no thread can get a reference any more, because the inode is being evicted
    /// or freed.
    pub fn is_gone(&self) -> bool {
        matches!(self.phase(), Phase::Reclaiming | Phase::NeedsInactivation)
    }
}

impl<K: InodeKind<Inode = LiveInode>> CachedInode<K> {
    /// Returns whether the inode is a directory.
    pub fn is_directory(&self) -> bool {
        self.file_type() == FileType::Directory
    }

    /// Returns a copy of the inode core. No other thread changes the core while a transaction holds
    /// the latch of the inode.
    pub fn core(&self) -> InodeCore {
        self.live().inode().core().clone()
    }

    /// Returns the number of transactions that have changed the inode or, if it is a directory, the
    /// names in it.
    #[doc(alias = "di_changecount")]
    pub fn change_count(&self) -> u64 {
        self.live().inode().core().change_count
    }

    /// Returns the inode that a name in this directory means now, and the inode's type.
    ///
    /// # Errors
    ///
    /// Returns ENOENT if the name does not exist, ENOTDIR if this inode is not a directory, and
    /// EUCLEAN for a corrupt volume.
    pub fn find(&self, journal: &Journal, name: &[u8]) -> Result<(InodeNumber, EntryType)> {
        self.find_and(journal, name, |_| ())
    }

    /// Finds the inode of a name as [`find`](Self::find) does, and calls `note` with it while no
    /// thread can change the name. `note` gets `None` for a name that does not exist.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`find`](Self::find).
    pub fn find_and(
        &self,
        journal: &Journal,
        name: &[u8],
        note: impl FnOnce(Option<InodeNumber>),
    ) -> Result<(InodeNumber, EntryType)> {
        let _shared = self.live().log_item().latch().shared();
        let inode = self.live().inode();
        let recent = self.live().recent_buffers();
        let directory = Directory::of_latched(journal.cache(), &inode, recent)?;
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
    /// Adds a mark (a watch or a keeper), which takes a reference. The caller holds a reference
    /// already.
    pub fn mark(&self, mark: Mark<K::Watch>) {
        if mark.is_watch() {
            self.share_as_mark();
        } else {
            self.share();
        }
        self.marks().add(mark);
    }

    /// Removes the marks for which `is_wanted` returns `true`. For each of them the caller must
    /// then release one reference.
    pub(crate) fn take_marks(
        &self,
        is_wanted: impl Fn(&Mark<K::Watch>) -> bool,
    ) -> Vec<Mark<K::Watch>> {
        let taken = self.marks().take(is_wanted);
        taken.iter().filter(|mark| mark.is_watch()).for_each(|_| self.unmark());
        taken
    }
}
