//! Bulkstat: metadata of all inodes of a mounted volume, group by group, in the order of their
//! numbers.
//!
//! Owns: the order of the inodes, and where the metadata of each inode come from. They are as an
//! operation on the inode would find them. The inode btree says which inodes exist. The state of a
//! cached inode comes from the inode cache, and that of any other from its cluster on disk. This
//! module also reads the metadata of all entries of a directory. Does **not** own walks over cached
//! inodes (`xfs-icache`).
//!
//! # Invariants
//!
//! - **I1** An inode that is in use all the time is shown once. An inode that is made or freed
//!   meanwhile is shown once or not at all.
//! - **I2** Inodes that were read from a chunk are shown only if no chunk of their group was freed
//!   meanwhile. The blocks of a freed chunk might hold something else by then. If a chunk was
//!   freed, the inodes are read again.

use std::ops::ControlFlow;

use xfs_alloc::{chunks_freed, latched_inode_chunks};
use xfs_buffer::{Error, PosixError, Result};
use xfs_format::inode::{InodeCheck, InodeCore};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{
    AgInode, AgNumber, Corruption, Geometry, InodeNumber, Structure, StructureAddress,
};
use xfs_icache::{BulkRequest, Keep};

use crate::contents::Contents;
use crate::inode_ref::InodeRef;
use crate::kind::CachedInode;
use crate::metadata::{Metadata, metadata_of_inode};
use crate::mount::Mount;

/// The most inode chunks that one search of the inode btree returns.
const BATCH_CHUNKS: usize = 32;
/// The most inode chunks that can overlap a range of 64 inode numbers that begins at a multiple of
/// 64.
const CHUNKS_OF_64_NUMBERS: usize = 2;

/// How bulkstat reads inodes: around the inode cache or through it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BulkPath {
    /// Reads cached inodes from the cache, and other inodes from their clusters. Nothing is
    /// inserted into the cache.
    #[default]
    PastCache,
    /// Reads each inode as an operation would: inserts it into the cache, and evicts it if it was
    /// not cached before.
    ThroughCache,
}

/// Which inodes of a chunk exist on disk, and which of them are in use.
#[doc(alias = "xfs_inumbers")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InodeChunkUse {
    /// The number of the chunk's first inode.
    pub start: InodeNumber,
    /// A bit for each inode of the chunk: 1 if the inode exists on disk. Bit 0 is inode `start`.
    pub present: u64,
    /// A bit for each inode of the chunk: 1 if the inode is in use. Bit 0 is inode `start`.
    pub allocated: u64,
}

/// Returns the metadata of each of these inodes, whose numbers the caller has just read from
/// directory entries. An element is `None` if the inode is gone or damaged. To find out which, the
/// caller looks the inode up. Inodes of one cluster are read together into `scratch`, and nothing
/// is inserted into the cache.
pub fn metadata_of(
    mount: &Mount,
    numbers: &[InodeNumber],
    scratch: &mut Vec<u8>,
) -> Vec<Option<Metadata>> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let inodes = Vec::with_capacity(sorted.len());
    let mut found = ChunkInodes { inodes, scratch: std::mem::take(scratch) };
    let same_chunk = |a: &InodeNumber, b: &InodeNumber| word_of(*a) == word_of(*b);
    for chunk in sorted.chunk_by(same_chunk) {
        let Some((group, _)) = chunk.first().and_then(|one| mount.geometry().split_inode(*one))
        else {
            continue;
        };
        GroupBulkstat { mount, group, path: BulkPath::PastCache }.look_at(chunk, &mut found);
    }
    let ChunkInodes { mut inodes, scratch: used } = found;
    *scratch = used;
    inodes.sort_unstable_by_key(|(number, _)| *number);
    let of = |number: &InodeNumber| {
        let place = inodes.binary_search_by_key(number, |(found, _)| *found).ok()?;
        inodes.get(place)?.1.as_ref().ok().cloned()
    };
    numbers.iter().map(of).collect()
}

