//! The records of a group's btrees, as far as they can be read.
//!
//! Owns: reading the records of one btree, and those of leaves to which no pointer is known. Does
//! **not** own: following pointers (`group_tree.rs`), or the meaning of records.

use std::marker::PhantomData;

use xfs_format::agf::Agf;
use xfs_format::agi::Agi;
use xfs_format::btree::{BtreeFormat, BtreeKind};
use xfs_format::{AgBlock, AgNumber, BlockKind, DiskAddr, Group};

use crate::group_tree::{TreeBlock, TreePointer, TreeVisitor};
use crate::volume::{Damage, Evidence, Trust};

/// The largest number of damages that are reported for one btree.
const MOST_DAMAGES: usize = 1 << 10;

/// The outcome of reading the records of a btree.
#[derive(Clone, Debug, Default)]
pub struct GroupRecords {
    /// Whether the whole btree was read and passed all checks.
    pub is_whole: bool,
    /// The blocks of the btree that were read, from the root.
    pub blocks: Vec<AgBlock>,
    /// The damages that were found while the btree was read.
    pub damages: Vec<Damage>,
}

impl GroupRecords {
    fn damage(&mut self, damage: impl Into<Damage>) {
        self.is_whole = false;
        if self.damages.len() < MOST_DAMAGES {
            self.damages.push(damage.into());
        }
    }
}

impl Evidence<'_> {
    /// Reads the AGF of a group.
    ///
    /// # Errors
    ///
    /// Returns the damage that prevents reading the AGF.
    pub fn agf(&self, group: AgNumber) -> Result<Agf, Damage> {
        let (bytes, at) = self.header(group, 1)?;
        self.sound_header(BlockKind::Agf, &bytes, at)?;
        Ok(Agf::decode(&bytes, at, self.geometry())?)
    }

    /// Reads the AGI of a group.
    ///
    /// # Errors
    ///
    /// Returns the damage that prevents reading the AGI.
    pub fn agi(&self, group: AgNumber) -> Result<Agi, Damage> {
        let (bytes, at) = self.header(group, 2)?;
        self.sound_header(BlockKind::Agi, &bytes, at)?;
        Ok(Agi::decode(&bytes, at, self.geometry())?)
    }

    fn header(&self, group: AgNumber, index: u32) -> Result<(Vec<u8>, DiskAddr), Damage> {
        let at = self.geometry().header_disk_addr(group, index);
        let mut bytes = vec![0; self.geometry().sector_size as usize];
        self.read_metadata(at, &mut bytes)?;
        Ok((bytes, at))
    }

    fn sound_header(&self, kind: BlockKind, bytes: &[u8], at: DiskAddr) -> Result<(), Damage> {
        Ok(kind.verify(bytes, at, &self.context())?)
    }

    /// Passes to `on_record` the records of one btree of a group, in the order of the btree. The
    /// root is taken from the group's header, which must be sound.
    ///
    /// The records of a leaf that fails a check are passed as [`Trust::Doubtful`], if they can be
    /// decoded.
    pub fn group_records<F: BtreeFormat>(
        &self,
        group: AgNumber,
        on_record: impl FnMut(&F::Record, Trust),
    ) -> GroupRecords {
        let mut found = GroupRecords { is_whole: true, ..GroupRecords::default() };
        let Some(group) = Group::new(self.geometry(), group) else {
            found.is_whole = false;
            return found;
        };
        let root = match self.root_of(group.number(), F::KIND) {
            Ok(Some(root)) => root,
            Ok(None) => return found,
            Err(damage) => {
                found.damage(damage);
                return found;
            }
        };
        let root = TreePointer { block: root, level: None };
        let mut reader =
            RecordReader { group: &group, found: &mut found, on_record, format: PhantomData::<F> };
        self.walk_tree(&group, F::KIND, root, &mut reader);
        found
    }

    fn root_of(&self, group: AgNumber, kind: BtreeKind) -> Result<Option<AgBlock>, Damage> {
        let of_agf = |pick: fn(&Agf) -> Option<AgBlock>| self.agf(group).map(|agf| pick(&agf));
        match kind {
            BtreeKind::FreeSpaceByBlock => of_agf(|agf| Some(agf.free_space_by_block.block)),
            BtreeKind::FreeSpaceBySize => of_agf(|agf| Some(agf.free_space_by_size.block)),
            BtreeKind::ReverseMap => of_agf(|agf| agf.reverse_map.map(|root| root.block)),
            BtreeKind::Refcount => of_agf(|agf| agf.refcount.map(|root| root.block)),
            BtreeKind::Inode => self.agi(group).map(|agi| Some(agi.inode_btree.block)),
            BtreeKind::FreeInode => {
                self.agi(group).map(|agi| agi.free_inode_btree.map(|root| root.block))
            }
            BtreeKind::Extent | BtreeKind::RealtimeReverseMap | BtreeKind::RealtimeRefcount => {
                Ok(None)
            }
        }
    }

    /// Passes to `on_record` the records of a leaf that a sweep of the device has found. Returns
    /// `false` if `block` is not such a leaf.
    ///
    /// A leaf that was freed from the btree keeps its checksum, so its records may be stale. The
    /// caller decides whether to use them.
    pub fn leaf_records<F: BtreeFormat>(
        &self,
        group: AgNumber,
        block: AgBlock,
        mut on_record: impl FnMut(&F::Record, Trust),
    ) -> bool {
        let Some(group) = Group::new(self.geometry(), group) else { return false };
        let pointer = TreePointer { block, level: None };
        match self.tree_block(&group, F::KIND, pointer) {
            Ok(leaf) if leaf.view().is_leaf() => {
                pass_records::<F>(&leaf, &group, &mut on_record);
                true
            }
            _ => false,
        }
    }
}

/// The visitor of a walk that passes the records of leaves to `on_record`, and collects the
/// damages.
struct RecordReader<'a, F, R> {
    group: &'a Group<'a>,
    found: &'a mut GroupRecords,
    on_record: R,
    format: PhantomData<F>,
}

impl<F: BtreeFormat, R: FnMut(&F::Record, Trust)> TreeVisitor for RecordReader<'_, F, R> {
    fn visit(&mut self, block: &TreeBlock) -> Option<u32> {
        if let Some(corruption) = &block.failed {
            self.found.damage(corruption.clone());
        }
        self.found.blocks.push(block.pointer.block);
        let view = block.view();
        if view.is_leaf() {
            pass_records::<F>(block, self.group, &mut self.on_record);
            return None;
        }
        if block.pointer.level.is_some_and(|expected| view.level() > expected) {
            self.found.is_whole = false;
            return None;
        }
        Some(view.level().saturating_sub(1))
    }

    fn miss(&mut self, _pointer: TreePointer, damages: Vec<Damage>) {
        self.found.is_whole = false;
        damages.into_iter().for_each(|damage| self.found.damage(damage));
    }
}

fn pass_records<F: BtreeFormat>(
    leaf: &TreeBlock,
    group: &Group<'_>,
    on_record: &mut impl FnMut(&F::Record, Trust),
) {
    let trust = if leaf.failed.is_none() { Trust::Sound } else { Trust::Doubtful };
    let view = leaf.view();
    for record in view.records().filter_map(|bytes| F::decode_record(bytes, group).ok()) {
        on_record(&record, trust);
    }
}
