//! Handles on a volume that can be made on every thread without a write that all threads share.
//!
//! A reference count is written by each clone and each drop. One count for the whole volume would
//! make every lookup on every thread fight over one cache line. So a volume is held by several
//! counts, one per slot ([`Slots`]); a handle takes the count of the slot of the thread that makes
//! it.
//!
//! ```text
//!  Volume ──► Holder ──► Share ┐            Node, File, ReadDir ──► one Share
//!                   ├──► Share ├──► Core
//!                   └──► Share ┘    and Party ╌╌► its Shares, weakly: how a Node finds its thread's
//! ```
//!
//! Who acts is a matter of the share: a volume as somebody else ([`Volume::as_user`](crate::Volume::as_user))
//! has shares of its own over the same core, and every handle that comes of one acts as the same.
//!
//! # Invariants
//!
//! - **I1** Neither `Core` nor `Party` keeps a `Share` alive, so what is dropped last frees everything.
//! - **I2** While a `Volume` lives, finding the share of the calling thread writes to one count of
//!   scope slot. After that, handles are made from the share at hand.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use xfs_buffer::BufferCache;
use xfs_format::{InodeNumber, Superblock};
use xfs_icache::{Keep, last_ref, release_ref};
use xfs_inode::Inode;
use xfs_locks::SlotTally;
use xfs_log::LogState;
use xfs_sync::{SetOnce, Slots, Volume as VolumeScope};

use crate::credentials::Credentials;
use crate::kind::CachedInode;
use crate::kind::PerCpuRef;
use crate::node::Node;
use crate::permission::Who;
use crate::volume::Staleness;
use crate::writing::{Parts, Writing};
use crate::{Error, PosixError, Result};

/// What there is once per volume.
pub(crate) struct Core {
    pub(crate) superblock: Superblock,
    pub(crate) cache: Arc<BufferCache>,
    pub(crate) log: Option<LogState>,
    pub(crate) staleness: Option<Staleness>,
    pub(crate) writing: Option<Writing>,
    /// What was wrong when the volume was opened.
    findings: Vec<Error>,
}

/// Who acts through a set of shares.
struct Party {
    /// `None` may do everything.
    credentials: Option<Credentials>,
    shares: SetOnce<Slots<Weak<Share>>, VolumeScope>,
}

impl Core {
    pub(crate) fn new(
        superblock: Superblock,
        cache: Arc<BufferCache>,
        log: Option<LogState>,
        staleness: Option<Staleness>,
    ) -> Self {
        Self { superblock, cache, log, staleness, writing: None, findings: Vec::new() }
    }

    /// The same, open for writing.
    pub(crate) fn with_writing(mut self, writing: Writing) -> Self {
        self.writing = Some(writing);
        self
    }
}

/// One of the counts that hold a volume.
pub(crate) struct Share {
    core: Arc<Core>,
    party: Arc<Party>,
}

impl Deref for Share {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Share {
    /// The share of the calling thread.
    pub(crate) fn here(self: &Arc<Self>) -> Arc<Self> {
        let mine = self.party.shares.value().and_then(|shares| shares.mine().upgrade());
        mine.unwrap_or_else(|| Arc::clone(self))
    }

    /// Whether both hold the same volume, whoever acts by them.
    pub(crate) fn is_of_volume(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// Who acts by the handles that come of this.
    pub(crate) fn who(&self) -> Who<'_> {
        Who::new(self.party.credentials.as_ref())
    }

    /// The inode that a directory entry, a parent pointer or the superblock leads to.
    pub(crate) fn node(self: &Arc<Self>, number: InodeNumber) -> Result<Node> {
        if let Some(writing) = &self.writing {
            return writing.parts().take(number).map(|entry| self.live(entry));
        }
        let inode = Inode::read(&self.cache, number)?;
        Ok(Node::still(self.here(), Arc::new(inode)))
    }

    /// A node for the use of an entry that the caller has.
    pub(crate) fn live(self: &Arc<Self>, entry: Arc<CachedInode>) -> Node {
        let share = self.here();
        let by_slot = self.parts().ok().and_then(|parts| {
            let held = parts.refs.acquire(&entry, &parts.inode_cache)?;
            parts.release(Arc::clone(&entry));
            Some(Held::BySlot(held))
        });
        let held = by_slot.unwrap_or(Held::Alone(entry));
        Node::live(User { share, held: Some(held) })
    }

    /// A user of an inode that is in memory, and may be on its way out: then `None`.
    pub(crate) fn user_of(self: &Arc<Self>, entry: &Arc<CachedInode>) -> Option<User> {
        let parts = self.parts().ok()?;
        let held = match parts.refs.acquire(entry, &parts.inode_cache) {
            Some(held) => Held::BySlot(held),
            None if entry.take(Keep::Cached).is_here() => Held::Alone(Arc::clone(entry)),
            None => return None,
        };
        Some(User { share: Arc::clone(self), held: Some(held) })
    }

