//! The second pass: collects the members of the balances (comparisons of two structures by sums)
//! that do not hold, and reports by which members the two sides differ. A member is one fact, such
//! as a claim, a link or a name.
//!
//! Owns: collecting the facts of the balances that do not hold, sorting both sides, and the
//! findings that follow. A side that has a gap cannot be judged: a member that seems to be missing
//! may be in the gap. Such a difference is a consequence of the damage that opened the gap.

mod differences;
mod usage;

use std::collections::{BTreeMap, HashSet};

use xfs_format::directory::EntryType;
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::refcount::{Refcount, RefcountDomain};
use xfs_format::{AgBlock, AgNumber, InodeNumber};

use crate::blocks::Volume;
use crate::cause::Judge;
use crate::facts::{
    Claim, DirectoryLinks, Facts, Gap, Name, Owner, ParentPointer, QuotaOwner, Usage, UsedInode,
};
use crate::region::Region;
use crate::sums::{bucket_of, bucket_of_owner, link_type};

use differences::Explain;
use usage::UsageTotal;

/// The balances (comparisons of two structures by sums) that do not hold: for each kind, the groups
/// or the buckets of inodes whose sum is not 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct Differing {
    pub(crate) coverage: HashSet<Region>,
    pub(crate) reverse_map: HashSet<Region>,
    pub(crate) free_space: HashSet<AgNumber>,
    pub(crate) free_inodes: HashSet<AgNumber>,
    pub(crate) links: HashSet<usize>,
    pub(crate) directories: HashSet<usize>,
    pub(crate) parents: HashSet<usize>,
    /// The buckets of owners (users, groups and projects) whose usage does not agree with the
    /// dquots.
    pub(crate) usage: HashSet<usize>,
}

/// A claim of blocks, and the number of owners that it adds to each of them. The number is negative
/// for a record that says how many owners the blocks should have.
#[derive(Clone, Copy, Debug)]
struct Weighted {
    claim: Claim,
    weight: i64,
    /// Whether the claim is a record that says how many owners the blocks should have. Otherwise it
    /// is the claim of an owner.
    is_count: bool,
}

/// A name or a parent pointer, in a form in which both can be compared: the named inode, the
/// directory, the generation of the directory, and the name.
type Parenthood = (InodeNumber, InodeNumber, u32, Vec<u8>);

/// The most bytes that one fact about a group takes in the lists of the second pass. A claim takes
/// the most, because it is in two lists.
pub(crate) const GROUP_FACT_BYTES: u64 = (size_of::<Weighted>() + size_of::<Claim>()) as u64;
/// Number of bytes that a link takes in the lists of the second pass.
pub(crate) const LINK_BYTES: u64 = size_of::<(InodeNumber, u64, InodeNumber)>() as u64;
/// Number of bytes that a pair of a directory and its parent takes in the lists of the second pass.
pub(crate) const PAIR_BYTES: u64 = size_of::<(InodeNumber, InodeNumber)>() as u64;
/// Number of bytes that an inode in use takes in the lists of the second pass.
pub(crate) const USED_BYTES: u64 = size_of::<UsedInode>() as u64;
/// The most bytes that the usage of an owner takes in the maps of the second pass, with the unused
/// part of a node of the map.
pub(crate) const USAGE_BYTES: u64 = 2 * size_of::<(QuotaOwner, UsageTotal)>() as u64;
/// The most bytes by which the host's allocator rounds up the memory of a name.
const ROUNDED_BYTES: u64 = 32;

/// Returns how many bytes a name or a parent pointer takes in the lists of the second pass.
pub(crate) const fn parenthood_bytes(name: &[u8]) -> u64 {
    size_of::<Parenthood>() as u64 + name.len() as u64 + ROUNDED_BYTES
}

/// The collected members of the balances that do not hold, a list for each kind of fact.
pub(crate) struct Lists<'a> {
    differing: &'a Differing,
    coverage: Vec<Weighted>,
    owned: Vec<Claim>,
    mapped: Vec<Claim>,
    by_block: Vec<(AgNumber, AgBlock, u32)>,
    by_size: Vec<(AgNumber, AgBlock, u32)>,
    chunks: Vec<(AgNumber, InodeChunk)>,
    free_chunks: Vec<(AgNumber, InodeChunk)>,
    /// Links: child, type byte, and the directory that has the name.
    links: Vec<(InodeNumber, u64, InodeNumber)>,
    inodes: Vec<UsedInode>,
    named: Vec<(InodeNumber, InodeNumber)>,
    own_parents: Vec<(InodeNumber, InodeNumber)>,
    names: Vec<Parenthood>,
    pointers: Vec<Parenthood>,
    /// The usage of each owner as the sum over its inodes, and as the owner's dquot states it.
    used: BTreeMap<QuotaOwner, UsageTotal>,
    stated: BTreeMap<QuotaOwner, UsageTotal>,
}

impl<'a> Lists<'a> {
    pub(crate) fn new(differing: &'a Differing) -> Self {
        Self {
            differing,
            coverage: Vec::new(),
            owned: Vec::new(),
            mapped: Vec::new(),
            by_block: Vec::new(),
            by_size: Vec::new(),
            chunks: Vec::new(),
            free_chunks: Vec::new(),
            links: Vec::new(),
            inodes: Vec::new(),
            named: Vec::new(),
            own_parents: Vec::new(),
            names: Vec::new(),
            pointers: Vec::new(),
            used: BTreeMap::new(),
            stated: BTreeMap::new(),
        }
    }

