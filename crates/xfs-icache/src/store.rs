//! Where the inodes of a table come from, and where they go.

use std::marker::PhantomData;
use std::sync::Arc;

use xfs_alloc::{InodeState, chunks_freed, latched_inode_state};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::agi::AgiCheck;
use xfs_format::{Corruption, Geometry, InodeNumber, Place, Structure};
use xfs_inode::Live;
use xfs_trans::{InodeCluster, InodeImage, InodeRecord, Journal};

use crate::kind::InodeKind;

/// Inodes of one chunk of the table that are wanted together.
#[derive(Clone, Copy, Debug)]
pub struct BulkRequest {
    /// The first number of the chunk, a multiple of 64.
    pub first: InodeNumber,
    /// A bit for each.
    pub inodes: u64,
    /// How many chunks of the group had been given back before the inode btree was asked which inodes there are.
    pub freed: u64,
}

/// An inode of a store.
pub type InodeOf<S> = <<S as Store>::Kind as InodeKind>::Inode;

/// Where inodes come from, and where they go.
pub trait Store: Send + Sync {
    /// What it keeps of an inode.
    type Kind: InodeKind;

    /// Allocation groups.
    fn groups(&self) -> usize;

    /// The group of a number, and the number in it; `None` for one that no inode has.
    fn place(&self, number: InodeNumber) -> Option<(u32, u32)>;

    /// What is kept of where an inode was read, for those that lie beside it.
    type Near: Default + Send;

    /// Reads an inode and gives it to `put`, while nobody makes or frees one of that number. `None`
    /// means that what was read may be no inode any more, and has to be looked for again, without what was
    /// `near`.
    fn load<R>(
        &self,
        number: InodeNumber,
        near: &mut Self::Near,
        put: impl FnOnce(Arc<InodeOf<Self>>) -> R,
    ) -> Result<Option<R>>;

    /// Reads those of the inodes that nobody holds, and gives them to `put` together, while nobody makes or
    /// frees one of those numbers. What has to be waited for, or is damaged, or gone, is left out; so is all if a
    /// chunk of their group was given back since `wanted` was made.
    fn load_together<R>(
        &self,
        wanted: BulkRequest,
        put: impl FnOnce(&[Arc<InodeOf<Self>>]) -> R,
    ) -> Option<R>;

    /// Frees an inode that has neither a name nor a user.
    fn inactivate(&self, inode: &Arc<InodeOf<Self>>) -> Result<()>;

    /// The finding that an inode was given away which a file has.
    fn in_use(&self, number: InodeNumber) -> Error;
}

/// The inodes of a volume, read and freed by way of its journal.
pub struct JournalStore<K> {
    journal: Arc<Journal>,
    kind: PhantomData<fn() -> K>,
}

impl<K> JournalStore<K> {
    /// Returns the store over the volume of a journal.
    pub fn new(journal: Arc<Journal>) -> Self {
        Self { journal, kind: PhantomData }
    }
}

impl<K: InodeKind<Inode = Live>> Store for JournalStore<K> {
    type Kind = K;

    fn groups(&self) -> usize {
        self.journal.geometry().groups().count()
    }

    fn place(&self, number: InodeNumber) -> Option<(u32, u32)> {
        self.journal.geometry().split_inode(number).map(|(group, inode)| (group.0, inode.0))
    }

    type Near = Option<Near>;

    fn load<R>(
        &self,
        number: InodeNumber,
        near: &mut Self::Near,
        put: impl FnOnce(Arc<Live>) -> R,
    ) -> Result<Option<R>> {
        let journal = &*self.journal;
        let known = near.take_if(|near| near.cluster.holds(journal, number));
        let was_near = known.is_some();
        let freed = known.as_ref().map_or_else(|| chunks_freed(journal, number), |near| near.freed);
        if freed > 0 && latched_inode_state(journal, number)? != InodeState::Allocated {
            return Err(PosixError::NotFound.into());
        }
        let read = || journal.inode_cluster(number).map(|cluster| Near { cluster, freed });
        let loaded = known.map_or_else(read, Ok).and_then(|known| {
            let known = near.insert(known);
            load(journal, &known.cluster, (number, freed), put)
        });
        match loaded {
            // What was read may have been no inode any more.
            Err(_) if was_near || chunks_freed(journal, number) != freed => Ok(None),
            loaded => loaded,
        }
    }

