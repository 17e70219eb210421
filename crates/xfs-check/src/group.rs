//! One allocation group: its headers, its btrees, and its free list.
//!
//! Owns: reading the headers, btrees and free list, the checks of their counters, and the facts
//! that follow from them. Does **not** own: the inodes of the chunks, which the next pass reads, or
//! the place of a chunk (`chunk_place.rs`).

mod chunk_place;

use xfs_format::agf::{Agf, BtreeRoot};
use xfs_format::agfl::Agfl;
use xfs_format::agi::Agi;
use xfs_format::btree::BtreeFormat;
use xfs_format::free_space::{FreeSpace, FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunks};
use xfs_format::refcount::{Refcount, RefcountDomain, Refcounts};
use xfs_format::rmap::{ReverseMap, Rmap, RmapOwner};
use xfs_format::{AgBlock, AgInode, AgNumber, BlockKind, Corruption, Group};

use crate::blocks::{Evidence, Findings, Volume};
use crate::code::Code;
use crate::facts::{Claim, Facts, Gap, Owner};
use crate::finding::{Finding, Place};
use crate::region::Region;
use crate::tree::{TreeSpace, TreeVisitor, TreeWalk};

use chunk_place::{claim_chunk, is_aligned};

/// The facts of a group that the next passes need.
#[derive(Clone, Debug, Default)]
pub(crate) struct GroupSummary {
    /// The leaves of the inode btree. The next pass checks the inodes of each leaf as one unit of
    /// work.
    pub(crate) leaves: Vec<AgBlock>,
    /// Extents that are recorded as shared, in order: first block and the block after the last.
    pub(crate) shared: Vec<(u32, u32)>,
    /// Whether `shared` has all shared extents of the group.
    pub(crate) knows_shared: bool,
    /// The first inodes of the unlinked lists, each with the index of its list.
    pub(crate) unlinked: Vec<(usize, AgInode)>,
    /// Number of inodes of the group.
    pub(crate) inodes: u64,
    /// Number of free inodes of the group.
    pub(crate) free_inodes: u64,
    /// Number of blocks of the group that count as free in the superblock.
    pub(crate) free_blocks: u64,
    /// Whether `inodes`, `free_inodes` and `free_blocks` are known.
    pub(crate) is_counted: bool,
}

/// The largest number of shared extents of a group that are kept. Claims of inodes are compared
/// with the shared extents, to find shared metadata and shared blocks of files without the reflink
/// flag.
const MOST_SHARED: usize = 1 << 20;

/// Checks the headers and btrees of a group.
pub(crate) fn check<T: Facts>(
    volume: Volume<'_>,
    number: AgNumber,
    facts: &mut T,
    findings: &mut Findings,
) -> GroupSummary {
    let group = Group::new(volume.geometry(), number).expect("the group is one of the volume");
    let mut check = GroupCheck { volume, group, facts, findings, summary: GroupSummary::default() };
    check.fixed_claims();
    let has_space = check.space();
    let has_inodes = check.inodes();
    check.summary.is_counted = has_space && has_inodes;
    check.summary
}

/// The check of one group in progress.
struct GroupCheck<'a, T> {
    volume: Volume<'a>,
    group: Group<'a>,
    facts: &'a mut T,
    findings: &'a mut Findings,
    summary: GroupSummary,
}