/// Rounds an inode number down to a multiple of 64. The result is the first of the 64 inodes whose
/// tags (the marks that a walk looks for) share one machine word in the inode cache.
pub fn word_of(number: InodeNumber) -> InodeNumber {
    InodeNumber(number.0 - number.0 % u64::from(u64::BITS))
}

/// A function that is called for each inode, with the inode's metadata, or with the error if the
/// inode is damaged. It returns `Break` to stop the walk.
pub type ShowInode<'a> = dyn FnMut(InodeNumber, Result<Metadata>) -> ControlFlow<()> + 'a;

impl Mount {
    /// Calls `f` with all inodes in use in a group, in the order of their numbers, from inode
    /// `from` on. `f` may stop the walk by returning `Break`.
    ///
    /// # Errors
    ///
    /// Returns a corruption if the inode btrees are damaged, or the device's error. Damage of a
    /// single inode is an error for `f` only.
    pub fn bulkstat_group(
        &self,
        group: AgNumber,
        from: AgInode,
        path: BulkPath,
        f: &mut ShowInode<'_>,
    ) -> Result<ControlFlow<()>> {
        GroupBulkstat { mount: self, group, path }.run(from, f)
    }

    /// Calls `f` with each chunk of inodes, beginning with the chunk of inode `from`. `f` may stop
    /// the walk by returning `Break`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`bulkstat_group`](Self::bulkstat_group).
    pub fn inumbers(
        &self,
        from: InodeNumber,
        mut f: impl FnMut(InodeChunkUse) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let (journal, geometry) = (&self.journal, self.geometry());
        let mut chunks = Vec::with_capacity(BATCH_CHUNKS);
        for (group, mut from) in groups_from(geometry, from) {
            loop {
                chunks.clear();
                latched_inode_chunks(journal, group, from, BATCH_CHUNKS, &mut chunks)?;
                for chunk in &chunks {
                    let start = geometry.join_inode(group, chunk.start);
                    let (present, allocated) = (chunk.present(), chunk.allocated());
                    if f(InodeChunkUse { start, present, allocated }).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                match chunks.last().and_then(after) {
                    Some(next) => from = next,
                    None => break,
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Returns the numbers of the allocation groups, beginning with that of inode `from`. Each comes
/// with the number, within the group, of the first inode to show: that of `from` in the first
/// group, and the lowest number in any other group.
pub fn groups_from(
    geometry: &Geometry,
    from: InodeNumber,
) -> impl Iterator<Item = (AgNumber, AgInode)> {
    let bits = geometry.ag_inode_log();
    let first = from.0.checked_shr(bits).unwrap_or(0);
    let inside = AgInode(from.0.wrapping_sub(first.checked_shl(bits).unwrap_or(0)) as u32);
    let groups = geometry.groups().filter(move |group| u64::from(group.0) >= first);
    groups.map(move |group| (group, if u64::from(group.0) == first { inside } else { AgInode(0) }))
}

/// Returns the inode number that follows the last inode of a chunk, or `None` if that number would
/// not fit in 32 bits.
fn after(chunk: &InodeChunk) -> Option<AgInode> {
    chunk.start.0.checked_add(u64::BITS).map(AgInode)
}

/// The inodes that were found in one chunk, each with its metadata or the error of reading it.
#[derive(Default)]
struct ChunkInodes {
    inodes: Vec<(InodeNumber, Result<Metadata>)>,
    /// Memory for the bytes of a cluster, kept for reuse.
    scratch: Vec<u8>,
}

/// The state of a bulkstat of one allocation group.
struct GroupBulkstat<'a> {
    mount: &'a Mount,
    group: AgNumber,
    path: BulkPath,
}

impl GroupBulkstat<'_> {
    fn run(&self, mut from: AgInode, f: &mut ShowInode<'_>) -> Result<ControlFlow<()>> {
        let journal = &self.mount.journal;
        let mut chunks = Vec::with_capacity(BATCH_CHUNKS);
        let mut found = ChunkInodes::default();
        loop {
            let freed = chunks_freed(journal, self.group);
            chunks.clear();
            latched_inode_chunks(journal, self.group, from, BATCH_CHUNKS, &mut chunks)?;
            if chunks.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            for chunk in &chunks {
                found.inodes.clear();
                let looked = self.read_chunk(chunk, from, freed, &mut found);
                if chunks_freed(journal, self.group) != freed {
                    // I2: again from here.
                    break;
                }
                looked?;
                for (number, metadata) in found.inodes.drain(..) {
                    if f(number, metadata).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                // The chunk was shown, and is not shown again (I1).
                match after(chunk) {
                    Some(next) => from = next,
                    None => return Ok(ControlFlow::Continue(())),
                }
            }
        }
    }

    /// Reads those inodes of a chunk that are in use, beginning with inode `from`. `freed` is the
    /// number of chunks of the group that had been freed before the chunk was looked up.
    fn read_chunk(
        &self,
        chunk: &InodeChunk,
        from: AgInode,
        freed: u64,
        found: &mut ChunkInodes,
    ) -> Result<()> {
        let first = self.mount.geometry().join_inode(self.group, chunk.start);
        let mut wanted = chunk.allocated();
        if let Some(position) = chunk.position(from) {
            wanted &= u64::MAX << position;
        }
        let (in_memory, past) = match self.path {
            BulkPath::ThroughCache => (self.visit(first, wanted, freed, found), 0),
            BulkPath::PastCache => {
                let in_memory = wanted & self.mount.inode_cache.present(first);
                (in_memory, wanted & !in_memory)
            }
        };
        let _held = (in_memory != 0).then(|| self.mount.inode_cache.hold(first));
        for index in bits(in_memory) {
            let number = InodeNumber(first.0 + u64::from(index));
            match self.through(number) {
                Err(Error::Posix(PosixError::NotFound)) => {}
                metadata => found.inodes.push((number, metadata)),
            }
        }
        self.past(first, past, found)?;
        if in_memory != 0 && in_memory != wanted {
            found.inodes.sort_by_key(|(number, _)| *number);
        }
        Ok(())
    }

    /// Reads inodes of a chunk into the cache together, adds their metadata to `found`, and evicts
    /// them again. Returns those that were left out because they are cached already or latched. In
    /// `wanted` and in the result, bit n stands for inode `first` + n.
    fn visit(&self, first: InodeNumber, wanted: u64, freed: u64, found: &mut ChunkInodes) -> u64 {
        let start = word_of(first);
        let skipped = (first.0 - start.0) as u32;
        let mut visit = |first: InodeNumber, inodes: u64| {
            self.mount.inode_cache.bulk_visit(BulkRequest { first, inodes, freed }, |live| {
                let metadata = metadata_of_inode(&live.inode(), self.mount.geometry());
                found.inodes.push((live.number(), Ok(metadata)));
            })
        };
        let left = visit(start, wanted << skipped) >> skipped;
        match wanted.checked_shr(u64::BITS - skipped) {
            // The chunk spans two of the cache's chunks.
            Some(inodes) => {
                let start = InodeNumber(start.0 + u64::from(u64::BITS));
                left | visit(start, inodes) << (u64::BITS - skipped)
            }
            None => left,
        }
    }

    /// Reads these inodes and adds them to `found`. Their numbers come from directory entries and
    /// lie in one aligned range of 64 numbers. If the inodes cannot be read together, reads each
    /// through the inode cache.
    fn look_at(&self, numbers: &[InodeNumber], found: &mut ChunkInodes) {
        let before = found.inodes.len();
        if self.look_together(numbers, found).is_ok_and(|looked| looked) {
            return;
        }
        found.inodes.truncate(before);
        found.inodes.extend(numbers.iter().map(|number| (*number, self.through(*number))));
    }

    /// Reads the inodes as [`look_at`](Self::look_at) does, but each cluster only once. Returns
    /// `false` if a chunk of the group was freed meanwhile, so that the result must not be used
    /// (I2).
    fn look_together(&self, numbers: &[InodeNumber], found: &mut ChunkInodes) -> Result<bool> {
        let journal = &self.mount.journal;
        let Some(first) = numbers.first().map(|number| word_of(*number)) else { return Ok(true) };
        let freed = chunks_freed(journal, self.group);
        let mut wanted =
            numbers.iter().fold(0, |bits, number| bits | 1_u64 << (number.0 - first.0));
        // I2: a chunk of the group was freed meanwhile.
        if freed > 0 {
            wanted &= self.allocated(first)?;
        }
        let in_memory = wanted & self.mount.inode_cache.present(first);
        for index in bits(in_memory) {
            let number = InodeNumber(first.0 + u64::from(index));
            found.inodes.push((number, self.through(number)));
        }
        let rest = wanted & !in_memory;
        if rest != 0 {
            // From the first wanted one: there may be no inodes before it.
            let skipped = rest.trailing_zeros();
            self.past(InodeNumber(first.0 + u64::from(skipped)), rest >> skipped, found)?;
        }
        Ok(chunks_freed(journal, self.group) == freed)
    }

    /// Returns which of the 64 inodes from `first` on are in use according to the inode btree.
    /// `first` is a multiple of 64.
    fn allocated(&self, first: InodeNumber) -> Result<u64> {
        let Some((_, from)) = self.mount.geometry().split_inode_number(first) else {
            return Ok(0);
        };
        let mut chunks = Vec::with_capacity(CHUNKS_OF_64_NUMBERS);
        let journal = &self.mount.journal;
        latched_inode_chunks(journal, self.group, from, CHUNKS_OF_64_NUMBERS, &mut chunks)?;
        let of = |chunk: &InodeChunk| match chunk.start.0.checked_sub(from.0) {
            Some(later) => chunk.allocated().checked_shl(later),
            None => chunk.allocated().checked_shr(from.0 - chunk.start.0),
        };
        Ok(chunks.iter().filter_map(of).fold(0, |all, bits| all | bits))
    }

    /// Reads the metadata of an inode through the inode cache, as an operation does.
    fn through(&self, number: InodeNumber) -> Result<Metadata> {
        let inode = self.mount.inode_cache.take_as(number, Keep::Once)?;
        let inode = InodeRef::new(self.mount, inode);
        Ok(metadata(self.mount, &inode))
    }

    /// Reads inodes of a chunk from their clusters, and inserts none of them into the inode cache.
    /// Bit n of `wanted` stands for inode `first` + n.
    fn past(&self, mut first: InodeNumber, mut wanted: u64, found: &mut ChunkInodes) -> Result<()> {
        let geometry = self.mount.geometry();
        let ChunkInodes { inodes, scratch } = found;
        while wanted != 0 {
            let show = |number, core: Result<InodeCore>| match core {
                // The inode is being freed, or waits to be.
                Ok(core) if core.nlink == 0 => {}
                core => inodes.push((number, core.and_then(|core| of_core(&core, geometry)))),
            };
            let count = self.mount.journal.peek_cluster(first, wanted, scratch, show)?;
            wanted = wanted.checked_shr(count).unwrap_or(0);
            first = InodeNumber(first.0 + u64::from(count));
        }
        Ok(())
    }
}

/// Returns the metadata of a cached inode. Size, blocks and times include the bytes that are
/// buffered and not yet on the device.
fn metadata(mount: &Mount, entry: &CachedInode) -> Metadata {
    let buffered = entry.known_contents().and_then(Contents::shown);
    let live = entry.live();
    let _latch = live.log_item().latch().shared();
    let mut metadata = metadata_of_inode(&live.inode(), mount.geometry());
    if let Some(buffered) = buffered {
        buffered.add_to(&mut metadata, mount.geometry());
    }
    metadata
}

fn of_core(core: &InodeCore, geometry: &Geometry) -> Result<Metadata> {
    let check = || {
        let check = InodeCheck::Mode { mode: core.mode };
        Corruption::new(Structure::Inode, StructureAddress::Inode(core.number), check)
    };
    let file_type = core.file_type().ok_or_else(check)?;
    Ok(Metadata::of_core(core, file_type, geometry))
}

/// Returns the indexes of the bits that are set in `word`.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let index = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(index)
    })
}
