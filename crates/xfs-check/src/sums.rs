//! The balances: sums of the hashes of facts. The facts of one side are added and those of the
//! other side are subtracted, so the sum is 0 if both sides agree.
//!
//! Owns: the sums of each bucket, adding, merging and comparing them. The proofs are in
//! docs/internals/check.md.

use std::collections::{BTreeMap, BTreeSet};

use xfs_format::directory::{EntryType, EntryTypes};
use xfs_format::inode_chunk::InodeChunk;
use xfs_format::refcount::{Refcount, RefcountDomain};
use xfs_format::{AgBlock, AgNumber, InodeNumber};

use crate::explain::{
    GROUP_FACT_BYTES, LINK_BYTES, PAIR_BYTES, USAGE_BYTES, USED_BYTES, parenthood_bytes,
};
use crate::facts::{
    Claim, DirectoryLinks, Facts, Gap, Name, Owner, ParentPointer, QuotaOwner, Usage, UsedInode,
};
use crate::hash::{Keyed, Tag};
use crate::region::Region;

/// The number of buckets among which inodes are divided. Each bucket has the sums of the facts
/// about its inodes.
pub(crate) const BUCKETS: usize = 1024;
/// Base-2 logarithm of the number of consecutive inode numbers that share a bucket.
const BUCKET_LOG: u32 = 14;

/// Returns the bucket of an inode.
pub(crate) const fn bucket_of(inode: InodeNumber) -> usize {
    (inode.0 >> BUCKET_LOG) as usize % BUCKETS
}

/// Base-2 logarithm of the number of consecutive IDs of owners that share a bucket.
const OWNER_LOG: u32 = 4;

/// Returns the bucket of an owner.
pub(crate) const fn bucket_of_owner(owner: QuotaOwner) -> usize {
    ((owner.id >> OWNER_LOG) as usize * 3 + owner.kind as usize) % BUCKETS
}

/// The sums of one region, one for each balance. A sum is 0 if its balance holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupSums {
    pub(crate) coverage: u128,
    pub(crate) reverse_map: u128,
    pub(crate) free_space: u128,
    pub(crate) free_inodes: u128,
    /// Number of facts about this region that were added to the sums or subtracted from them.
    pub(crate) facts: u32,
}

impl GroupSums {
    fn merge(&mut self, other: &Self) {
        self.coverage = self.coverage.wrapping_add(other.coverage);
        self.reverse_map = self.reverse_map.wrapping_add(other.reverse_map);
        self.free_space = self.free_space.wrapping_add(other.free_space);
        self.free_inodes = self.free_inodes.wrapping_add(other.free_inodes);
        self.facts = self.facts.saturating_add(other.facts);
    }

    /// Returns whether all balances of the region hold.
    pub(crate) const fn holds(&self) -> bool {
        self.coverage == 0 && self.reverse_map == 0 && self.free_space == 0 && self.free_inodes == 0
    }

    /// Returns the most bytes that the facts of this region can take in the lists of the second
    /// pass.
    pub(crate) fn list_bytes(&self) -> u64 {
        u64::from(self.facts) * GROUP_FACT_BYTES
    }
}

/// The sums of one bucket of inodes, one for each balance. A sum is 0 if its balance holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InodeSums {
    pub(crate) links: u128,
    pub(crate) directories: u128,
    pub(crate) parents: u128,
    /// Whether an inode of this bucket has the link count `PINNED_LINKS`, which XFS does not update
    /// any more.
    pub(crate) has_pinned: bool,
    /// The most bytes that the facts of this bucket can take in the lists of the second pass.
    pub(crate) list_bytes: u64,
}

impl InodeSums {
    /// Returns whether all balances of the bucket hold. They cannot hold if an inode has the link
    /// count `PINNED_LINKS`: its links are added to the sum, but its link count is not subtracted.
    pub(crate) const fn holds(&self) -> bool {
        self.links == 0 && self.directories == 0 && self.parents == 0 && !self.has_pinned
    }
}

/// The sum of one bucket of owners. It is 0 if the dquots state the usage that the inodes give.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageSums {
    pub(crate) usage: u128,
    /// The most bytes that the facts of this bucket can take in the lists of the second pass.
    pub(crate) list_bytes: u64,
}

