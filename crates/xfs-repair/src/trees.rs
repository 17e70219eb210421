//! Reads the btrees of a group as evidence, past the blocks that are damaged.
//!
//! Owns: which blocks of a walk are believed, and the search for leaves without a root. Does
//! **not** own: following pointers (`xfs-evidence`), or decisions about which records are right.
//!
//! # Invariants
//!
//! - **I1** Only blocks with the right checksum, UUID, address and owner are evidence.

use std::collections::BTreeSet;

use xfs_evidence::{Damage, Evidence, TreeBlock, TreePointer, TreeVisitor};
use xfs_format::agf::{Agf, BtreeRoot};
use xfs_format::agi::Agi;
use xfs_format::btree::{BtreeBlock, BtreeFormat};
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

/// Reads a header sector of a group and decodes it. Returns `None` if the magic number or the
/// checksum is wrong. Other checks may fail.
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

/// Returns whether a block that fails `check` is still evidence. It is if `check` concerns another
/// field than magic number, checksum, UUID or address.
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
/// for further leaves and adds the records in them. Such records may be out of date.
pub(crate) fn read<F: BtreeFormat>(
    patient: &Patient,
    number: AgNumber,
    root: Option<BtreeRoot>,
) -> GroupTree<F::Record> {
    let group = Group::new(patient.geometry(), number).expect("the group is one of the volume");
    let reader = TreeReader::new(patient, group);
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
    TreeReader::new(patient, group).walk::<F>(root)
}

/// A reader of the btrees of one group, as evidence.
struct TreeReader<'a> {
    patient: &'a Patient<'a>,
    evidence: Evidence<'a>,
    group: Group<'a>,
}

impl<'a> TreeReader<'a> {
    fn new(patient: &'a Patient<'a>, group: Group<'a>) -> Self {
        let evidence = patient.evidence().with_log_head(patient.log_head());
        Self { patient, evidence, group }
    }

    /// Walks the btree from its root, in the order of keys.
    fn walk<F: BtreeFormat>(&self, root: BtreeRoot) -> GroupTree<F::Record> {
        let tree = GroupTree { records: Vec::new(), blocks: BTreeSet::new(), is_whole: true };
        let max = F::KIND.max_levels(self.group.geometry());
        if root.levels == 0 || root.levels > max {
            return GroupTree { is_whole: false, ..tree };
        }
        let rights = vec![None; root.levels as usize];
        let mut walk = TreeWalk::<F> { group: &self.group, tree, rights };
        // Each block is visited once, so the walk ends.
        let pointer = TreePointer { block: root.block, level: Some(root.levels - 1) };
        self.evidence.walk_tree(&self.group, F::KIND, pointer, &mut walk);
        let TreeWalk { mut tree, rights, .. } = walk;
        let is_end = |last: &Option<LastBlock>| last.is_some_and(|last| last.right.is_none());
        tree.is_whole &= rights.iter().all(is_end) && is_sorted::<F>(&tree.records);
        tree
    }

    /// Adds the records of all sound leaves of the group that the walk has not visited, and sorts
    /// the records.
    fn search<F: BtreeFormat>(&self, mut tree: GroupTree<F::Record>) -> GroupTree<F::Record> {
        for number in self.group.geometry().header_blocks()..self.group.length_blocks() {
            let block = AgBlock(number);
            if self.patient.is_stopped() {
                break;
            }
            if tree.blocks.contains(&block) {
                continue;
            }
            let pointer = TreePointer { block, level: None };
            if let Ok(leaf) = self.evidence.tree_block(&self.group, F::KIND, pointer)
                && leaf.failed.is_none()
            {
                take_records::<F>(&leaf.view(), &self.group, &mut tree);
            }
        }
        tree.records.sort_by_key(|record| F::key(record));
        tree.records.dedup();
        tree.is_whole = false;
        tree
    }
}

/// The block of a level that a walk has visited last.
#[derive(Clone, Copy)]
struct LastBlock {
    number: u64,
    right: Option<u64>,
}

/// The state of a walk: the records so far, and the last block of each level.
struct TreeWalk<'a, F: BtreeFormat> {
    group: &'a Group<'a>,
    tree: GroupTree<F::Record>,
    rights: Vec<Option<LastBlock>>,
}

impl<F: BtreeFormat> TreeVisitor for TreeWalk<'_, F> {
    fn visit(&mut self, block: &TreeBlock) -> Option<u32> {
        let number = block.pointer.block;
        self.tree.blocks.insert(number);
        // A block with another checksum is no evidence (I1).
        if block.failed.as_ref().is_some_and(|corruption| !is_evidence(corruption.check())) {
            self.tree.is_whole = false;
            return None;
        }
        let level = block.pointer.level.expect("the walk knows the level of its root");
        let view = block.view();
        let last = self.rights.get_mut(level as usize).expect("a level is below the root");
        let number = u64::from(number.0);
        let is_linked = view.left_sibling() == last.map(|last| last.number)
            && last.is_none_or(|last| last.right == Some(number));
        *last = Some(LastBlock { number, right: view.right_sibling() });
        self.tree.is_whole &= block.failed.is_none() && is_linked && view.level() == level;
        if view.level() != level {
            return None;
        }
        take_records::<F>(&view, self.group, &mut self.tree);
        level.checked_sub(1)
    }

    fn miss(&mut self, pointer: TreePointer, _damages: Vec<Damage>) {
        self.tree.blocks.insert(pointer.block);
        self.tree.is_whole = false;
    }
}

fn take_records<F: BtreeFormat>(
    view: &BtreeBlock<'_>,
    group: &Group<'_>,
    tree: &mut GroupTree<F::Record>,
) {
    for bytes in view.records() {
        match F::decode_record(bytes, group) {
            Ok(record) => tree.records.push(record),
            Err(_) => tree.is_whole = false,
        }
    }
}

fn is_sorted<F: BtreeFormat>(records: &[F::Record]) -> bool {
    let pairs = records.iter().zip(records.iter().skip(1));
    pairs.into_iter().all(|(before, after)| F::may_follow(after, before))
}