impl<T: Facts> GroupCheck<'_, T> {
    fn number(&self) -> AgNumber {
        self.group.number()
    }

    /// Passes to the receiver of facts the owners of the blocks of the headers, and of the log if
    /// it is in this group.
    fn fixed_claims(&mut self) {
        let number = self.number();
        let headers = self.volume.geometry().header_blocks();
        let owner = Owner::Used(RmapOwner::Volume);
        self.facts.claim(&Claim::of(number, AgBlock(0), headers, owner));
        let superblock = self.volume.superblock;
        if let Some((group, start)) = superblock.log_first_block()
            && group == number
        {
            let owner = Owner::Used(RmapOwner::Log);
            self.facts.claim(&Claim::of(number, start, superblock.log_blocks, owner));
        }
    }

    /// Reads a header sector of the group. Returns the bytes and the address of the header; `None`
    /// if the header cannot be used.
    fn header(&mut self, index: u32, kind: BlockKind) -> Option<(Vec<u8>, xfs_format::DiskAddr)> {
        let geometry = self.volume.geometry();
        let at = geometry.header_disk_addr(self.number(), index);
        let mut sector = vec![0; geometry.sector_size as usize];
        match self.volume.read_block(at, kind, &mut sector, self.findings) {
            Evidence::None => None,
            Evidence::Sound | Evidence::Doubtful => Some((sector, at)),
        }
    }

    fn decoded<D>(&mut self, decoded: Result<D, Corruption>) -> Option<D> {
        decoded
            .map_err(|corruption| self.findings.corrupt(&corruption, self.volume.geometry()))
            .ok()
    }

    /// Walks a btree of the group, whose blocks belong to `owner`, and calls `record` for each of
    /// its records. Returns its number of blocks and its leaves, or `None` if a part of it could
    /// not be read.
    fn walk<F: BtreeFormat>(
        &mut self,
        root: BtreeRoot,
        owner: RmapOwner,
        record: impl FnMut(&mut T, &F::Record),
    ) -> Option<WalkedTree> {
        let owner = Owner::Used(owner);
        let number = self.number();
        let max_levels = F::KIND.max_levels(self.volume.geometry());
        if root.levels == 0 || root.levels > max_levels {
            return None;
        }
        let space = TreeSpace {
            volume: self.volume,
            group: self.group,
            owner: number.0.into(),
            budget: self.group.length_blocks().into(),
        };
        let mut visitor = BlockOwner {
            facts: &mut *self.facts,
            number,
            owner,
            tree: WalkedTree::default(),
            record,
        };
        let walk = TreeWalk::<F, _>::new(space, root.levels, &mut visitor, self.findings);
        let is_whole = walk.walk_block(root.block.0.into(), root.levels);
        let tree = visitor.tree;
        self.summary.leaves.extend(tree.leaves.iter().filter(|_| F::KIND == InodeChunks::KIND));
        is_whole.then_some(tree)
    }

    fn joinable(&mut self, tree: &'static str, block: AgBlock) {
        let place = Place::of_block(self.number(), block, self.volume.geometry());
        let found = format!("{tree}: the record at block {} continues the one before", block.0);
        self.findings.push(Finding::new(Code::BtJoinable, place, found));
    }

    /// Compares `stored`, a count in a header, with `counted`, the number that the walk over the
    /// btrees has counted. Adds a finding with this code if they differ. Does nothing if `counted`
    /// is not known.
    fn count(&mut self, code: Code, stored: u64, counted: Option<u64>) {
        if let Some(counted) = counted
            && stored != counted
        {
            let place = Place::of_group(self.number());
            let finding = Finding::new(code, place, stored.to_string());
            self.findings.push(finding.expected(counted.to_string()));
        }
    }

    /// Checks the AGF, the free list and the btrees of the AGF. Returns whether the counts of free
    /// blocks are known.
    fn space(&mut self) -> bool {
        let number = self.number();
        let geometry = self.volume.geometry();
        let agf = self
            .header(1, BlockKind::Agf)
            .and_then(|(sector, at)| self.decoded(Agf::decode(&sector, at, geometry)));
        let Some(agf) = agf else {
            for gap in [
                Gap::GroupClaims(Region::Data(number)),
                Gap::FreeSpace(number),
                Gap::ReverseMap(Region::Data(number)),
                Gap::Refcounts(Region::Data(number)),
            ] {
                self.facts.gap(gap);
            }
            return false;
        };
        let listed = self.free_list(&agf);
        let by_block = self.free_space(&agf);
        let reverse_map = agf.reverse_map.map(|root| self.reverse_map(&agf, root));
        if let Some(root) = agf.refcount {
            self.refcounts(&agf, root);
        }
        let (by_block, by_size) = by_block;
        let others = |blocks: u64| blocks.saturating_sub(1);
        let rmap_others = match reverse_map {
            None => Some(0),
            Some(blocks) => blocks.map(others),
        };
        let btree_blocks = match (by_block, by_size, rmap_others) {
            (Some(by_block), Some(by_size), Some(rmap)) => {
                Some(others(by_block) + others(by_size) + rmap)
            }
            _ => None,
        };
        self.count(Code::AgfBtreeBlocks, agf.btree_blocks.into(), btree_blocks);
        self.summary.free_blocks = u64::from(agf.free_blocks)
            + u64::from(agf.free_list.count)
            + u64::from(agf.btree_blocks);
        listed && btree_blocks.is_some()
    }

    /// Passes to the receiver of facts that the group owns the blocks of the free list. Returns
    /// whether the whole list could be read, so that all its blocks are known.
    fn free_list(&mut self, agf: &Agf) -> bool {
        let number = self.number();
        let owner = Owner::Used(RmapOwner::Group);
        let mut blocks = Vec::new();
        let mut is_whole = false;
        if let Some((sector, at)) = self.header(3, BlockKind::Agfl)
            && let Some(list) =
                self.decoded(Agfl::decode(&sector, at, self.group.geometry().version))
            && let Some(entries) = self.decoded(list.blocks(agf.free_list))
        {
            let entries: Vec<_> = entries.collect();
            is_whole = true;
            for entry in entries {
                match self.decoded(entry) {
                    Some(block) if self.group.contains_block(block) => blocks.push(block),
                    // The verifier has reported a block outside of the group.
                    _ => is_whole = false,
                }
            }
        }
        for block in blocks {
            self.facts.claim(&Claim::of(number, block, 1, owner));
        }
        if !is_whole {
            self.facts.gap(Gap::GroupClaims(Region::Data(number)));
        }
        is_whole
    }

    /// Walks both btrees of free space. Returns the number of blocks of each btree; `None` for one
    /// that could not be read completely.
    fn free_space(&mut self, agf: &Agf) -> (Option<u64>, Option<u64>) {
        let number = self.number();
        let (mut free, mut longest) = (0_u64, 0);
        let mut previous: Option<FreeSpace> = None;
        let mut joinable = Vec::new();
        let by_block = self.walk::<FreeSpaceByBlock>(
            agf.free_space_by_block,
            RmapOwner::Group,
            |facts, record| {
                facts.claim(&Claim::of(number, record.start, record.count, Owner::Free));
                free += u64::from(record.count);
                longest = longest.max(record.count);
                if previous.is_some_and(|previous| previous.end() == record.start) {
                    joinable.push(record.start);
                }
                previous = Some(*record);
            },
        );
        let by_size = self.walk::<FreeSpaceBySize>(
            agf.free_space_by_size,
            RmapOwner::Group,
            |facts, record| facts.free_by_size(number, record.start, record.count),
        );
        for block in joinable {
            self.joinable("free space by block", block);
        }
        if by_block.is_none() {
            self.facts.gap(Gap::GroupClaims(Region::Data(number)));
        }
        if by_block.is_none() || by_size.is_none() {
            self.facts.gap(Gap::FreeSpace(number));
        }
        let counted = by_block.as_ref().map(|_| free);
        self.count(Code::AgfFreeBlocks, agf.free_blocks.into(), counted);
        let counted = by_block.as_ref().map(|_| longest.into());
        self.count(Code::AgfLongest, agf.longest_free_blocks.into(), counted);
        (by_block.map(|tree| tree.blocks), by_size.map(|tree| tree.blocks))
    }

    fn reverse_map(&mut self, agf: &Agf, root: BtreeRoot) -> Option<u64> {
        let number = self.number();
        let mut previous: Option<Rmap> = None;
        let mut joinable = Vec::new();
        let tree = self.walk::<ReverseMap>(root, RmapOwner::Group, |facts, record| {
            let claim = mapping_of(Region::Data(number), record);
            facts.mapping(&claim);
            if previous.is_some_and(|previous| {
                continues(&mapping_of(Region::Data(number), &previous), &claim)
            }) {
                joinable.push(record.start);
            }
            previous = Some(*record);
        });
        for block in joinable {
            self.joinable("reverse map", block);
        }
        if tree.is_none() {
            self.facts.gap(Gap::ReverseMap(Region::Data(number)));
            self.facts.gap(Gap::GroupClaims(Region::Data(number)));
        }
        let blocks = tree.map(|tree| tree.blocks);
        self.count(Code::AgfRmapBlocks, agf.reverse_map_blocks.into(), blocks);
        blocks
    }

    fn refcounts(&mut self, agf: &Agf, root: BtreeRoot) {
        let number = self.number();
        let mut previous: Option<Refcount> = None;
        let (mut joinable, mut shared) = (Vec::new(), Vec::new());
        let tree = self.walk::<Refcounts>(root, RmapOwner::RefcountBtree, |facts, record| {
            facts.shared(Region::Data(number), record);
            if record.domain == RefcountDomain::Staging {
                let owner = Owner::Used(RmapOwner::Staging);
                facts.claim(&Claim::of(number, record.start, record.count, owner));
            } else if shared.len() < MOST_SHARED {
                shared.push((record.start.0, record.end().0));
            }
            let is_continued = previous.is_some_and(|previous| {
                previous.domain == record.domain
                    && previous.end() == record.start
                    && previous.references == record.references
                    && u64::from(previous.count) + u64::from(record.count) <= u64::from(u32::MAX)
            });
            if is_continued {
                joinable.push(record.start);
            }
            previous = Some(*record);
        });
        for block in joinable {
            self.joinable("reference counts", block);
        }
        self.summary.knows_shared = tree.is_some() && shared.len() < MOST_SHARED;
        self.summary.shared = shared;
        if tree.is_none() {
            self.facts.gap(Gap::Refcounts(Region::Data(number)));
            self.facts.gap(Gap::GroupClaims(Region::Data(number)));
        }
        let blocks = tree.map(|tree| tree.blocks);
        self.count(Code::AgfRefcountBlocks, agf.refcount_blocks.into(), blocks);
    }

    /// Checks the AGI and the inode btrees. Returns whether the counts of inodes are known.
    fn inodes(&mut self) -> bool {
        let number = self.number();
        let geometry = self.volume.geometry();
        let agi = self
            .header(2, BlockKind::Agi)
            .and_then(|(sector, at)| self.decoded(Agi::decode(&sector, at, geometry)));
        let Some(agi) = agi else {
            for gap in [
                Gap::GroupClaims(Region::Data(number)),
                Gap::Inodes(number),
                Gap::FreeInodes(number),
                Gap::Unlinked(number),
            ] {
                self.facts.gap(gap);
            }
            return false;
        };
        self.summary.unlinked = agi.unlinked_heads().collect();
        let is_whole = self.inode_btree(&agi);
        self.free_inode_btree(&agi);
        is_whole
    }

    fn inode_btree(&mut self, agi: &Agi) -> bool {
        let number = self.number();
        let group = self.group;
        let mut counts =
            ChunkCounts { has_newest: agi.newest_inode.is_none(), ..Default::default() };
        let has_free_tree = agi.free_inode_btree.is_some();
        let mut misaligned = Vec::new();
        let tree =
            self.walk::<InodeChunks>(agi.inode_btree, RmapOwner::InodeBtree, |facts, chunk| {
                counts.inodes += u64::from(chunk.count);
                counts.free += u64::from(chunk.free_count);
                counts.has_newest |= agi.newest_inode == Some(chunk.start);
                claim_chunk(facts, &group, chunk);
                if chunk.free_count > 0 && has_free_tree {
                    facts.chunk_with_free(number, chunk);
                }
                if !is_aligned(&group, chunk.start) {
                    misaligned.push(chunk.start);
                }
            });
        for start in misaligned {
            let place = Place::of_inode(group.join_inode(start), self.volume.geometry());
            let found = format!("a chunk at inode {} of the group", start.0);
            self.findings.push(Finding::new(Code::InoAlign, place, found));
        }
        if tree.is_none() {
            self.facts.gap(Gap::Inodes(number));
            self.facts.gap(Gap::FreeInodes(number));
            self.facts.gap(Gap::GroupClaims(Region::Data(number)));
        }
        let known = |count: u64| tree.as_ref().map(|_| count);
        let (inodes, free) = (known(counts.inodes), known(counts.free));
        let blocks = tree.as_ref().map(|tree| tree.blocks);
        self.count(Code::AgiCount, agi.count.into(), inodes);
        self.count(Code::AgiFreeCount, agi.free_count.into(), free);
        if let Some(stored) = agi.inode_btree_blocks {
            self.count(Code::AgiInodeBlocks, stored.into(), blocks);
        }
        if let (Some(newest), Some(_), false) = (agi.newest_inode, blocks, counts.has_newest) {
            // The kernel frees a chunk without a change of this hint.
            let is_possible = group.contains_inode(newest) && is_aligned(&group, newest);
            let code = if is_possible { Code::AgiNewestGone } else { Code::AgiNewest };
            let found = format!("the newest chunk starts at inode {} of the group", newest.0);
            let finding = Finding::new(code, Place::of_group(number), found);
            self.findings.push(finding.expected("a chunk of the inode btree, or none"));
        }
        (self.summary.inodes, self.summary.free_inodes) = (counts.inodes, counts.free);
        blocks.is_some()
    }

    fn free_inode_btree(&mut self, agi: &Agi) {
        let number = self.number();
        let Some(root) = agi.free_inode_btree else { return };
        let tree = self.walk::<FreeInodeChunks>(root, RmapOwner::InodeBtree, |facts, chunk| {
            facts.free_chunk(number, chunk);
        });
        if tree.is_none() {
            self.facts.gap(Gap::FreeInodes(number));
            self.facts.gap(Gap::GroupClaims(Region::Data(number)));
        }
        if let Some(stored) = agi.free_inode_btree_blocks {
            self.count(Code::AgiFreeInodeBlocks, stored.into(), tree.map(|tree| tree.blocks));
        }
    }
}

