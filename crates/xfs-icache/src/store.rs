//! The interface through which the cache reads and frees inodes, and its implementation over a
//! journal.

use std::marker::PhantomData;
use std::sync::Arc;

use xfs_alloc::{InodeState, chunks_freed, latched_inode_state};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::agi::AgiCheck;
use xfs_format::{Corruption, Geometry, InodeNumber, Structure, StructureAddress};
use xfs_inode::LiveInode;
use xfs_trans::{InodeCluster, InodeImage, InodeRecord, Journal};

use crate::kind::InodeKind;

/// Inodes of one chunk of the cache that are to be read together.
#[derive(Clone, Copy, Debug)]
pub struct BulkRequest {
    /// The first inode number of the chunk, a multiple of 64.
    pub first: InodeNumber,
    /// The wanted inodes, one bit each. Bit 0 is inode `first`.
    pub inodes: u64,
    /// The number of chunks of the group that had been freed before the wanted inodes were looked
    /// up in the inode btree.
    pub freed: u64,
}

/// The type of the in-core inodes of a store.
pub type InodeOf<S> = <<S as InodeStore>::Kind as InodeKind>::Inode;

/// A filesystem below the cache, which reads and frees inodes.
pub trait InodeStore: Send + Sync {
    /// The types of the store's cached inodes.
    type Kind: InodeKind;

    /// Returns the number of allocation groups.
    fn groups(&self) -> usize;

    /// Returns the group of an inode, and the number of the inode within the group. Returns `None`
    /// if the group does not exist. A number that no inode can have, but whose group exists, gives
    /// a result, because a range of numbers may begin with such a number.
    fn place(&self, number: InodeNumber) -> Option<(u32, u32)>;

    /// The place at which an inode was read. The cache keeps it for the store, so that the store
    /// can read neighbours of that inode faster.
    type Near: Default + Send;

    /// Reads an inode and passes it to `put`, while no thread makes or frees an inode of this
    /// number. Returns the result of `put`, or `None` if the inode may have been freed after it was
    /// read. The caller then looks the inode up again, with an empty `near`.
    fn load<R>(
        &self,
        number: InodeNumber,
        near: &mut Self::Near,
        put: impl FnOnce(Arc<InodeOf<Self>>) -> R,
    ) -> Result<Option<R>>;

    /// Reads those `wanted` inodes whose latch can be acquired in shared mode without waiting, and
    /// passes them to `put` together. Meanwhile no thread makes or frees an inode of those numbers.
    /// Damaged and freed inodes are left out. Returns the result of `put`, or `None` if a chunk of
    /// the group was freed after `wanted` was made.
    fn load_together<R>(
        &self,
        wanted: BulkRequest,
        put: impl FnOnce(&[Arc<InodeOf<Self>>]) -> R,
    ) -> Option<R>;

    /// Frees, on disk, an inode that has neither a name nor a reference.
    fn inactivate(&self, inode: &Arc<InodeOf<Self>>) -> Result<()>;

    /// Returns the error that reports a corrupt volume because inode `number`, which is still in
    /// use, was allocated again.
    fn in_use(&self, number: InodeNumber) -> Error;
}

/// The inodes of a volume, read and freed through its journal.
pub struct JournalStore<K> {
    journal: Arc<Journal>,
    kind: PhantomData<fn() -> K>,
}

impl<K> JournalStore<K> {
    /// Makes a store over the volume of a journal.
    pub fn new(journal: Arc<Journal>) -> Self {
        Self { journal, kind: PhantomData }
    }
}

impl<K: InodeKind<Inode = LiveInode>> InodeStore for JournalStore<K> {
    type Kind = K;

    fn groups(&self) -> usize {
        self.journal.geometry().groups().count()
    }

    fn place(&self, number: InodeNumber) -> Option<(u32, u32)> {
        let place = self.journal.geometry().split_inode_number(number);
        place.map(|(group, inode)| (group.0, inode.0))
    }

    type Near = Option<LastCluster>;

    fn load<R>(
        &self,
        number: InodeNumber,
        near: &mut Self::Near,
        put: impl FnOnce(Arc<LiveInode>) -> R,
    ) -> Result<Option<R>> {
        let journal = &*self.journal;
        // The engine of quota changes these inodes, and keeps the one view of each.
        if journal.ledger().is_some_and(|ledger| ledger.is_exempt(number)) {
            return Err(PosixError::NotFound.into());
        }
        let (group, _) = journal.geometry().split_inode(number).ok_or(PosixError::NotFound)?;
        let known = near.take_if(|near| near.cluster.holds(journal, number));
        let was_near = known.is_some();
        let freed = known.as_ref().map_or_else(|| chunks_freed(journal, group), |near| near.freed);
        // The chunk of a known cluster was there. `still` sees whether it was freed since.
        let may_be_freed = freed > 0 && !was_near;
        if may_be_freed && latched_inode_state(journal, number)? != InodeState::Allocated {
            return Err(PosixError::NotFound.into());
        }
        let read = || journal.inode_cluster(number).map(|cluster| LastCluster { cluster, freed });
        let loaded = known.map_or_else(read, Ok).and_then(|known| {
            let known = near.insert(known);
            let still = || chunks_freed(journal, group) == freed;
            load(journal, &known.cluster, number, still, put)
        });
        match loaded {
            // The inode that was read may have been freed meanwhile.
            Err(_) if was_near || chunks_freed(journal, group) != freed => Ok(None),
            loaded => loaded,
        }
    }

