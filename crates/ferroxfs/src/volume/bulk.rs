//! All inodes of a volume that is written to, group by group, in the order of their numbers.
//!
//! Owns: the order, and that what is shown is what an operation would find: the inode btree says which
//! inodes there are, memory what they are if it has them, and else their cluster. So the metadata of all that
//! a directory names comes from here too. Does **not** own a walk over what is in memory
//! (`xfs-icache`).
//!
//! # Invariants
//!
//! - **I1** An inode that is in use all the time is shown once; one that is made or freed meanwhile once
//!   or not at all.
//! - **I2** What was read of a chunk is shown only if no chunk of its group was given back meanwhile: its
//!   blocks might have been something else. Else it is read again.

use std::ops::ControlFlow;

use xfs_alloc::{chunks_freed, latched_inode_chunks};
use xfs_buffer::{Error, PosixError};
use xfs_format::inode::{InodeCheck, InodeCore};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::{AgInode, AgNumber, Corruption, Geometry, InodeNumber, Place, Structure};
use xfs_icache::{BulkRequest, Keep};

use super::Volume;
use crate::credentials::Capabilities;
use crate::file::Contents;
use crate::kind::CachedInode;
use crate::writing::Parts;
use crate::{Metadata, Result};

/// Chunks that are looked up at once.
const BATCH_CHUNKS: usize = 32;
/// 64 numbers from a multiple of 64 on can lie in so many chunks.
const CHUNKS_OF_64_NUMBERS: usize = 2;

/// How bulkstat looks at inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkPath {
    /// Those that are in memory there, and all others in their clusters: nothing comes into memory.
    #[default]
    PastCache,
    /// Each as an operation would: it comes into memory, and goes again if it was not there before.
    ThroughCache,
}

/// Which inodes of a chunk are in use.
#[doc(alias = "xfs_inumbers")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InodeChunkUse {
    /// The first of 64 numbers.
    pub start: InodeNumber,
    /// A bit for each that is on disk.
    pub present: u64,
    /// A bit for each that is in use.
    pub allocated: u64,
}

/// Metadata of inodes to which names led a moment ago, one for each number; `None` for what is gone or
/// damaged, which a lookup tells apart. Neighbours are looked at together, and nothing comes into memory:
/// clusters are read into `scratch`.
pub(crate) fn metadata_of(
    parts: &Parts,
    numbers: &[InodeNumber],
    scratch: &mut Vec<u8>,
) -> Vec<Option<Metadata>> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let inodes = Vec::with_capacity(sorted.len());
    let mut found = Found { inodes, scratch: std::mem::take(scratch) };
    let same_chunk = |a: &InodeNumber, b: &InodeNumber| word_of(*a) == word_of(*b);
    for chunk in sorted.chunk_by(same_chunk) {
        let Some((group, _)) = chunk.first().and_then(|one| parts.geometry().split_inode(*one))
        else {
            continue;
        };
        Walk { parts, group, path: BulkPath::PastCache }.look_at(chunk, &mut found);
    }
    let Found { mut inodes, scratch: used } = found;
    *scratch = used;
    inodes.sort_unstable_by_key(|(number, _)| *number);
    let of = |number: &InodeNumber| {
        let place = inodes.binary_search_by_key(number, |(found, _)| *found).ok()?;
        inodes.get(place)?.1.as_ref().ok().cloned()
    };
    numbers.iter().map(of).collect()
}

/// The first of the 64 numbers around this one of which the table keeps tags together.
pub(crate) fn word_of(number: InodeNumber) -> InodeNumber {
    InodeNumber(number.0 - number.0 % u64::from(u64::BITS))
}

/// What is done with what was found: inodes of which one is damaged come as an error.
type Show<'a> = dyn FnMut(InodeNumber, Result<Metadata>) -> ControlFlow<()> + 'a;