/// The gaps: for each kind of fact, whether facts may be missing because a structure could not be
/// read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gaps {
    pub(crate) claims: bool,
    pub(crate) names: bool,
    pub(crate) parents: bool,
    pub(crate) usage: bool,
    pub(crate) groups: BTreeSet<Gap>,
}

impl Gaps {
    pub(crate) fn note(&mut self, gap: Gap) {
        match gap {
            Gap::Claims => self.claims = true,
            Gap::Names => self.names = true,
            Gap::Parents => self.parents = true,
            Gap::Usage => self.usage = true,
            // Inodes that are not known have claims, names and parent pointers.
            Gap::Inodes(_) => {
                (self.claims, self.names, self.parents) = (true, true, true);
                self.groups.insert(gap);
            }
            _ => {
                self.groups.insert(gap);
            }
        }
    }

    /// Returns whether facts may be missing because the structure of `gap` could not be read.
    pub(crate) fn has(&self, gap: Gap) -> bool {
        match gap {
            Gap::Claims => self.claims,
            Gap::Names => self.names,
            Gap::Parents => self.parents,
            // Inodes that are not known have owners.
            Gap::Usage => self.usage || self.groups.iter().any(|gap| matches!(gap, Gap::Inodes(_))),
            _ => self.groups.contains(&gap),
        }
    }
}

/// The sums of all balances: comparisons of two structures by sums of hashes.
#[derive(Clone)]
pub(crate) struct Sums {
    hash: Keyed,
    features: Features,
    pub(crate) groups: Vec<GroupSums>,
    /// The sums of each region of the realtime section that has a fact.
    pub(crate) realtime: BTreeMap<u32, GroupSums>,
    pub(crate) inodes: Vec<InodeSums>,
    /// The sums of the buckets of owners. Empty until the first fact about the usage of an owner.
    pub(crate) usage: Vec<UsageSums>,
    /// Pairs of inodes: each directory, and its parent.
    pub(crate) directories: Vec<(InodeNumber, InodeNumber)>,
    /// Inodes in use without a link. They are few, so they are kept in a list; no sum is made of
    /// them.
    pub(crate) without_links: Vec<InodeNumber>,
    /// The inodes on the unlinked lists.
    pub(crate) on_lists: Vec<InodeNumber>,
    /// The number of inodes in use.
    pub(crate) used_inodes: u64,
    pub(crate) gaps: Gaps,
}

impl Sums {
    /// Creates empty sums: nothing is claimed, and nothing is expected.
    pub(crate) fn new(hash: Keyed, groups: usize, features: Features) -> Self {
        Self {
            hash,
            features,
            realtime: BTreeMap::new(),
            groups: vec![GroupSums::default(); groups],
            inodes: vec![InodeSums::default(); BUCKETS],
            usage: Vec::new(),
            directories: Vec::new(),
            without_links: Vec::new(),
            on_lists: Vec::new(),
            used_inodes: 0,
            gaps: Gaps::default(),
        }
    }

    /// Subtracts one owner for each block of a region from the coverage balance. Each claim adds
    /// one owner for its blocks, so the balance holds if each block has one owner.
    pub(crate) fn expect_region(&mut self, region: Region, blocks: u32) {
        let whole = self.span(0, blocks);
        self.region(region, |sums| sums.coverage = sums.coverage.wrapping_sub(whole));
    }

