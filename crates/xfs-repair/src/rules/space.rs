//! Rule `space`: builds the btrees and headers of a group from the claims of all owners.
//!
//! Owns: free space, reverse map, reference counts, inode btrees, free list, AGF and AGI of each
//! group that is marked for a rebuild or has damage in one of these. Does **not** own: the claims
//! of owners on blocks, which earlier rules have made right.
//!
//! The btrees take their blocks from the space that no owner claims, and so change the free space
//! that they record. The number of blocks that the btrees need is therefore found by repetition: if
//! it was too low, the rule starts again with more blocks. Blocks that are left over go to the free
//! list.

mod records;
mod unlinked;

use std::collections::BTreeMap;

use xfs_check::{Code, Place};
use xfs_format::agf::{Agf, BtreeRoot, FreeListRange};
use xfs_format::agfl;
use xfs_format::agi::Agi;
use xfs_format::btree::BtreeFormat;
use xfs_format::free_space::{FreeSpaceByBlock, FreeSpaceBySize};
use xfs_format::inode_chunk::{FreeInodeChunks, InodeChunk, InodeChunks};
use xfs_format::refcount::Refcounts;
use xfs_format::rmap::{ReverseMap, Rmap, RmapOwner};
use xfs_format::{AgBlock, AgNumber, Geometry, Group, Lsn, RoCompatFeatures};

use crate::action::Action;
use crate::build::btree::{self, BuiltBlock, BuiltTree};
use crate::build::headers;
use crate::claims;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::patient::Patient;
use crate::reserve::{self, Reserve};
use crate::trees;
use records::{Needs, Records};

pub(super) use records::shared as shared_records;

/// The name of this rule in plans and messages.
const RULE: &str = "space";

/// The loss that the plan lists for a rebuilt group if an inode of the volume cannot be read, and
/// neither the group's reverse map nor its free-space btrees are whole.
const LOST_BLOCKS: &str = "the blocks in this group of the inodes and forks that cannot be read";

/// The most attempts to find the number of blocks that the btrees need. Each attempt takes more
/// blocks than the one before. Two or three attempts are usual.
const MOST_ATTEMPTS: u32 = 64;

/// Rebuilds the btrees and headers of the groups that another rule has marked, and of those with
/// damage in their btrees or headers.
///
/// # Errors
///
/// The error of the overlay, in which a repair collects its writes. A group with too few free
/// blocks for its btrees is left as it is.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    let groups: Vec<AgNumber> = patient.geometry().groups().collect();
    let mut relinked = BTreeMap::new();
    for group in &groups {
        if damage.has_space_damage(*group) {
            patient.mark_group(*group);
        }
        let is_lost = trees::agi(patient, *group).is_none_or(|header| !header.is_sound);
        if is_lost {
            patient.mark_inodes(*group);
        }
        let codes = damage.codes_of_unlinked(*group, patient.geometry());
        if is_lost || !codes.is_empty() {
            relinked.insert(*group, codes);
        }
    }
    relink(patient, relinked)?;
    let marks = patient.take_marks();
    if marks.is_empty() {
        return Ok(());
    }
    let model = patient.model()?;
    let all_claims = claims::of_volume(patient, &model);
    for (number, has_inodes) in marks {
        patient.poll()?;
        let own = all_claims.get(&number).cloned().expect("each group has claims");
        let reserve = reserve::of_group(patient, &model, number, &own);
        let is_blind = matches!(reserve, Reserve::Unknown);
        if is_blind && !patient.allows_loss() {
            // No block is known to be free, so no block was taken: the group stays as it is.
            continue;
        }
        let reserved = match reserve {
            Reserve::Blocks(blocks) => blocks,
            Reserve::Unknown => Vec::new(),
        };
        let agi = trees::agi(patient, number).map(|header| header.header);
        let kept = (!has_inodes).then(|| patient.tree_blocks(number));
        let group = Group::new(patient.geometry(), number).expect("a group of the volume");
        let chunks = model.chunks.get(&number).cloned().unwrap_or_default();
        let rebuild = Rebuild { group, chunks, agi, kept, reserved, lsn: patient.lsn() };
        let shared = shared_records(&model, &own);
        let blocks = match rebuild.build(own, shared) {
            // The group keeps its findings. If its claims have changed, the round is taken back.
            Err(RepairError::NoSpace { .. }) => continue,
            built => built?,
        };
        for block in &blocks {
            patient.write(block.at, &block.bytes)?;
        }
        let keeps = match has_inodes {
            true => "the claims of all owners; all btrees and headers are built from them",
            false => {
                "the claims of all owners; the btrees of space and the AGF are built from them"
            }
        };
        let codes = damage.codes_of_group(number);
        let mut action = Action::new(RULE, Place::of_group(number), codes, keeps);
        if patient.take_blind(number) || is_blind {
            action = action.losing(None, LOST_BLOCKS);
        }
        patient.act(action);
        patient.forget_chunks(number);
    }
    Ok(())
}