    fn load_together<R>(
        &self,
        wanted: BulkRequest,
        put: impl FnOnce(&[Arc<Live>]) -> R,
    ) -> Option<R> {
        // Before any latch: who holds one does not wait for the device here.
        let journal = &*self.journal;
        let clusters = clusters(journal, wanted);
        let mut shared = Shared(Vec::with_capacity(wanted.inodes.count_ones() as usize));
        for (cluster, first, inodes) in &clusters {
            let is_there = cluster.share_inodes(journal, (*first, *inodes), |record, image| {
                shared.add(journal.geometry(), record, image);
            });
            if !is_there {
                return None;
            }
        }
        (chunks_freed(journal, wanted.first) == wanted.freed).then(|| put(&shared.0))
    }

    fn inactivate(&self, inode: &Arc<Live>) -> Result<()> {
        inode.inactivate(&self.journal)
    }

    #[cold]
    fn in_use(&self, number: InodeNumber) -> Error {
        let inode = self.place(number).map_or(0, |(_, inode)| inode);
        let check = AgiCheck::InUse { inode };
        Corruption::new(Structure::Inode, Place::Inode(number), check).into()
    }
}

/// A cluster that inodes were read from, and how many chunks of its group had been given back before.
pub struct Near {
    cluster: InodeCluster,
    freed: u64,
}

/// The clusters of the inodes that are wanted, and which of them lie in each: from a number on, a bit for each.
/// Those whose cluster cannot be read are left out.
fn clusters(journal: &Journal, wanted: BulkRequest) -> Vec<(InodeCluster, InodeNumber, u64)> {
    let (mut found, mut left) = (Vec::with_capacity(2), wanted.inodes);
    while left != 0 {
        let skipped = left.trailing_zeros();
        let first = InodeNumber(wanted.first.0 + u64::from(skipped));
        let Ok(cluster) = journal.inode_cluster(first) else {
            left &= left - 1;
            continue;
        };
        let end = skipped + cluster.count_from(journal, first).max(1);
        let later = u64::MAX.checked_shl(end).unwrap_or(0);
        found.push((cluster, first, (left & !later) >> skipped));
        left &= later;
    }
    found
}

/// Inodes whose latches are shared as long as this is there.
struct Shared(Vec<Arc<Live>>);

impl Shared {
    /// One more, whose latch is shared, if it is an inode with a name.
    fn add(&mut self, geometry: &Geometry, record: Arc<InodeRecord>, image: Option<InodeImage>) {
        let live = match image {
            Some(image) => Live::of_image(Arc::clone(&record), image, geometry),
            None if record.is_live() => Live::of_record(Arc::clone(&record), geometry),
            None => Err(PosixError::NotFound.into()),
        };
        match live {
            Ok(live) if live.inode().core().nlink > 0 => self.0.push(live),
            _ => record.latch().unlock_shared(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.iter().for_each(|live| live.record().latch().unlock_shared());
    }
}

/// Reads an inode. `None`: a chunk was given back since there were `freed`.
fn load<R>(
    journal: &Journal,
    cluster: &InodeCluster,
    (number, freed): (InodeNumber, u64),
    put: impl FnOnce(Arc<Live>) -> R,
) -> Result<Option<R>> {
    // Shared until the inode is in the table: a transaction that makes a file of this number, or
    // frees it, comes before or after, and never meets a second inode in memory.
    let record = cluster.inode(journal, number)?;
    let _latch = record.latch().shared();
    if !record.is_live() || chunks_freed(journal, number) != freed {
        return Ok(None);
    }
    let live = Live::of_record(Arc::clone(&record), journal.geometry())?;
    // Those without a name are in the table, or wait on their list for the next recovery.
    if live.inode().core().nlink == 0 {
        return Err(PosixError::NotFound.into());
    }
    Ok(Some(put(live)))
}