    /// Adds the sums of another thread.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.groups.iter_mut().zip(&other.groups) {
            mine.merge(theirs);
        }
        for (region, theirs) in &other.realtime {
            self.realtime.entry(*region).or_default().merge(theirs);
        }
        for (mine, theirs) in self.inodes.iter_mut().zip(&other.inodes) {
            mine.links = mine.links.wrapping_add(theirs.links);
            mine.directories = mine.directories.wrapping_add(theirs.directories);
            mine.parents = mine.parents.wrapping_add(theirs.parents);
            mine.has_pinned |= theirs.has_pinned;
            mine.list_bytes = mine.list_bytes.saturating_add(theirs.list_bytes);
        }
        if self.usage.len() < other.usage.len() {
            self.usage.resize(other.usage.len(), UsageSums::default());
        }
        for (mine, theirs) in self.usage.iter_mut().zip(&other.usage) {
            mine.usage = mine.usage.wrapping_add(theirs.usage);
            mine.list_bytes = mine.list_bytes.saturating_add(theirs.list_bytes);
        }
        self.directories.extend_from_slice(&other.directories);
        self.without_links.extend_from_slice(&other.without_links);
        self.on_lists.extend_from_slice(&other.on_lists);
        self.used_inodes += other.used_inodes;
        self.gaps.claims |= other.gaps.claims;
        self.gaps.names |= other.gaps.names;
        self.gaps.parents |= other.gaps.parents;
        self.gaps.usage |= other.gaps.usage;
        self.gaps.groups.extend(&other.gaps.groups);
    }

    /// Changes the sums of a region by one fact. A group past the end of the device has no sums.
    fn region(&mut self, region: Region, change: impl FnOnce(&mut GroupSums)) {
        let sums = match region {
            Region::Data(group) => {
                let index = usize::try_from(group.0).expect("a group number fits an index");
                self.groups.get_mut(index)
            }
            Region::Realtime(region) => Some(self.realtime.entry(region).or_default()),
        };
        if let Some(sums) = sums {
            change(sums);
            sums.facts = sums.facts.saturating_add(1);
        }
    }

    fn group(&mut self, group: AgNumber, change: impl FnOnce(&mut GroupSums)) {
        self.region(Region::Data(group), change);
    }

    /// Returns the sums of the bucket to which an inode belongs, so that the caller can add or
    /// subtract one fact. Counts this fact, which takes `bytes` bytes in the lists of the second
    /// pass.
    fn bucket(&mut self, inode: InodeNumber, bytes: u64) -> &mut InodeSums {
        let sums = self.inodes.get_mut(bucket_of(inode)).expect("a bucket is below their number");
        sums.list_bytes = sums.list_bytes.saturating_add(bytes);
        sums
    }

    /// Returns the amount that the blocks from `start` to before `end` add to the coverage balance:
    /// H(end) − H(start), where H is the hash of a block number.
    fn span(&self, start: u32, end: u32) -> u128 {
        let at = |block: u32| self.hash.numbers(Tag::Coverage, [block.into()]);
        at(end).wrapping_sub(at(start))
    }

    /// Returns the amount that a claim adds to the reverse map balance: H(end) − H(start), where H
    /// is the hash of a block number and its owner.
    fn owned_span(&self, claim: &Claim) -> u128 {
        let (owner, flags, diagonal) = (claim.owner_number(), claim.flags.bits(), claim.diagonal());
        let at = |block: u32| self.hash.numbers(Tag::Owner, [owner, flags, diagonal, block.into()]);
        at(claim.end()).wrapping_sub(at(claim.start.0))
    }

    /// Returns the hash of a link. On a volume whose directory entries have no types, the hash does
    /// not depend on the type.
    fn link_hash(&self, child: InodeNumber, entry_type: EntryType, is_metadata: bool) -> u128 {
        let link_type = match self.features.entry_types {
            EntryTypes::Stored => link_type(entry_type, is_metadata),
            EntryTypes::Absent => 0,
        };
        self.hash.numbers(Tag::Link, [child.0, link_type])
    }

    fn link(&mut self, child: InodeNumber, entry_type: EntryType, is_metadata: bool) {
        let hash = self.link_hash(child, entry_type, is_metadata);
        let sums = self.bucket(child, LINK_BYTES);
        sums.links = sums.links.wrapping_add(hash);
    }

    /// Returns the amount that a usage adds to the balance of its owner. There are three hashes for
    /// an owner: for inodes, blocks and realtime blocks. Each is added as often as the usage
    /// counts.
    fn usage_weight(&self, owner: QuotaOwner, usage: &Usage) -> u128 {
        let counts = [usage.inodes, usage.blocks, usage.realtime_blocks];
        let weight = |(resource, count): (u64, u64)| match count {
            0 => 0,
            count => {
                let numbers = [owner.kind.bits().into(), owner.id.into(), resource];
                self.hash.numbers(Tag::Usage, numbers).wrapping_mul(count.into())
            }
        };
        (0..).zip(counts).map(weight).fold(0, u128::wrapping_add)
    }

    /// Returns the sums to which a fact about `owner` is added: those of the bucket to which the
    /// owner's hash leads. Counts the bytes of the fact, so the caller calls this once for each
    /// fact.
    fn owner(&mut self, owner: QuotaOwner) -> &mut UsageSums {
        if self.usage.is_empty() {
            self.usage.resize(BUCKETS, UsageSums::default());
        }
        let sums = self.usage.get_mut(bucket_of_owner(owner));
        let sums = sums.expect("a bucket is below their number");
        sums.list_bytes = sums.list_bytes.saturating_add(USAGE_BYTES);
        sums
    }

    fn chunk(&self, chunk: &InodeChunk) -> u128 {
        let counts = u64::from(chunk.count) << 8 | u64::from(chunk.free_count);
        let masks = [chunk.start.0.into(), chunk.holes.into(), counts, chunk.free];
        self.hash.numbers(Tag::FreeInodes, masks)
    }
}

