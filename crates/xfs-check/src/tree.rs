//! The walk over a btree, from any root. The walk continues after blocks that cannot be read.
//!
//! Owns: the checks across blocks: levels, owners, siblings, keys of parents, order from leaf to
//! leaf. Does **not** own: the meaning of records, which is the visitor's.
//!
//! # Invariants
//!
//! - **I1** A level is one less than its parent's, so a path ends.
//! - **I2** The number of visited blocks has a budget, so the walk of a graph that is no tree ends
//!   too (C5 of the crate).

use xfs_format::btree::{BtreeBlock, BtreeCheck, BtreeFormat, PointerForm};
use xfs_format::{
    AgBlock, BlockKind, Corruption, DiskAddr, FsBlock, Group, Structure, StructureAddress,
};

use crate::blocks::{Evidence, Findings, Volume};
use crate::code::Code;
use crate::finding::{Finding, Place};

/// A receiver of the blocks and records of a btree.
pub(crate) trait TreeVisitor<F: BtreeFormat> {
    /// Receives a block of the btree. `pointer` is its number in the group, or in the volume for
    /// the btree of a fork.
    fn block(&mut self, pointer: u64, level: u32);
    /// Receives a record of the btree.
    fn record(&mut self, record: &F::Record);
}

/// The place of a btree, and the limit of a walk over it.
#[derive(Clone, Copy)]
pub(crate) struct TreeSpace<'a> {
    pub(crate) volume: Volume<'a>,
    /// The group of the btree. The walk of a fork's extents does not use this field.
    pub(crate) group: Group<'a>,
    /// The owner in the header of each block: the number of the group or of the inode.
    pub(crate) owner: u64,
    /// The largest number of blocks that the walk may visit.
    pub(crate) budget: u64,
}

/// A child block as its parent block describes it.
struct Child<K> {
    pointer: u64,
    level: u32,
    key: Option<K>,
    high_key: Option<K>,
    /// Whether the block may have few entries: it is a root, or a child of a root in an inode.
    may_be_low: bool,
}

/// The last block that was visited on a level.
#[derive(Clone, Copy, Default)]
enum Neighbour {
    /// No block of the level was visited yet, so the next block is the first one of the level.
    #[default]
    First,
    /// The block of the level that was visited last, and its right sibling.
    Block { pointer: u64, right: Option<u64> },
    /// The last block of the level could not be read, so its right sibling is unknown.
    Unknown,
}

/// The state of a walk over a btree.
pub(crate) struct TreeWalk<'w, F: BtreeFormat, V> {
    space: TreeSpace<'w>,
    visitor: &'w mut V,
    findings: &'w mut Findings,
    neighbours: Vec<Neighbour>,
    last_record: Option<F::Record>,
    blocks: u64,
    is_whole: bool,
}

impl<'w, F: BtreeFormat, V: TreeVisitor<F>> TreeWalk<'w, F, V> {
    /// Creates a walk. The btree has `levels` levels of blocks.
    pub(crate) fn new(
        space: TreeSpace<'w>,
        levels: u32,
        visitor: &'w mut V,
        findings: &'w mut Findings,
    ) -> Self {
        let levels = usize::try_from(levels).expect("a level fits an index");
        Self {
            space,
            visitor,
            findings,
            neighbours: vec![Neighbour::First; levels],
            last_record: None,
            blocks: 0,
            is_whole: true,
        }
    }

    /// Walks a btree whose root is a block. Returns whether the whole btree could be read.
    pub(crate) fn walk_block(mut self, pointer: u64, levels: u32) -> bool {
        let level = levels.checked_sub(1).expect("a btree has a level");
        let root = Child { pointer, level, key: None, high_key: None, may_be_low: true };
        self.visit(&root);
        self.finish()
    }

    /// Walks a btree whose root is in an inode and has these children. Returns whether the whole
    /// btree could be read.
    pub(crate) fn walk_children(
        mut self,
        level: u32,
        children: impl Iterator<Item = (F::Key, u64)>,
    ) -> bool {
        for (key, pointer) in children {
            let key = Some(key);
            self.visit(&Child { pointer, level, key, high_key: None, may_be_low: true });
        }
        self.finish()
    }

    fn finish(self) -> bool {
        for neighbour in &self.neighbours {
            if let Neighbour::Block { pointer, right: Some(right) } = *neighbour {
                let place = self.place(pointer);
                let finding = Finding::new(
                    Code::BtSibling,
                    place,
                    format!("{}: the last block has the right sibling {right:#x}", name::<F>()),
                );
                self.findings.push(finding.expected("none"));
            }
        }
        self.is_whole
    }