    /// Adds the lists of members that another thread has collected.
    pub(crate) fn merge(&mut self, other: Self) {
        self.coverage.extend(other.coverage);
        self.owned.extend(other.owned);
        self.mapped.extend(other.mapped);
        self.by_block.extend(other.by_block);
        self.by_size.extend(other.by_size);
        self.chunks.extend(other.chunks);
        self.free_chunks.extend(other.free_chunks);
        self.links.extend(other.links);
        self.inodes.extend(other.inodes);
        self.named.extend(other.named);
        self.own_parents.extend(other.own_parents);
        self.names.extend(other.names);
        self.pointers.extend(other.pointers);
        usage::merge(&mut self.used, other.used);
        usage::merge(&mut self.stated, other.stated);
    }

    /// Collects a link to `child` of type `link_type` from a directory.
    fn link(&mut self, child: InodeNumber, link_type: u64, directory: InodeNumber) {
        if self.differing.links.contains(&bucket_of(child)) {
            self.links.push((child, link_type, directory));
        }
    }
}

impl Facts for Lists<'_> {
    fn claim(&mut self, claim: &Claim) {
        if self.differing.coverage.contains(&claim.region) {
            self.coverage.push(Weighted { claim: *claim, weight: 1, is_count: false });
        }
        if claim.owner != Owner::Free && self.differing.reverse_map.contains(&claim.region) {
            self.owned.push(*claim);
        }
        if let (Owner::Free, Region::Data(group)) = (claim.owner, claim.region)
            && self.differing.free_space.contains(&group)
        {
            self.by_block.push((group, claim.start, claim.count));
        }
    }

    fn mapping(&mut self, record: &Claim) {
        if self.differing.reverse_map.contains(&record.region) {
            self.mapped.push(*record);
        }
    }

    fn shared(&mut self, region: Region, record: &Refcount) {
        if record.domain == RefcountDomain::Shared && self.differing.coverage.contains(&region) {
            let claim = Claim::in_region(region, record.start, record.count, Owner::Free);
            let weight = 1 - i64::from(record.references);
            self.coverage.push(Weighted { claim, weight, is_count: true });
        }
    }

    fn free_by_size(&mut self, group: AgNumber, start: AgBlock, count: u32) {
        if self.differing.free_space.contains(&group) {
            self.by_size.push((group, start, count));
        }
    }

    fn chunk_with_free(&mut self, group: AgNumber, chunk: &InodeChunk) {
        if self.differing.free_inodes.contains(&group) {
            self.chunks.push((group, *chunk));
        }
    }

    fn free_chunk(&mut self, group: AgNumber, chunk: &InodeChunk) {
        if self.differing.free_inodes.contains(&group) {
            self.free_chunks.push((group, *chunk));
        }
    }

    fn name(&mut self, name: &Name<'_>) {
        self.link(name.child, link_type(name.entry_type, name.is_metadata), name.directory);
        let bucket = bucket_of(name.child);
        if name.entry_type == EntryType::Directory && self.differing.directories.contains(&bucket) {
            self.named.push((name.child, name.directory));
        }
        if self.differing.parents.contains(&bucket) {
            let name = (name.child, name.directory, name.generation, name.name.to_vec());
            self.names.push(name);
        }
    }

    fn directory(&mut self, links: &DirectoryLinks) {
        let DirectoryLinks { directory, parent, is_metadata } = *links;
        let of_directory = link_type(EntryType::Directory, is_metadata);
        self.link(directory, of_directory, directory);
        self.link(parent, of_directory, directory);
        if directory != parent && self.differing.directories.contains(&bucket_of(directory)) {
            self.own_parents.push((directory, parent));
        }
    }

    fn superblock_link(&mut self, inode: InodeNumber, entry_type: EntryType) {
        self.link(inode, link_type(entry_type, false), inode);
    }

    fn inode(&mut self, inode: &UsedInode) {
        if self.differing.links.contains(&bucket_of(inode.number)) {
            self.inodes.push(*inode);
        }
    }

    fn parent(&mut self, pointer: &ParentPointer<'_>) {
        if self.differing.parents.contains(&bucket_of(pointer.child)) {
            let name = pointer.name.to_vec();
            self.pointers.push((pointer.child, pointer.directory, pointer.generation, name));
        }
    }

    fn on_unlinked_list(&mut self, _inode: InodeNumber) {}

    fn usage(&mut self, owner: QuotaOwner, usage: &Usage) {
        if self.differing.usage.contains(&bucket_of_owner(owner)) {
            self.used.entry(owner).or_default().add(usage);
        }
    }

    fn dquot(&mut self, owner: QuotaOwner, usage: &Usage) {
        if self.differing.usage.contains(&bucket_of_owner(owner)) {
            self.stated.entry(owner).or_default().add(usage);
        }
    }

    fn gap(&mut self, _gap: Gap) {}
}

impl Lists<'_> {
    /// Compares both sides of each balance that does not hold, and reports the differences.
    pub(crate) fn explain(mut self, volume: Volume<'_>, judge: Judge<'_>) {
        let geometry = volume.geometry();
        let mut explain = Explain { geometry, judge };
        let regions: Vec<Region> = self.differing.coverage.iter().copied().collect();
        for region in regions {
            let blocks = region.length(geometry);
            let whole = Claim::in_region(region, AgBlock(0), blocks, Owner::Free);
            self.coverage.push(Weighted { claim: whole, weight: -1, is_count: true });
        }
        explain.coverage(self.coverage);
        explain.reverse_map(self.owned, self.mapped);
        explain.free_space(self.by_block, self.by_size);
        explain.free_inodes(self.chunks, self.free_chunks);
        explain.links(self.links, self.inodes);
        explain.directories(self.named, self.own_parents);
        explain.parents(self.names, self.pointers);
        usage::explain(&self.used, &self.stated, volume, &mut explain.judge);
    }
}
