//! Reads the btrees of a group as evidence, past the blocks that are damaged.
//!
//! Owns: the walk from a root that may be wrong, and the search for leaves without a root. Does
//! **not** own: decisions about which records are right.
//!
//! # Invariants
//!
//! - **I1** A block is visited once, and a walk visits no more blocks than the group has.
//! - **I2** Only blocks with the right checksum, UUID, address and owner are evidence.

use std::collections::BTreeSet;

use xfs_format::agf::{Agf, BtreeRoot};
use xfs_format::agi::Agi;
use xfs_format::btree::{BtreeBlock, BtreeFormat, BtreeKind};
use xfs_format::{AgBlock, AgNumber, BlockKind, Check, DiskAddr, Group};

use crate::patient::Patient;

/// The records of one btree of a group, as far as its blocks could be read.
#[derive(Clone, Debug)]
pub(crate) struct GroupTree<R> {
    /// The records. They are in the order of their keys, unless the walk from the root has met
    /// damage.
    pub(crate) records: Vec<R>,
    /// The blocks that the walk from the root has visited.
    pub(crate) blocks: BTreeSet<AgBlock>,
    /// Whether the walk from the root has met no damage; `false` also if there was no root to walk
    /// from.
    pub(crate) is_whole: bool,
}

/// Reads a header sector of a group and decodes it, although checks may fail. Returns `None` if the
/// magic number or the checksum is wrong.
fn header<D>(
    patient: &Patient,
    group: AgNumber,
    kind: BlockKind,
    decode: impl FnOnce(&[u8], DiskAddr) -> Option<D>,
) -> Option<Header<D>> {
    let geometry = patient.geometry();
    let index = match kind {
        BlockKind::Agf => 1,
        BlockKind::Agi => 2,
        _ => 3,
    };
    let at = geometry.header_disk_addr(group, index);
    let mut bytes = vec![0; geometry.sector_size as usize];
    if !patient.can_read(at, &mut bytes) {
        return None;
    }
    let checked = kind.verify(&bytes, at, &patient.context());
    let is_sound = checked.is_ok();
    let is_evidence = checked.err().is_none_or(|corruption| is_evidence(corruption.check()));
    decode(&bytes, at).filter(|_| is_evidence).map(|header| Header { header, is_sound })
}

/// A decoded header sector of a group. Its magic number and checksum are right.
pub(crate) struct Header<D> {
    /// The decoded header.
    pub(crate) header: D,
    /// Whether all checks of the header pass.
    pub(crate) is_sound: bool,
}

/// Reads the AGF of a group; `None` if its magic number or checksum is wrong.
pub(crate) fn agf(patient: &Patient, group: AgNumber) -> Option<Header<Agf>> {
    header(patient, group, BlockKind::Agf, |bytes, at| {
        Agf::decode(bytes, at, patient.geometry()).ok()
    })
}

/// Reads the AGI of a group; `None` if its magic number or checksum is wrong.
pub(crate) fn agi(patient: &Patient, group: AgNumber) -> Option<Header<Agi>> {
    header(patient, group, BlockKind::Agi, |bytes, at| {
        Agi::decode(bytes, at, patient.geometry()).ok()
    })
}

/// Returns whether a block that fails `check` is still evidence: magic number, checksum, UUID and
/// address are right, and only some field is wrong.
pub(crate) const fn is_evidence(check: &Check) -> bool {
    !matches!(
        check,
        Check::Magic { .. }
            | Check::Checksum { .. }
            | Check::ForeignUuid { .. }
            | Check::MisplacedBlock { .. }
            | Check::Truncated { .. }
    )
}

/// Reads a btree from its root. If the walk meets damage, or there is no root, searches the group
/// for further leaves and adds their records; those may be out of date.
pub(crate) fn read<F: BtreeFormat>(
    patient: &Patient,
    number: AgNumber,
    root: Option<BtreeRoot>,
) -> GroupTree<F::Record> {
    let group = Group::new(patient.geometry(), number).expect("the group is one of the volume");
    let reader = TreeReader { patient, group };
    if let Some(root) = root {
        let tree = reader.walk::<F>(root);
        if tree.is_whole {
            return tree;
        }
        return reader.search::<F>(tree);
    }
    let empty = GroupTree { records: Vec::new(), blocks: BTreeSet::new(), is_whole: false };
    reader.search::<F>(empty)
}

/// Reads a btree from its root, without a search for leaves that the walk does not reach.
pub(crate) fn walk<F: BtreeFormat>(
    patient: &Patient,
    number: AgNumber,
    root: BtreeRoot,
) -> GroupTree<F::Record> {
    let group = Group::new(patient.geometry(), number).expect("the group is one of the volume");
    TreeReader { patient, group }.walk::<F>(root)
}