    fn address(&self, pointer: u64) -> Option<DiskAddr> {
        let geometry = self.space.volume.geometry();
        match F::KIND.layout().form {
            PointerForm::Short => {
                let block = AgBlock(u32::try_from(pointer).ok()?);
                let group = &self.space.group;
                group
                    .contains_block(block)
                    .then(|| geometry.ag_block_disk_addr(group.number(), block))
            }
            PointerForm::Long => {
                let (group, block) = geometry.split_block(FsBlock(pointer))?;
                (block.0 >= geometry.header_blocks())
                    .then(|| geometry.ag_block_disk_addr(group, block))
            }
        }
    }

    fn place(&self, pointer: u64) -> Place {
        let geometry = self.space.volume.geometry();
        match self.address(pointer) {
            Some(at) => Place::of_address(at, geometry),
            None => Place::of_group(self.space.group.number()),
        }
    }

    fn lose(&mut self, level: u32) {
        self.is_whole = false;
        self.last_record = None;
        for below in self.neighbours.iter_mut().take(level as usize + 1) {
            *below = Neighbour::Unknown;
        }
    }

    /// Visits a block and all blocks below it. Returns the lowest and highest key of its records;
    /// `None` if they are not known, or if there is no record.
    fn visit(&mut self, child: &Child<F::Key>) -> Option<(F::Key, F::Key)> {
        // A graph that is no tree would have more blocks than its space (I2).
        if self.blocks >= self.space.budget {
            if self.is_whole {
                let found = format!("{}: more than {} blocks", name::<F>(), self.space.budget);
                let place = self.place(child.pointer);
                self.findings.push(Finding::new(Code::BtLoop, place, found));
            }
            self.lose(child.level);
            return None;
        }
        self.blocks += 1;
        let Some(at) = self.address(child.pointer) else {
            let found = format!("{}: pointer {:#x}", name::<F>(), child.pointer);
            let place = self.place(child.pointer);
            self.findings.push(Finding::new(Code::BtPointer, place, found));
            self.lose(child.level);
            return None;
        };
        // A block has an owner even if its contents are lost.
        self.visitor.block(child.pointer, child.level);
        let mut bytes = vec![0; self.space.volume.geometry().block_size as usize];
        let kind = BlockKind::Btree(F::KIND);
        let evidence = self.space.volume.read_block(at, kind, &mut bytes, self.findings);
        let block = match BtreeBlock::decode(&bytes, F::KIND, at) {
            Ok(block) if evidence != Evidence::None => block,
            _ => {
                self.lose(child.level);
                return None;
            }
        };
        if !self.check_path(&block, child, at) {
            self.lose(child.level);
            return None;
        }
        self.check_siblings(&block, child);
        let keys = if block.is_leaf() { self.leaf(&block, at) } else { self.node(&block) };
        if let Some((low, high)) = keys {
            self.check_keys(child, at, low, high);
        }
        keys
    }

    /// Checks owner, level and the number of entries. Returns `false` if the level is wrong.
    fn check_path(&mut self, block: &BtreeBlock<'_>, child: &Child<F::Key>, at: DiskAddr) -> bool {
        let place = Place::of_address(at, self.space.volume.geometry());
        if let Some(other) = block.owner().filter(|owner| *owner != self.space.owner) {
            let found = format!("{}: owner {other}", name::<F>());
            let finding = Finding::new(Code::foreign(Structure::Btree), place, found);
            self.findings.push(finding.expected(self.space.owner.to_string()));
        }
        if block.level() != child.level {
            let found = format!("{}: level {}", name::<F>(), block.level());
            let finding = Finding::new(Code::BtLevel, place, found);
            self.findings.push(finding.expected(child.level.to_string()));
            return false;
        }
        let fewest =
            block.layout().min_entries(block.level(), self.space.volume.geometry().block_size);
        if block.count() == 0 && !child.may_be_low {
            let found = format!("{}: a block without entries below a node", name::<F>());
            self.findings.push(Finding::new(Code::BtCount, place, found));
        } else if block.count() < fewest && !child.may_be_low {
            let found = format!("{}: {} entries", name::<F>(), block.count());
            let finding = Finding::new(Code::BtLow, place, found);
            self.findings.push(finding.expected(format!("at least {fewest}")));
        }
        true
    }