/// Builds the unlinked lists of groups. `groups` has the groups, each with the codes of the
/// findings about it.
fn relink(patient: &mut Patient, groups: BTreeMap<AgNumber, Vec<Code>>) -> Result<(), RepairError> {
    if groups.is_empty() {
        return Ok(());
    }
    // The model is read once: a list of one group has no inode of another.
    let model = patient.model()?;
    let inodes = unlinked::find(&model, patient.geometry(), &groups.keys().copied().collect());
    for (group, codes) in groups {
        unlinked::relink(patient, group, inodes.get(&group).map_or(&[], Vec::as_slice))?;
        let keeps = "the inodes without links; the lists are built from them";
        patient.act(Action::new("unlinked", Place::of_group(group), codes, keeps));
    }
    Ok(())
}

/// The inputs for rebuilding the btrees and headers of one group.
struct Rebuild<'a> {
    group: Group<'a>,
    chunks: Vec<InodeChunk>,
    /// The AGI on the damaged volume, if it can be read.
    agi: Option<Agi>,
    /// The blocks of the group's inode btrees if these btrees stay as they are. `None` if they are
    /// rebuilt.
    kept: Option<Vec<AgBlock>>,
    /// Blocks without a known owner that stay out of the free space: they may belong to files that
    /// cannot be read.
    reserved: Vec<Rmap>,
    lsn: Lsn,
}