    fn load_together<R>(
        &self,
        wanted: BulkRequest,
        put: impl FnOnce(&[Arc<LiveInode>]) -> R,
    ) -> Option<R> {
        // Before any latch: a thread that holds one must not wait for the device.
        let journal = &*self.journal;
        let group = journal.geometry().split_inode_number(wanted.first);
        let (group, _) = group.expect("the cache holds a chunk of the group");
        let wanted = without_quota_inodes(journal, wanted);
        let clusters = clusters(journal, wanted);
        let mut shared = Shared(Vec::with_capacity(wanted.inodes.count_ones() as usize));
        for (cluster, first, inodes) in &clusters {
            let is_there = cluster.share_inodes(journal, *first, *inodes, |record, image| {
                shared.add(journal.geometry(), record, image);
            });
            if !is_there {
                return None;
            }
        }
        (chunks_freed(journal, group) == wanted.freed).then(|| put(&shared.0))
    }

    fn inactivate(&self, inode: &Arc<LiveInode>) -> Result<()> {
        inode.inactivate(&self.journal)
    }

    #[cold]
    fn in_use(&self, number: InodeNumber) -> Error {
        let (_, inode) = self.place(number).expect("the group of a cached inode exists");
        let check = AgiCheck::InUse { inode };
        Corruption::new(Structure::Inode, StructureAddress::Inode(number), check).into()
    }
}

/// The cluster from which a processor slot last read an inode, and how many chunks of the cluster's
/// group had been freed before that read.
pub struct LastCluster {
    cluster: InodeCluster,
    freed: u64,
}

/// Removes quota inodes from the wanted inodes: the quota engine keeps the only in-core inode of
/// each.
fn without_quota_inodes(journal: &Journal, wanted: BulkRequest) -> BulkRequest {
    let Some(ledger) = journal.ledger() else { return wanted };
    let is_file = |bit: &u32| !ledger.is_exempt(InodeNumber(wanted.first.0 + u64::from(*bit)));
    let files = (0..u64::BITS).filter(is_file).fold(0, |files, bit| files | 1 << bit);
    BulkRequest { inodes: wanted.inodes & files, ..wanted }
}

/// Returns the clusters of the wanted inodes. Each comes with an inode number, and with the wanted
/// inodes from this number on, one bit each. A cluster that cannot be read is left out.
fn clusters(journal: &Journal, wanted: BulkRequest) -> Vec<(InodeCluster, InodeNumber, u64)> {
    let (mut found, mut left) = (Vec::with_capacity(2), wanted.inodes);
    while left != 0 {
        let skipped = left.trailing_zeros();
        let first = InodeNumber(wanted.first.0 + u64::from(skipped));
        let Ok(cluster) = journal.inode_cluster(first) else {
            left &= left - 1;
            continue;
        };
        let end = skipped + cluster.count_from(journal, first);
        let later = u64::MAX.checked_shl(end).unwrap_or(0);
        found.push((cluster, first, (left & !later) >> skipped));
        left &= later;
    }
    found
}

/// Inodes whose latches are held in shared mode until this value is dropped.
struct Shared(Vec<Arc<LiveInode>>);

impl Shared {
    /// Adds the inode of `record`, whose latch the caller has acquired in shared mode. If the inode
    /// has no name, releases the latch instead.
    fn add(
        &mut self,
        geometry: &Geometry,
        record: Arc<InodeRecord>,
        image: Option<Box<InodeImage>>,
    ) {
        let live = match image {
            None if !record.is_live() => Err(PosixError::NotFound.into()),
            image => live_inode(&record, image, geometry),
        };
        match live {
            Ok(live) if live.inode().core().nlink > 0 => self.0.push(live),
            _ => record.latch().unlock_shared(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.iter().for_each(|live| live.log_item().latch().unlock_shared());
    }
}

/// Reads an inode of a cluster, and passes it to `put`. `still` returns whether no chunk of the
/// inode's group was freed since the caller looked the inode up. Returns `None` if `still` returns
/// `false`, because the inode may have been freed then.
fn load<R>(
    journal: &Journal,
    cluster: &InodeCluster,
    number: InodeNumber,
    still: impl FnOnce() -> bool,
    put: impl FnOnce(Arc<LiveInode>) -> R,
) -> Result<Option<R>> {
    // The latch stays shared until the inode is inserted. A transaction that makes or frees an
    // inode of this number comes before or after, and never meets a second copy.
    cluster.share_inode(journal, number, |record, image| {
        if !record.is_live() || !still() {
            return Ok(None);
        }
        let live = live_inode(record, image, journal.geometry())?;
        // An inode without a name is cached already, or waits on its unlinked list for the next
        // recovery.
        if live.inode().core().nlink == 0 {
            return Err(PosixError::NotFound.into());
        }
        Ok(Some(put(live)))
    })?
}

/// Returns the in-core inode of a record, whose latch the caller holds in shared mode. `image` is
/// the inode's image if the inode was not in memory before.
#[inline]
fn live_inode(
    record: &Arc<InodeRecord>,
    image: Option<Box<InodeImage>>,
    geometry: &Geometry,
) -> Result<Arc<LiveInode>> {
    let record = Arc::clone(record);
    match image {
        Some(image) => LiveInode::of_image(record, image, geometry),
        None => LiveInode::of_record(record, geometry),
    }
}