/// The optional structures of a volume that decide which balances there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Features {
    pub(crate) reverse_map: bool,
    pub(crate) parents: bool,
    pub(crate) entry_types: EntryTypes,
    /// The balances of the realtime section.
    pub(crate) realtime: RealtimeFeatures,
}

/// The structures of a realtime section that decide which balances it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealtimeFeatures {
    /// Whether a bitmap records the free extents. A zoned section has none.
    pub(crate) bitmap: bool,
    /// Whether each realtime group has a reverse map.
    pub(crate) reverse_map: bool,
}

/// The bit of a link's type that marks links of the metadata directory.
pub(crate) const METADATA_LINK: u64 = 1 << 8;

/// Returns the type by which links are compared: the type byte, and whether the link belongs to the
/// metadata directory. A whiteout counts as a character device.
pub(crate) const fn link_type(entry_type: EntryType, is_metadata: bool) -> u64 {
    let byte = match entry_type {
        EntryType::Whiteout => EntryType::CharacterDevice.to_disk() as u64,
        other => other.to_disk() as u64,
    };
    if is_metadata { byte | METADATA_LINK } else { byte }
}

/// The link count of an inode whose number of links XFS does not update any more.
#[doc(alias = "XFS_NLINK_PINNED")]
pub(crate) const PINNED_LINKS: u32 = u32::MAX;

impl Facts for Sums {
    fn claim(&mut self, claim: &Claim) {
        let span = self.span(claim.start.0, claim.end());
        let realtime = self.features.realtime;
        let (covers, has_map) = match claim.region {
            Region::Data(_) => (true, self.features.reverse_map),
            Region::Realtime(_) => (realtime.bitmap, realtime.reverse_map),
        };
        let span = if covers { span } else { 0 };
        let is_mapped = has_map && claim.owner != Owner::Free;
        let owned = if is_mapped { self.owned_span(claim) } else { 0 };
        let free = match (claim.owner, claim.region) {
            // Only allocation groups record free space twice.
            (Owner::Free, Region::Data(_)) => {
                self.hash.numbers(Tag::FreeSpace, [claim.start.0.into(), claim.count.into()])
            }
            _ => 0,
        };
        self.region(claim.region, |sums| {
            sums.coverage = sums.coverage.wrapping_add(span);
            sums.reverse_map = sums.reverse_map.wrapping_add(owned);
            sums.free_space = sums.free_space.wrapping_add(free);
        });
    }

    fn mapping(&mut self, record: &Claim) {
        let is_realtime = matches!(record.region, Region::Realtime(_));
        if is_realtime && !self.features.realtime.reverse_map {
            return;
        }
        let owned = self.owned_span(record);
        self.region(record.region, |sums| sums.reverse_map = sums.reverse_map.wrapping_sub(owned));
    }

    fn shared(&mut self, region: Region, record: &Refcount) {
        let is_realtime = matches!(region, Region::Realtime(_));
        let has_no_balance = is_realtime && !self.features.realtime.bitmap;
        if record.domain == RefcountDomain::Staging || has_no_balance {
            return;
        }
        let span = self.span(record.start.0, record.end().0);
        let more = span.wrapping_mul(u128::from(record.references - 1));
        self.region(region, |sums| sums.coverage = sums.coverage.wrapping_sub(more));
    }

