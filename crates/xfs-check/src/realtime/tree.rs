//! The walk over a btree of a realtime group. The walk continues after blocks that cannot be read.
//!
//! Owns: the checks across blocks: levels, owners, siblings, keys of parents, order from leaf to
//! leaf. Does **not** own: the meaning of records, which is the visitor's.
//!
//! # Invariants
//!
//! - **I1** A level is one less than its parent's, so a path ends.
//! - **I2** The number of visited blocks has a budget, so the walk of a graph that is no tree ends
//!   too (C5 of the crate).

use xfs_format::btree::BtreeFormat;
use xfs_format::realtime::{
    KeyOf, RealtimeGroup, RealtimeTree, RealtimeTreeBlock, RealtimeTreeEntries, decode_keys,
    verify_tree_block,
};
use xfs_format::{Corruption, FsBlock, InodeNumber, Structure, StructureAddress};

use crate::blocks::{Evidence, Findings, Volume};
use crate::code::Code;
use crate::finding::{Finding, Place};

/// A receiver of the blocks and records of a btree.
pub(super) trait RealtimeVisitor<T: RealtimeTree> {
    /// Receives a block of the btree, on the data device.
    fn block(&mut self, block: FsBlock);
    /// Receives a record of the btree.
    fn record(&mut self, record: &RecordOf<T>);
}

type RecordOf<T> = <<T as RealtimeTree>::Format as BtreeFormat>::Record;

/// The place of a btree, and the limit of a walk over it.
#[derive(Clone, Copy)]
pub(super) struct RealtimeSpace<'a> {
    pub(super) volume: Volume<'a>,
    pub(super) group: RealtimeGroup<'a>,
    /// The inode that holds the root.
    pub(super) owner: InodeNumber,
    /// The largest number of blocks that the walk may visit.
    pub(super) budget: u64,
}

/// The last block that was visited on a level.
#[derive(Clone, Copy, Default)]
enum Neighbour {
    #[default]
    First,
    /// A block, and its right sibling.
    Block {
        block: FsBlock,
        right: Option<FsBlock>,
    },
    Unknown,
}

/// The lowest and the highest key of the records below a root or a block.
#[derive(Clone, Copy)]
struct KeyRange<K> {
    low: K,
    high: K,
}

impl<K: Copy + Ord> KeyRange<K> {
    /// Returns a range that also has the keys of the next record or child. Low keys come in order,
    /// so the first one stays the lowest.
    fn widened(before: Option<Self>, next: Self) -> Self {
        before.map_or(next, |before| Self { high: before.high.max(next.high), ..before })
    }
}

/// A child block as its parent describes it.
struct Child<T: RealtimeTree> {
    block: FsBlock,
    level: u16,
    low: Option<KeyOf<T>>,
    high: Option<KeyOf<T>>,
}

/// The state of a walk over a btree.
struct Walk<'w, T: RealtimeTree, V> {
    space: RealtimeSpace<'w>,
    visitor: &'w mut V,
    findings: &'w mut Findings,
    neighbours: Vec<Neighbour>,
    last: Option<RecordOf<T>>,
    blocks: u64,
    is_whole: bool,
}

/// Walks a btree from its root. Returns the number of its blocks, or `None` if a part of the btree
/// could not be read.
pub(super) fn walk<T: RealtimeTree, V: RealtimeVisitor<T>>(
    space: RealtimeSpace<'_>,
    root: &RealtimeTreeEntries<'_>,
    visitor: &mut V,
    findings: &mut Findings,
) -> Option<u64> {
    let neighbours = vec![Neighbour::First; usize::from(root.level())];
    let mut walk: Walk<'_, T, V> =
        Walk { space, visitor, findings, neighbours, last: None, blocks: 0, is_whole: true };
    let address = StructureAddress::Inode(space.owner);
    walk.entries(root, address);
    for neighbour in walk.neighbours.clone() {
        if let Neighbour::Block { block, right: Some(right) } = neighbour {
            let found = format!("the last block has the right sibling {:#x}", right.0);
            walk.report(Code::RtTree, block, found, "none".to_owned());
        }
    }
    walk.is_whole.then_some(walk.blocks)
}