/// The totals over the records of the inode btree.
#[derive(Default)]
struct ChunkCounts {
    inodes: u64,
    free: u64,
    has_newest: bool,
}

/// The result of the walk of a whole btree: its number of blocks, and its leaves.
#[derive(Default)]
struct WalkedTree {
    blocks: u64,
    leaves: Vec<AgBlock>,
}

/// A visitor of a btree. Passes the owner of each block of the btree to the receiver of facts, and
/// each record to `record`.
struct BlockOwner<'f, T, R> {
    facts: &'f mut T,
    number: AgNumber,
    owner: Owner,
    tree: WalkedTree,
    record: R,
}

impl<F: BtreeFormat, T: Facts, R: FnMut(&mut T, &F::Record)> TreeVisitor<F>
    for BlockOwner<'_, T, R>
{
    fn block(&mut self, pointer: u64, level: u32) {
        let block = AgBlock(u32::try_from(pointer).expect("a short pointer has 32 bits"));
        self.tree.blocks += 1;
        if level == 0 {
            self.tree.leaves.push(block);
        }
        self.facts.claim(&Claim::of(self.number, block, 1, self.owner));
    }

    fn record(&mut self, record: &F::Record) {
        (self.record)(self.facts, record);
    }
}

/// Returns a record of the reverse map in the form of a claim, so that it can be compared with
/// claims.
pub(crate) fn mapping_of(region: Region, record: &Rmap) -> Claim {
    Claim {
        region,
        start: record.start,
        count: record.count,
        owner: Owner::Used(record.owner),
        offset: record.offset.0,
        flags: record.flags,
    }
}

/// Returns whether the second claim continues the first without a gap, on disk and in the fork,
/// with the same owner and use.
pub(crate) fn continues(first: &Claim, second: &Claim) -> bool {
    first.end() == second.start.0
        && first.owner == second.owner
        && first.flags == second.flags
        && first.diagonal() == second.diagonal()
}