impl Volume {
    /// Shows all inodes in use from this number on, in order. `f` may stop it. Inodes that are damaged are
    /// shown as errors.
    ///
    /// What is in memory is shown as it is there, so that everything that was done before is seen.
    ///
    /// # Errors
    ///
    /// EPERM without [`Capabilities::SYS_ADMIN`]; EROFS on a volume that is open for reading; damage of the inode
    /// btrees; the device's error.
    #[doc(alias = "XFS_IOC_BULKSTAT")]
    pub fn bulkstat(
        &self,
        from: InodeNumber,
        path: BulkPath,
        mut f: impl FnMut(InodeNumber, Result<Metadata>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let geometry = self.geometry();
        for (group, from) in groups_from(geometry, from) {
            if self.bulkstat_group(group, from, path, &mut f)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// As [`bulkstat`](Self::bulkstat), within one group, from an inode of it on: for those who do several
    /// groups at once.
    ///
    /// # Errors
    ///
    /// As [`bulkstat`](Self::bulkstat).
    #[doc(alias = "XFS_BULK_IREQ_AGNO")]
    pub fn bulkstat_group(
        &self,
        group: AgNumber,
        from: AgInode,
        path: BulkPath,
        mut f: impl FnMut(InodeNumber, Result<Metadata>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.require(Capabilities::SYS_ADMIN)?;
        let walk = Walk { parts: self.share().parts()?, group, path };
        walk.run(from, &mut f)
    }

    /// Shows which inodes there are from this number on, chunk by chunk.
    ///
    /// # Errors
    ///
    /// As [`bulkstat`](Self::bulkstat).
    #[doc(alias = "XFS_IOC_INUMBERS")]
    pub fn inumbers(
        &self,
        from: InodeNumber,
        mut f: impl FnMut(InodeChunkUse) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        self.require(Capabilities::SYS_ADMIN)?;
        let journal = &self.share().parts()?.journal;
        let mut chunks = Vec::with_capacity(BATCH_CHUNKS);
        for (group, mut from) in groups_from(self.geometry(), from) {
            loop {
                chunks.clear();
                latched_inode_chunks(journal, group, from, BATCH_CHUNKS, &mut chunks)?;
                for chunk in &chunks {
                    let start = self.geometry().join_inode(group, chunk.start);
                    let (present, allocated) = (chunk.present(), chunk.allocated());
                    if f(InodeChunkUse { start, present, allocated }).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                match chunks.last().and_then(behind) {
                    Some(next) => from = next,
                    None => break,
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The groups from that of an inode on, and where to begin in each.
fn groups_from(
    geometry: &Geometry,
    from: InodeNumber,
) -> impl Iterator<Item = (AgNumber, AgInode)> {
    let bits = geometry.ag_inode_log();
    let first = from.0.checked_shr(bits).unwrap_or(0);
    let inside = AgInode(from.0.wrapping_sub(first.checked_shl(bits).unwrap_or(0)) as u32);
    let groups = geometry.groups().filter(move |group| u64::from(group.0) >= first);
    groups.map(move |group| (group, if u64::from(group.0) == first { inside } else { AgInode(0) }))
}

/// The first number behind a chunk.
fn behind(chunk: &InodeChunk) -> Option<AgInode> {
    chunk.start.0.checked_add(u64::BITS).map(AgInode)
}

/// What was found of one chunk.
#[derive(Default)]
struct Found {
    inodes: Vec<(InodeNumber, Result<Metadata>)>,
    /// Room for the bytes of a cluster.
    scratch: Vec<u8>,
}

/// A bulkstat of one group.
struct Walk<'a> {
    parts: &'a Parts,
    group: AgNumber,
    path: BulkPath,
}

impl Walk<'_> {
    fn run(&self, mut from: AgInode, f: &mut Show<'_>) -> Result<ControlFlow<()>> {
        let journal = &self.parts.journal;
        let any = journal.geometry().join_inode(self.group, AgInode(0));
        let mut chunks = Vec::with_capacity(BATCH_CHUNKS);
        let mut found = Found::default();
        loop {
            let freed = chunks_freed(journal, any);
            chunks.clear();
            latched_inode_chunks(journal, self.group, from, BATCH_CHUNKS, &mut chunks)?;
            if chunks.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            for chunk in &chunks {
                found.inodes.clear();
                let looked = self.look(chunk, from, freed, &mut found);
                if chunks_freed(journal, any) != freed {
                    // I2: from here on once more.
                    break;
                }
                looked?;
                for (number, metadata) in found.inodes.drain(..) {
                    if f(number, metadata).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                match behind(chunk) {
                    Some(next) => from = next,
                    None => return Ok(ControlFlow::Continue(())),
                }
            }
        }
    }

    /// Looks at the inodes of a chunk from `from` on, of whose group so many chunks had been given back before
    /// it was found.
    fn look(&self, chunk: &InodeChunk, from: AgInode, freed: u64, found: &mut Found) -> Result<()> {
        let first = self.parts.geometry().join_inode(self.group, chunk.start);
        let mut wanted = chunk.allocated();
        if let Some(position) = chunk.position(from) {
            wanted &= u64::MAX << position;
        }
        let (in_memory, past) = match self.path {
            BulkPath::ThroughCache => (self.pass(first, wanted, freed, found), 0),
            BulkPath::PastCache => {
                let in_memory = wanted & self.parts.inode_cache.present(first);
                (in_memory, wanted & !in_memory)
            }
        };
        let _held = (in_memory != 0).then(|| self.parts.inode_cache.hold(first));
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

    /// Has the inodes of a chunk come into memory together and go again. Returns those that others have there, or at
    /// work.
    fn pass(&self, first: InodeNumber, wanted: u64, freed: u64, found: &mut Found) -> u64 {
        let start = word_of(first);
        let skipped = (first.0 - start.0) as u32;
        let mut pass = |first: InodeNumber, inodes: u64| {
            self.parts.inode_cache.bulk_visit(BulkRequest { first, inodes, freed }, |live| {
                let metadata = Metadata::new(&live.inode(), self.parts.geometry());
                found.inodes.push((live.number(), Ok(metadata)));
            })
        };
        let left = pass(start, wanted << skipped) >> skipped;
        match wanted.checked_shr(u64::BITS - skipped) {
            // A chunk that begins between two of the table's.
            Some(inodes) => {
                let start = InodeNumber(start.0 + u64::from(u64::BITS));
                left | pass(start, inodes) << (u64::BITS - skipped)
            }
            None => left,
        }
    }

    /// Looks at these inodes, which lie among 64 numbers and have had names.
    fn look_at(&self, numbers: &[InodeNumber], found: &mut Found) {
        let before = found.inodes.len();
        if self.look_together(numbers, found).is_ok_and(|looked| looked) {
            return;
        }
        found.inodes.truncate(before);
        found.inodes.extend(numbers.iter().map(|number| (*number, self.through(*number))));
    }

    /// The same with each cluster read once. `false` if a chunk was given back meanwhile (I2).
    fn look_together(&self, numbers: &[InodeNumber], found: &mut Found) -> Result<bool> {
        let journal = &self.parts.journal;
        let Some(first) = numbers.first().map(|number| word_of(*number)) else { return Ok(true) };
        let freed = chunks_freed(journal, first);
        let mut wanted =
            numbers.iter().fold(0, |bits, number| bits | 1_u64 << (number.0 - first.0));
        if freed > 0 {
            wanted &= self.allocated(first)?;
        }
        let in_memory = wanted & self.parts.inode_cache.present(first);
        for index in bits(in_memory) {
            let number = InodeNumber(first.0 + u64::from(index));
            found.inodes.push((number, self.through(number)));
        }
        let rest = wanted & !in_memory;
        if rest != 0 {
            // From the first that is wanted: what lies before it may be no inode.
            let skipped = rest.trailing_zeros();
            self.past(InodeNumber(first.0 + u64::from(skipped)), rest >> skipped, found)?;
        }
        Ok(chunks_freed(journal, first) == freed)
    }

    /// Which of 64 numbers, from a multiple of 64 on, the inode btree says to be in use.
    fn allocated(&self, first: InodeNumber) -> Result<u64> {
        let Some((_, from)) = self.parts.geometry().split_inode(first) else { return Ok(0) };
        let mut chunks = Vec::with_capacity(CHUNKS_OF_64_NUMBERS);
        let journal = &self.parts.journal;
        latched_inode_chunks(journal, self.group, from, CHUNKS_OF_64_NUMBERS, &mut chunks)?;
        let of = |chunk: &InodeChunk| match chunk.start.0.checked_sub(from.0) {
            Some(later) => chunk.allocated().checked_shl(later),
            None => chunk.allocated().checked_shr(from.0 - chunk.start.0),
        };
        Ok(chunks.iter().filter_map(of).fold(0, |all, bits| all | bits))
    }

    /// What an operation finds.
    fn through(&self, number: InodeNumber) -> Result<Metadata> {
        let entry = self.parts.inode_cache.take_as(number, Keep::Once)?;
        let metadata = metadata(self.parts, &entry);
        self.parts.release(entry);
        Ok(metadata)
    }

    /// What lies in the clusters of a chunk.
    fn past(&self, mut first: InodeNumber, mut wanted: u64, found: &mut Found) -> Result<()> {
        let geometry = self.parts.geometry();
        let Found { inodes, scratch } = found;
        while wanted != 0 {
            let show = |number, core: Result<InodeCore>| match core {
                // It is being freed, or waits for that.
                Ok(core) if core.nlink == 0 => {}
                core => inodes.push((number, core.and_then(|core| of_core(&core, geometry)))),
            };
            let count = self.parts.journal.peek_cluster(first, wanted, scratch, show)?;
            wanted = wanted.checked_shr(count).unwrap_or(0);
            first = InodeNumber(first.0 + u64::from(count));
        }
        Ok(())
    }
}

/// Metadata of an inode in memory, with what has been written to the file and is not on the device.
fn metadata(parts: &Parts, entry: &CachedInode) -> Metadata {
    let buffered = entry.known_contents().and_then(Contents::shown);
    let live = entry.live();
    let _latch = live.record().latch().shared();
    let mut metadata = Metadata::new(&live.inode(), parts.geometry());
    if let Some(buffered) = buffered {
        buffered.add_to(&mut metadata, parts.geometry());
    }
    metadata
}

fn of_core(core: &InodeCore, geometry: &Geometry) -> Result<Metadata> {
    let check = || {
        let check = InodeCheck::Mode { mode: core.mode };
        Corruption::new(Structure::Inode, Place::Inode(core.number), check)
    };
    let file_type = core.file_type().ok_or_else(check)?;
    Ok(Metadata::of_core(core, file_type, geometry))
}

/// The places of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let index = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(index)
    })
}

#[cfg(test)]
mod tests;