    fn check_siblings(&mut self, block: &BtreeBlock<'_>, child: &Child<F::Key>) {
        let place = self.place(child.pointer);
        let level = usize::try_from(child.level).expect("a level fits an index");
        let before = self.neighbours.get_mut(level).expect("a level is below the root (I1)");
        let expected = match *before {
            Neighbour::First => Some(None),
            Neighbour::Block { pointer, right } => {
                if right != Some(child.pointer) {
                    let found = format!("{}: right sibling {}", name::<F>(), shown(right));
                    let finding = Finding::new(Code::BtSibling, place, found);
                    self.findings.push(
                        finding.expected(format!("{:#x}, after {pointer:#x}", child.pointer)),
                    );
                }
                Some(Some(pointer))
            }
            Neighbour::Unknown => None,
        };
        *before = Neighbour::Block { pointer: child.pointer, right: block.right_sibling() };
        if expected.is_some_and(|expected| expected != block.left_sibling()) {
            let found = format!("{}: left sibling {}", name::<F>(), shown(block.left_sibling()));
            let finding = Finding::new(Code::BtSibling, place, found);
            self.findings.push(finding.expected(shown(expected.flatten())));
        }
    }

    fn leaf(&mut self, block: &BtreeBlock<'_>, at: DiskAddr) -> Option<(F::Key, F::Key)> {
        let geometry = self.space.volume.geometry();
        let mut keys: Option<(F::Key, F::Key)> = None;
        for (index, bytes) in block.records().enumerate() {
            let record = match F::decode_record(bytes, &self.space.group) {
                Ok(record) => record,
                Err(check) => {
                    // The first one was reported with the block.
                    let address = StructureAddress::Disk(at);
                    let corruption = Corruption::new(Structure::Btree, address, check);
                    self.findings.corrupt(&corruption, geometry);
                    self.is_whole = false;
                    continue;
                }
            };
            if self.last_record.is_some_and(|last| !F::may_follow(&record, &last)) {
                let check = BtreeCheck::Order { index };
                let corruption =
                    Corruption::new(Structure::Btree, StructureAddress::Disk(at), check);
                self.findings.corrupt(&corruption, geometry);
            }
            self.last_record = Some(record);
            let (low, high) = (F::key(&record), F::high_key(&record));
            keys = Some(match keys {
                None => (low, high),
                Some((first, highest)) => (first, highest.max(high)),
            });
            self.visitor.record(&record);
        }
        keys
    }

    fn node(&mut self, block: &BtreeBlock<'_>) -> Option<(F::Key, F::Key)> {
        let block_bytes = self.space.volume.geometry().block_size.into();
        for index in 0..block.count() {
            let child = block.pointer(index).and_then(|pointer| self.address(pointer));
            if let Some(child) = child {
                self.space.volume.prefetch(child, block_bytes);
            }
        }
        let level = block.level() - 1;
        let mut keys: Option<(F::Key, F::Key)> = None;
        for index in 0..block.count() {
            let key = block.key(index).and_then(F::decode_key);
            let high_key = block.high_key(index).and_then(F::decode_key);
            let Some(pointer) = block.pointer(index) else { continue };
            let child = Child { pointer, level, key, high_key, may_be_low: false };
            let below = self.visit(&child);
            let low = key.or(below.map(|(low, _)| low));
            let high = high_key.or(below.map(|(_, high)| high)).or(low);
            keys = match (keys, low, high) {
                (None, Some(low), Some(high)) => Some((low, high)),
                (Some((first, highest)), _, Some(high)) => Some((first, highest.max(high))),
                (keys, ..) => keys,
            };
        }
        keys
    }

    fn check_keys(&mut self, child: &Child<F::Key>, at: DiskAddr, low: F::Key, high: F::Key) {
        let place = Place::of_address(at, self.space.volume.geometry());
        if child.key.is_some_and(|key| key != low) {
            let found = format!("{}: the parent has key {:?}", name::<F>(), child.key);
            let finding = Finding::new(Code::BtKey, place, found);
            self.findings.push(finding.expected(format!("{low:?}")));
        }
        if child.high_key.is_some_and(|key| key != high) {
            let found = format!("{}: the parent has high key {:?}", name::<F>(), child.high_key);
            let finding = Finding::new(Code::BtHighKey, place, found);
            self.findings.push(finding.expected(format!("{high:?}")));
        }
    }
}

fn name<F: BtreeFormat>() -> &'static str {
    F::KIND.name()
}

fn shown(sibling: Option<u64>) -> String {
    sibling.map_or_else(|| "none".to_owned(), |block| format!("{block:#x}"))
}