impl Rebuild<'_> {
    fn geometry(&self) -> &Geometry {
        self.group.geometry()
    }

    fn has(&self, feature: RoCompatFeatures) -> bool {
        self.geometry().has_ro_compat(feature)
    }

    /// Builds all btrees and headers of the group. `own` holds the claims of all owners except the
    /// btrees that are built, and `shared` the reference counts of shared blocks.
    fn build(
        &self,
        mut own: Vec<Rmap>,
        shared: Vec<xfs_format::refcount::Refcount>,
    ) -> Result<Vec<BuiltBlock>, RepairError> {
        let kept = self.kept.iter().flatten();
        own.extend(kept.map(|block| claims::claim(*block, 1, RmapOwner::InodeBtree)));
        let gaps = self.gaps(&own);
        let mut count = 0;
        for _ in 0..MOST_ATTEMPTS {
            let free = gaps.iter().flat_map(|(start, end)| *start..*end);
            let taken: Vec<AgBlock> = free.take(count).map(AgBlock).collect();
            if taken.len() < count {
                break;
            }
            let records = Records::of(self, &own, &taken, &shared);
            let needs = Needs::of(self, &records);
            if needs.all() <= count {
                return Ok(self.blocks(&records, &needs, &taken));
            }
            count = needs.all();
        }
        Err(RepairError::NoSpace { count: count as u64 })
    }

    /// Returns the free extents of the group: the gaps between the claims in `own` and the reserved
    /// blocks.
    fn gaps(&self, own: &[Rmap]) -> Vec<(u32, u32)> {
        let all: Vec<Rmap> = own.iter().chain(&self.reserved).copied().collect();
        claims::gaps(&all, self.group.length_blocks())
    }

    fn tree<F: BtreeFormat>(&self, records: &[F::Record], blocks: &[AgBlock]) -> BuiltTree {
        btree::build::<F>(&self.group, self.lsn, records, blocks)
    }

    /// Builds the btrees in the blocks `taken`, and then the headers that have the addresses of
    /// their roots.
    fn blocks(&self, records: &Records, needs: &Needs, taken: &[AgBlock]) -> Vec<BuiltBlock> {
        let mut rest = taken;
        let mut next = |count: usize| {
            let (part, after) = rest.split_at_checked(count).expect("the needs were counted");
            rest = after;
            part
        };
        let mut blocks = Vec::new();
        if self.kept.is_none() {
            let all = self.tree::<InodeChunks>(&self.chunks, next(needs.inodes));
            let free = self
                .has(RoCompatFeatures::FINOBT)
                .then(|| self.tree::<FreeInodeChunks>(&records.with_free, next(needs.free_inodes)));
            blocks.push(headers::agi(&self.new_agi(&all, free.as_ref()), self.geometry()));
            blocks.extend(all.blocks);
            blocks.extend(free.into_iter().flat_map(|tree| tree.blocks));
        }
        let shared = self
            .has(RoCompatFeatures::REFLINK)
            .then(|| self.tree::<Refcounts>(&records.shared, next(needs.shared)));
        let by_block = self.tree::<FreeSpaceByBlock>(&records.free, next(needs.by_block));
        let by_size = self.tree::<FreeSpaceBySize>(&records.by_size, next(needs.by_size));
        let map = self
            .has(RoCompatFeatures::RMAPBT)
            .then(|| self.tree::<ReverseMap>(&records.map, next(needs.map)));
        let trees = SpaceTrees { by_block, by_size, map, shared };
        let listed = rest;
        blocks.push(headers::agf(&self.agf(records, &trees, listed), self.geometry()));
        blocks.push(headers::agfl(self.group.number(), listed, self.geometry()));
        blocks.extend(trees.by_block.blocks);
        blocks.extend(trees.by_size.blocks);
        blocks.extend(trees.map.into_iter().flat_map(|tree| tree.blocks));
        blocks.extend(trees.shared.into_iter().flat_map(|tree| tree.blocks));
        blocks
    }

    fn agf(&self, records: &Records, trees: &SpaceTrees, listed: &[AgBlock]) -> Agf {
        let count = |blocks: usize| u32::try_from(blocks).expect("a group has 2^32 blocks at most");
        let SpaceTrees { by_block, by_size, map, shared } = trees;
        let others = |tree: &BuiltTree| count(tree.blocks.len() - 1);
        let capacity = agfl::capacity(self.geometry());
        let listed = count(listed.len()).min(capacity);
        Agf {
            group: self.group.number(),
            length_blocks: self.group.length_blocks(),
            free_space_by_block: root_of(by_block),
            free_space_by_size: root_of(by_size),
            reverse_map: map.as_ref().map(root_of),
            refcount: shared.as_ref().map(root_of),
            free_list: FreeListRange { first: 0, last: listed.saturating_sub(1), count: listed },
            free_blocks: records.free.iter().map(|free| free.count).sum(),
            longest_free_blocks: records.free.iter().map(|free| free.count).max().unwrap_or(0),
            btree_blocks: others(by_block) + others(by_size) + map.as_ref().map_or(0, others),
            reverse_map_blocks: map.as_ref().map_or(0, |tree| count(tree.blocks.len())),
            refcount_blocks: shared.as_ref().map_or(0, |tree| count(tree.blocks.len())),
            lsn: self.lsn,
        }
    }

    fn new_agi(&self, all: &BuiltTree, free: Option<&BuiltTree>) -> Agi {
        let has_counts = self.has(RoCompatFeatures::INOBTCNT);
        let blocks = |tree: &BuiltTree| u32::try_from(tree.blocks.len()).expect("a few blocks");
        let newest = self.agi.as_ref().and_then(|agi| agi.newest_inode);
        let sum = |of: fn(&InodeChunk) -> u8| self.chunks.iter().map(|c| u32::from(of(c))).sum();
        Agi {
            group: self.group.number(),
            length_blocks: self.group.length_blocks(),
            count: sum(|chunk| chunk.count),
            free_count: sum(|chunk| chunk.free_count),
            inode_btree: root_of(all),
            free_inode_btree: free.map(root_of),
            newest_inode: newest
                .filter(|newest| self.chunks.iter().any(|chunk| chunk.start == *newest)),
            unlinked: self.agi.as_ref().map_or([None; 64], |agi| agi.unlinked),
            inode_btree_blocks: has_counts.then(|| blocks(all)),
            free_inode_btree_blocks: free.filter(|_| has_counts).map(blocks),
            lsn: self.lsn,
        }
    }
}

/// The finished btrees whose roots are in the AGF.
struct SpaceTrees {
    by_block: BuiltTree,
    by_size: BuiltTree,
    map: Option<BuiltTree>,
    shared: Option<BuiltTree>,
}

const fn root_of(tree: &BuiltTree) -> BtreeRoot {
    BtreeRoot { block: tree.root, levels: tree.levels }
}