    fn free_by_size(&mut self, group: AgNumber, start: AgBlock, count: u32) {
        let free = self.hash.numbers(Tag::FreeSpace, [start.0.into(), count.into()]);
        self.group(group, |sums| sums.free_space = sums.free_space.wrapping_sub(free));
    }

    fn chunk_with_free(&mut self, group: AgNumber, chunk: &InodeChunk) {
        let hash = self.chunk(chunk);
        self.group(group, |sums| sums.free_inodes = sums.free_inodes.wrapping_add(hash));
    }

    fn free_chunk(&mut self, group: AgNumber, chunk: &InodeChunk) {
        let hash = self.chunk(chunk);
        self.group(group, |sums| sums.free_inodes = sums.free_inodes.wrapping_sub(hash));
    }

    fn name(&mut self, name: &Name<'_>) {
        self.link(name.child, name.entry_type, name.is_metadata);
        if name.entry_type == EntryType::Directory {
            let hash = self.hash.numbers(Tag::Directory, [name.child.0, name.directory.0]);
            let sums = self.bucket(name.child, PAIR_BYTES);
            sums.directories = sums.directories.wrapping_add(hash);
        }
        if self.features.parents {
            let numbers = [name.directory.0, name.generation.into(), name.child.0];
            let hash = self.hash.named(Tag::Parent, numbers, name.name);
            let sums = self.bucket(name.child, parenthood_bytes(name.name));
            sums.parents = sums.parents.wrapping_add(hash);
        }
    }

    fn directory(&mut self, links: &DirectoryLinks) {
        let DirectoryLinks { directory, parent, is_metadata } = *links;
        self.link(directory, EntryType::Directory, is_metadata);
        self.link(parent, EntryType::Directory, is_metadata);
        self.directories.push((directory, parent));
        // A root is its own parent, and no name leads to it. Without types, names do not tell which
        // of them lead to directories. The link counts of parents are compared nevertheless.
        if directory != parent && self.features.entry_types == EntryTypes::Stored {
            let hash = self.hash.numbers(Tag::Directory, [directory.0, parent.0]);
            let sums = self.bucket(directory, PAIR_BYTES);
            sums.directories = sums.directories.wrapping_sub(hash);
        }
    }

    fn superblock_link(&mut self, inode: InodeNumber, entry_type: EntryType) {
        self.link(inode, entry_type, false);
    }

    fn inode(&mut self, inode: &UsedInode) {
        self.used_inodes += 1;
        if inode.links == 0 {
            self.without_links.push(inode.number);
            return;
        }
        if inode.links == PINNED_LINKS {
            self.bucket(inode.number, USED_BYTES).has_pinned = true;
            return;
        }
        let hash = self.link_hash(inode.number, inode.entry_type, inode.is_metadata);
        let sums = self.bucket(inode.number, USED_BYTES);
        sums.links = sums.links.wrapping_sub(hash.wrapping_mul(inode.links.into()));
    }

    fn parent(&mut self, pointer: &ParentPointer<'_>) {
        let numbers = [pointer.directory.0, pointer.generation.into(), pointer.child.0];
        let hash = self.hash.named(Tag::Parent, numbers, pointer.name);
        let sums = self.bucket(pointer.child, parenthood_bytes(pointer.name));
        sums.parents = sums.parents.wrapping_sub(hash);
    }

    fn on_unlinked_list(&mut self, inode: InodeNumber) {
        self.on_lists.push(inode);
    }

    fn usage(&mut self, owner: QuotaOwner, usage: &Usage) {
        let weight = self.usage_weight(owner, usage);
        let sums = self.owner(owner);
        sums.usage = sums.usage.wrapping_add(weight);
    }

    fn dquot(&mut self, owner: QuotaOwner, usage: &Usage) {
        let weight = self.usage_weight(owner, usage);
        let sums = self.owner(owner);
        sums.usage = sums.usage.wrapping_sub(weight);
    }

    fn gap(&mut self, gap: Gap) {
        self.gaps.note(gap);
    }
}