    /// The same, for who outlives the volume. Of a volume that is open for reading there is nothing.
    pub(crate) fn weak_parts(&self) -> Weak<Parts> {
        self.writing.as_ref().map_or_else(Weak::new, Writing::weak_parts)
    }

    /// What the volume is written with.
    ///
    /// # Errors
    ///
    /// EROFS if it is open for reading.
    pub(crate) fn parts(&self) -> Result<&Parts> {
        let writing = self.writing.as_ref().ok_or(PosixError::ReadOnly)?;
        Ok(writing.parts())
    }
}

/// One use of an inode of a volume that is written to, or a part of one.
pub(crate) struct User {
    share: Arc<Share>,
    /// There until it is dropped.
    held: Option<Held>,
}

enum Held {
    /// A use of its own.
    Alone(Arc<CachedInode>),
    /// The use of a slot.
    BySlot(Arc<PerCpuRef>),
}

impl User {
    fn held(&self) -> &Held {
        self.held.as_ref().expect("it is held until it is dropped")
    }

    pub(crate) fn entry(&self) -> &Arc<CachedInode> {
        match self.held() {
            Held::Alone(entry) => entry,
            Held::BySlot(held) => held.entry(),
        }
    }

    /// Where opens of it are counted, if not in the inode.
    pub(crate) fn tally(&self) -> Option<&SlotTally> {
        match self.held() {
            Held::Alone(_) => None,
            Held::BySlot(held) => Some(held.tally()),
        }
    }

    /// The share by which it holds the volume.
    pub(crate) fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// What the volume is written with.
    pub(crate) fn parts(&self) -> Result<&Parts> {
        self.share.parts()
    }

    /// One more use of the inode, by another share of the same volume.
    pub(crate) fn by(&self, share: Arc<Share>) -> Self {
        let held = match self.held() {
            Held::Alone(entry) => {
                entry.share();
                Held::Alone(Arc::clone(entry))
            }
            Held::BySlot(held) => Held::BySlot(Arc::clone(held)),
        };
        Self { share, held: Some(held) }
    }

    /// Gives it up, and frees what is doomed by that.
    pub(crate) fn finish(mut self) {
        let Some(writer) = self.share.parts().ok().and_then(Parts::try_writer) else { return };
        let entry = match self.held.take() {
            Some(Held::Alone(entry)) => Some(entry),
            Some(Held::BySlot(held)) => last_ref(held),
            None => None,
        };
        if let Some(entry) = entry {
            writer.finish_with(entry);
        }
    }
}

impl Clone for User {
    fn clone(&self) -> Self {
        self.by(Arc::clone(&self.share))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let (Some(held), Ok(parts)) = (self.held.take(), self.share.parts()) else { return };
        match held {
            Held::Alone(entry) => parts.release(entry),
            Held::BySlot(held) => release_ref(held, &parts.inode_cache),
        }
    }
}

/// What keeps every share of a party alive while the volume is open.
pub(crate) struct Holder {
    shares: Slots<Arc<Share>>,
}

impl Holder {
    pub(crate) fn new(core: Core, findings: Vec<Error>) -> Self {
        Self::over(Arc::new(Core { findings, ..core }), None)
    }

    /// The same volume, as somebody else.
    pub(crate) fn acting_as(&self, credentials: Credentials) -> Self {
        Self::over(Arc::clone(&self.here().core), Some(credentials))
    }

    fn over(core: Arc<Core>, credentials: Option<Credentials>) -> Self {
        let party = Arc::new(Party { credentials, shares: SetOnce::new() });
        let share = || Share { core: Arc::clone(&core), party: Arc::clone(&party) };
        let shares = Slots::new(|| Arc::new(share()));
        let mut weak = shares.iter().map(Arc::downgrade).collect::<Vec<_>>().into_iter();
        let weak = Slots::with_count(weak.len(), || weak.next().unwrap_or_default());
        assert!(party.shares.set(weak).is_ok(), "the shares of a party are made once");
        Self { shares }
    }

    /// What the volume was written with, if anything; `None` if somebody else holds a share.
    pub(crate) fn into_writing(self) -> Option<Option<Writing>> {
        let mut core = None;
        for share in self.shares.into_values() {
            core = Some(Arc::into_inner(share)?.core);
        }
        Some(Arc::into_inner(core?)?.writing)
    }

    /// What was wrong when the volume was opened.
    pub(crate) fn findings(&self) -> &[Error] {
        &self.here().core.findings
    }

    /// The share of the calling thread.
    pub(crate) fn here(&self) -> &Arc<Share> {
        self.shares.mine()
    }
}

#[cfg(test)]
mod tests;