impl<T: RealtimeTree, V: RealtimeVisitor<T>> Walk<'_, T, V> {
    fn report(&mut self, code: Code, block: FsBlock, found: String, expected: String) {
        let geometry = self.space.volume.geometry();
        let place = geometry.block_disk_addr(block).map(|at| Place::of_address(at, geometry));
        let mut place = place.unwrap_or_default();
        place.realtime_group = Some(self.space.group.number);
        self.findings.push(Finding::new(code, place, found).expected(expected));
    }

    fn lose(&mut self, level: u16) {
        self.is_whole = false;
        self.last = None;
        for below in self.neighbours.iter_mut().take(usize::from(level) + 1) {
            *below = Neighbour::Unknown;
        }
    }

    /// Goes through the entries of the root or of a block. Returns the lowest and the highest key
    /// of the records below.
    fn entries(
        &mut self,
        entries: &RealtimeTreeEntries<'_>,
        address: StructureAddress,
    ) -> Option<KeyRange<KeyOf<T>>> {
        let geometry = self.space.volume.geometry();
        let mut keys = None;
        for bytes in entries.records() {
            let record = match T::decode(bytes, &self.space.group) {
                Ok(record) => record,
                Err(check) => {
                    let corruption = Corruption::new(Structure::RealtimeMetadata, address, check);
                    self.findings.corrupt(&corruption, geometry);
                    self.is_whole = false;
                    continue;
                }
            };
            if self.last.is_some_and(|last| !T::Format::may_follow(&record, &last)) {
                let place = Place::of_structure(address, geometry);
                let found = format!("{record:?} does not follow {:?}", self.last);
                self.findings.push(Finding::new(Code::RtOrder, place, found));
            }
            self.last = Some(record);
            self.visitor.record(&record);
            let own = KeyRange { low: T::Format::key(&record), high: T::Format::high_key(&record) };
            keys = Some(KeyRange::widened(keys, own));
        }
        for (bytes, block) in entries.children() {
            let (low, high) = decode_keys::<T>(bytes);
            let child: Child<T> = Child { block, level: entries.level() - 1, low, high };
            let below = self.visit(&child);
            let low = low.or(below.map(|below| below.low));
            let high = high.or(below.map(|below| below.high)).or(low);
            if let (Some(low), Some(high)) = (low, high) {
                keys = Some(KeyRange::widened(keys, KeyRange { low, high }));
            }
        }
        keys
    }

    fn visit(&mut self, child: &Child<T>) -> Option<KeyRange<KeyOf<T>>> {
        let RealtimeSpace { volume, group, owner, budget } = self.space;
        let geometry = volume.geometry();
        let split = geometry.split_block(child.block);
        let at = geometry.block_disk_addr(child.block);
        let exists = split.is_some_and(|(_, block)| block.0 >= geometry.header_blocks());
        // The verifier of the parent has reported a pointer that leads to no block. A graph that is
        // no tree would have more blocks than its inode counts (I2).
        let Some(at) = at.filter(|_| exists) else {
            self.lose(child.level);
            return None;
        };
        if self.blocks >= budget || !volume.reads.take(1) {
            if self.is_whole {
                let found = format!("more than {} blocks", self.blocks);
                self.report(Code::RtTree, child.block, found, format!("{budget} blocks"));
            }
            self.lose(child.level);
            return None;
        }
        self.blocks += 1;
        self.visitor.block(child.block);
        let mut bytes = vec![0; geometry.block_size as usize];
        if let Err(error) = volume.read(at, &mut bytes) {
            let place = Place::of_address(at, geometry);
            self.findings.unreadable(Structure::RealtimeMetadata, place, &error);
            self.lose(child.level);
            return None;
        }
        let verdict = verify_tree_block::<T>(&bytes, at, &group, &volume.context());
        let evidence = verdict.as_ref().err().map_or(Evidence::Sound, Evidence::left_by);
        if let Err(corruption) = verdict {
            self.findings.corrupt(&corruption, geometry);
        }
        let block = match RealtimeTreeBlock::decode::<T>(&bytes, at) {
            Ok(block) if evidence != Evidence::None => block,
            _ => {
                self.lose(child.level);
                return None;
            }
        };
        if block.owner != owner.0 {
            let found = format!("owner {}", block.owner);
            self.report(Code::RtOwner, child.block, found, owner.0.to_string());
        }
        if block.entries.level() != child.level {
            let found = format!("level {}", block.entries.level());
            self.report(Code::RtTree, child.block, found, child.level.to_string());
            self.lose(child.level);
            return None;
        }
        self.check_siblings(&block, child);
        let keys = self.entries(&block.entries, StructureAddress::Disk(at))?;
        self.check_keys(child, keys);
        Some(keys)
    }

    fn check_siblings(&mut self, block: &RealtimeTreeBlock<'_>, child: &Child<T>) {
        let level = usize::from(child.level);
        let place = self.neighbours.get_mut(level).expect("a level is below the root (I1)");
        let before =
            std::mem::replace(place, Neighbour::Block { block: child.block, right: block.right });
        let shown = |block: Option<FsBlock>| {
            block.map_or_else(|| "none".to_owned(), |block| format!("{:#x}", block.0))
        };
        let expected = match before {
            Neighbour::Unknown => return,
            Neighbour::First => None,
            Neighbour::Block { block, right } => {
                if right != Some(child.block) {
                    let found = format!("right sibling {}", shown(right));
                    self.report(Code::RtTree, block, found, shown(Some(child.block)));
                }
                Some(block)
            }
        };
        if expected != block.left {
            let found = format!("left sibling {}", shown(block.left));
            self.report(Code::RtTree, child.block, found, shown(expected));
        }
    }

    fn check_keys(&mut self, child: &Child<T>, below: KeyRange<KeyOf<T>>) {
        let KeyRange { low, high } = below;
        if let Some(key) = child.low.filter(|key| *key != low) {
            let found = format!("the parent has key {key:?}");
            self.report(Code::RtKey, child.block, found, format!("{low:?}"));
        }
        if let Some(key) = child.high.filter(|key| *key != high) {
            let found = format!("the parent has high key {key:?}");
            self.report(Code::RtKey, child.block, found, format!("{high:?}"));
        }
    }
}