/// Reads the btrees of one group as evidence.
struct TreeReader<'a> {
    patient: &'a Patient,
    group: Group<'a>,
}

impl TreeReader<'_> {
    /// Reads a block. Returns `None` if the block is no evidence (I2), and otherwise its bytes and
    /// whether all its checks pass.
    fn block(&self, block: AgBlock, kind: BtreeKind) -> Option<(Vec<u8>, bool)> {
        let geometry = self.group.geometry();
        let at = geometry.ag_block_disk_addr(self.group.number(), block);
        let mut bytes = vec![0; geometry.block_size as usize];
        if !self.group.contains_block(block) || !self.patient.can_read(at, &mut bytes) {
            return None;
        }
        let checked = BlockKind::Btree(kind).verify(&bytes, at, &self.patient.context());
        let is_sound = checked.is_ok();
        // A block with another checksum, UUID or address is no evidence (I2).
        if checked.err().is_some_and(|corruption| !is_evidence(corruption.check())) {
            return None;
        }
        let view = BtreeBlock::decode(&bytes, kind, at);
        // The owner is the group (I2).
        let is_own = view.is_ok_and(|view| view.owner() == Some(self.group.number().0.into()));
        is_own.then_some((bytes, is_sound))
    }

    /// Walks the btree from its root, in the order of keys.
    fn walk<F: BtreeFormat>(&self, root: BtreeRoot) -> GroupTree<F::Record> {
        let mut tree = GroupTree { records: Vec::new(), blocks: BTreeSet::new(), is_whole: true };
        let max = F::KIND.max_levels(self.group.geometry());
        if root.levels == 0 || root.levels > max {
            tree.is_whole = false;
            return tree;
        }
        let mut stack = vec![(root.block, root.levels - 1)];
        let mut rights = vec![None; root.levels as usize];
        while let Some((block, level)) = stack.pop() {
            // Each block is visited once, so the walk ends (I1).
            let read = if tree.blocks.insert(block) { self.block(block, F::KIND) } else { None };
            let Some((bytes, is_sound)) = read else {
                tree.is_whole = false;
                continue;
            };
            let at = self.group.geometry().ag_block_disk_addr(self.group.number(), block);
            let view = BtreeBlock::decode(&bytes, F::KIND, at).expect("the block was decoded");
            let right = rights.get_mut(level as usize).expect("a level is below the root");
            let is_linked = view.left_sibling() == right.map(|(left, _): (u64, _)| left)
                && right.is_none_or(|(_, right)| right == Some(u64::from(block.0)));
            *right = Some((block.0.into(), view.right_sibling()));
            tree.is_whole &= is_sound && is_linked && view.level() == level;
            if view.level() != level {
                continue;
            }
            self.take_records::<F>(&view, &mut tree);
            let children = (0..view.count()).rev().filter_map(|index| view.pointer(index));
            let children = children.filter_map(|child| u32::try_from(child).ok());
            stack.extend(children.map(|child| (AgBlock(child), level.saturating_sub(1))));
        }
        let has_end = rights.iter().all(|right| right.is_some_and(|(_, right)| right.is_none()));
        tree.is_whole &= has_end && is_sorted::<F>(&tree.records);
        tree
    }

    fn take_records<F: BtreeFormat>(&self, view: &BtreeBlock<'_>, tree: &mut GroupTree<F::Record>) {
        for bytes in view.records() {
            match F::decode_record(bytes, &self.group) {
                Ok(record) => tree.records.push(record),
                Err(_) => tree.is_whole = false,
            }
        }
    }

    /// Adds the records of all sound leaves of the group that the walk has not visited, and sorts
    /// the records.
    fn search<F: BtreeFormat>(&self, mut tree: GroupTree<F::Record>) -> GroupTree<F::Record> {
        for number in self.group.geometry().header_blocks()..self.group.length_blocks() {
            let block = AgBlock(number);
            if tree.blocks.contains(&block) {
                continue;
            }
            let Some((bytes, true)) = self.block(block, F::KIND) else { continue };
            let at = self.group.geometry().ag_block_disk_addr(self.group.number(), block);
            let view = BtreeBlock::decode(&bytes, F::KIND, at).expect("the block was decoded");
            self.take_records::<F>(&view, &mut tree);
        }
        tree.records.sort_by_key(|record| F::key(record));
        tree.records.dedup();
        tree.is_whole = false;
        tree
    }
}

fn is_sorted<F: BtreeFormat>(records: &[F::Record]) -> bool {
    let pairs = records.iter().zip(records.iter().skip(1));
    pairs.into_iter().all(|(before, after)| F::may_follow(after, before))
}
