//! A store of btree blocks in memory, for tests, and a check that a btree in it obeys all rules.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, Range};
use std::rc::Rc;

use xfs_buffer::Result;
use xfs_format::agf::BtreeRoot;
use xfs_format::btree::{
    BtreeBlock, BtreeCheck, BtreeFormat, BtreeHeader, BtreeIdentity, BtreeKind, PointerForm,
};
use xfs_format::extent::Extent;
use xfs_format::{
    AgBlock, AgNumber, BlockKind, DiskAddr, FsBlock, Geometry, Group, InodeNumber, Lsn,
    StructureAddress, Superblock, VerifyContext,
};

use xfs_testkit::Prng;

use crate::path::corrupt;
use crate::root::{ForkRoot, Root};
use crate::source::{Source, TreeBlock};
use crate::store::BtreeStore;

const SUPERBLOCK: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/groups/aged.headers"));
const GROUP: AgNumber = AgNumber(0);
pub(crate) const INODE: InodeNumber = InodeNumber(8192);
/// The block number of the first block of a store. Lower block numbers are left to the headers and
/// to the records of the tests.
const FIRST_BLOCK: u64 = 900_000;
const GROUP_BLOCKS_LOG: u8 = 20;

/// Returns the geometry of a volume of one group with blocks of `1 << block_log` bytes. Blocks of
/// 512 bytes are smaller than those of any volume, so that a few records already make a high btree.
pub(crate) fn geometry(block_log: u8) -> Geometry {
    let mut geometry =
        Superblock::decode(SUPERBLOCK, StructureAddress::Disk(DiskAddr(0))).unwrap().geometry;
    geometry.block_size = 1 << block_log;
    geometry.block_log = block_log;
    geometry.inodes_per_block_log = block_log - geometry.inode_log;
    geometry.ag_count = 1;
    geometry.ag_blocks = 1 << GROUP_BLOCKS_LOG;
    geometry.ag_blocks_log = GROUP_BLOCKS_LOG;
    geometry.data_blocks = 1 << GROUP_BLOCKS_LOG;
    geometry
}

/// A block in memory. If code under test changes the block while it still reads the block,
/// `RefCell` panics.
#[derive(Clone)]
pub(crate) struct MemoryBlock {
    at: DiskAddr,
    content: Rc<RefCell<Vec<u8>>>,
}

impl TreeBlock for MemoryBlock {
    fn bytes(&self) -> impl Deref<Target = [u8]> {
        Ref::map(self.content.borrow(), Vec::as_slice)
    }
}

/// The blocks and the root of one btree.
pub(crate) struct MemoryStore {
    geometry: Geometry,
    kind: BtreeKind,
    blocks: BTreeMap<DiskAddr, MemoryBlock>,
    given_back: Vec<u64>,
    next: u64,
    /// Blocks below this one are not allocated again.
    lowest: u64,
    pub(crate) root: BtreeRoot,
    pub(crate) fork: Option<ForkRoot>,
    /// Number of blocks read.
    pub(crate) reads: Cell<usize>,
    /// The changes made: the address of the block, and the range of bytes in it.
    pub(crate) changes: Vec<(DiskAddr, Range<usize>)>,
    /// Blocks that have not been read since the btree was damaged; `None` while the btree is
    /// undamaged. In a damaged btree, a violated rule may come from the damage and not from a bug
    /// of the editor, so it is an error and not a panic.
    unread: Option<RefCell<BTreeSet<DiskAddr>>>,
}

impl MemoryStore {
    /// Creates the store of an empty btree of a group.
    pub(crate) fn new(geometry: Geometry, kind: BtreeKind) -> Self {
        let mut store = Self::without_blocks(geometry, kind);
        store.add_leaf();
        store
    }

    fn without_blocks(geometry: Geometry, kind: BtreeKind) -> Self {
        let root = BtreeRoot { block: AgBlock(FIRST_BLOCK as u32), levels: 1 };
        Self {
            geometry,
            kind,
            blocks: BTreeMap::new(),
            given_back: Vec::new(),
            next: FIRST_BLOCK,
            lowest: 0,
            root,
            fork: None,
            reads: Cell::new(0),
            changes: Vec::new(),
            unread: None,
        }
    }

    /// Changes bytes of a random block. From then on all blocks count as not read yet, so that the
    /// next read verifies them.
    pub(crate) fn damage(&mut self, random: &mut Prng) {
        let index = random.within(0..self.blocks.len());
        let (_, block) = self.blocks.iter().nth(index).expect("a btree has a block");
        random.mutate(&mut block.content.borrow_mut());
        self.unread = Some(RefCell::new(self.blocks.keys().copied().collect()));
    }

    /// Checks a condition that holds in every undamaged btree. If the condition does not hold,
    /// returns an error if a test has damaged the btree, and panics otherwise.
    fn expect(&self, holds: bool, at: DiskAddr) -> Result<()> {
        assert!(holds || self.unread.is_some(), "the editor broke a rule at {at}");
        if holds { Ok(()) } else { Err(corrupt(at, BtreeCheck::Outside).into()) }
    }

    /// Verifies a block as the buffer cache does: at its first read from disk and never again.
    fn verify(&self, at: DiskAddr, block: &MemoryBlock) -> Result<()> {
        let Some(unread) = &self.unread else { return Ok(()) };
        if !unread.borrow_mut().remove(&at) {
            return Ok(());
        }
        let kind = BlockKind::Btree(self.kind);
        // The damage may carry a correct checksum.
        kind.seal(&mut block.content.borrow_mut(), Lsn(0));
        let context = VerifyContext { geometry: &self.geometry, log_head: None };
        Ok(kind.verify(&block.content.borrow(), at, &context)?)
    }

    /// Creates the store of the btree of a fork whose extents were a list in the inode before.
    pub(crate) fn of_fork(geometry: Geometry, extents: &[Extent], capacity: usize) -> Self {
        let mut store = Self::without_blocks(geometry, BtreeKind::Extent);
        store.fork = Some(ForkRoot::build(&mut store, INODE, extents, capacity).unwrap());
        store
    }

    fn owner(&self) -> u64 {
        match self.kind {
            BtreeKind::Extent => INODE.0,
            _ => GROUP.0.into(),
        }
    }

    fn add_leaf(&mut self) {
        let number = self.allocate(0).unwrap();
        let address = self.disk_addr(number);
        let block = self.claim(address, self.kind).unwrap();
        let identity = BtreeIdentity { kind: self.kind, owner: self.owner(), address };
        let header = BtreeHeader { identity, level: 0, count: 0, left: None, right: None };
        header.encode(&self.geometry, &mut block.content.borrow_mut());
    }

    fn disk_addr(&self, number: u64) -> DiskAddr {
        match self.kind.layout().form {
            PointerForm::Short => self.geometry.ag_block_disk_addr(GROUP, AgBlock(number as u32)),
            PointerForm::Long => self.geometry.block_disk_addr(FsBlock(number)).unwrap(),
        }
    }

    /// Returns the number of a block above all blocks of the btree. From then on no lower block is
    /// allocated.
    pub(crate) fn leave_blocks_behind(&mut self) -> u64 {
        self.lowest = self.next;
        self.lowest
    }

    /// Returns the number of blocks in the btree.
    pub(crate) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the ranges of bytes written since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<(DiskAddr, Range<usize>)> {
        std::mem::take(&mut self.changes)
    }

    /// Checks the whole btree: it holds the records `expected`, and every block obeys all rules.
    pub(crate) fn check<F: BtreeFormat>(&self, expected: &[F::Record]) {
        let mut walk = Walk::<F> { store: self, leaves: Vec::new(), levels: BTreeMap::new() };
        match &self.fork {
            None => {
                walk.visit(self.root.block.0.into(), self.root.levels - 1, true);
            }
            Some(root) => {
                assert!(root.children.len() <= root.capacity);
                for (key, child) in &root.children {
                    let is_only = root.children.len() == 1;
                    let range = walk.visit(child.0, u32::from(root.level) - 1, is_only);
                    if let Some((low, _)) = range {
                        assert_eq!(low[..8], key.0.to_be_bytes(), "key in the inode");
                    }
                }
            }
        }
        assert_eq!(walk.leaves, expected);
        let visited: usize = walk.levels.values().map(Vec::len).sum();
        assert_eq!(visited, self.blocks.len(), "blocks that nothing points to");
        for numbers in walk.levels.values() {
            self.check_siblings(numbers);
        }
    }

    fn check_siblings(&self, numbers: &[u64]) {
        for (index, &number) in numbers.iter().enumerate() {
            let at = self.disk_addr(number);
            let bytes = self.blocks[&at].content.borrow();
            let block = BtreeBlock::decode(&bytes, self.kind, at).unwrap();
            let left = index.checked_sub(1).map(|before| numbers[before]);
            assert_eq!(block.left_sibling(), left, "left of {number}");
            assert_eq!(block.right_sibling(), numbers.get(index + 1).copied());
        }
    }
}

impl Source for MemoryStore {
    type Block = MemoryBlock;

    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read_block(&self, at: DiskAddr, kind: BtreeKind) -> Result<MemoryBlock> {
        assert_eq!(kind, self.kind);
        self.reads.set(self.reads.get() + 1);
        let found = self.blocks.get(&at);
        self.expect(found.is_some(), at)?;
        let block = found.expect("presence was checked above");
        self.verify(at, block)?;
        Ok(block.clone())
    }
}

impl BtreeStore for MemoryStore {
    fn change(
        &mut self,
        block: &MemoryBlock,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        change(&mut block.content.borrow_mut()[range.clone()]);
        self.expect(self.blocks.contains_key(&block.at), block.at)?;
        self.changes.push((block.at, range));
        Ok(())
    }

    fn allocate(&mut self, _near: u64) -> Result<u64> {
        let lowest = self.lowest;
        self.given_back.retain(|number| *number >= lowest);
        Ok(self.given_back.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        }))
    }

    fn claim(&mut self, at: DiskAddr, kind: BtreeKind) -> Result<MemoryBlock> {
        assert_eq!(kind, self.kind);
        let bytes = vec![0; self.geometry.block_size as usize];
        let block = MemoryBlock { at, content: Rc::new(RefCell::new(bytes)) };
        assert!(self.blocks.insert(at, block.clone()).is_none(), "allocated twice");
        Ok(block)
    }

    fn free(&mut self, number: u64, block: &MemoryBlock) -> Result<()> {
        let removed = self.blocks.remove(&self.disk_addr(number));
        let is_own = removed.is_some_and(|removed| Rc::ptr_eq(&removed.content, &block.content));
        self.given_back.push(number);
        self.expect(is_own, block.at)
    }

    fn set_root(&mut self, root: Root<'_>) -> Result<()> {
        match root {
            Root::Block(root) => self.root = root,
            Root::Fork(root) => self.fork = Some(root.clone()),
            Root::Tree(_) => unreachable!("these tests edit no btree of a realtime group"),
        }
        Ok(())
    }
}

/// The low and high keys of everything below a block, as a node holds them.
type Keys = (Vec<u8>, Vec<u8>);

struct Walk<'a, F: BtreeFormat> {
    store: &'a MemoryStore,
    leaves: Vec<F::Record>,
    /// Block numbers of each level, from left to right; the key is the level.
    levels: BTreeMap<u32, Vec<u64>>,
}

impl<F: BtreeFormat> Walk<'_, F> {
    fn visit(&mut self, number: u64, level: u32, may_be_few: bool) -> Option<Keys> {
        let at = self.store.disk_addr(number);
        let geometry = &self.store.geometry;
        let mut bytes = self.store.blocks[&at].content.borrow().clone();
        let kind = BlockKind::Btree(F::KIND);
        kind.seal(&mut bytes, Lsn(0));
        kind.verify(&bytes, at, &VerifyContext { geometry, log_head: None }).unwrap();
        self.levels.entry(level).or_default().push(number);
        let block = BtreeBlock::decode(&bytes, F::KIND, at).unwrap();
        assert_eq!((block.level(), block.owner()), (level, Some(self.store.owner())));
        let min = F::KIND.layout().min_entries(level, geometry.block_size);
        assert!(may_be_few || block.count() >= min, "I1: {} entries", block.count());
        if level == 0 {
            return self.visit_records(&block);
        }
        assert!(block.count() > 1, "I1: a node with an only child");
        let (mut low, mut high) = (None, None);
        for index in 0..block.count() {
            let child = block.pointer(index).unwrap();
            let (child_low, child_high) = self.visit(child, level - 1, false).unwrap();
            assert_eq!(block.key(index).unwrap(), child_low, "I2: key {index} of {number}");
            if let Some(found) = block.high_key(index) {
                assert_eq!(found, child_high, "I2: high key {index} of {number}");
            }
            low.get_or_insert(child_low);
            high = highest::<F>(high, child_high);
        }
        low.zip(high)
    }

    fn visit_records(&mut self, block: &BtreeBlock<'_>) -> Option<Keys> {
        let layout = F::KIND.layout();
        let group = Group::new(&self.store.geometry, GROUP).unwrap();
        let (mut low, mut high) = (None, None);
        for bytes in block.records() {
            let record = F::decode_record(bytes, &group).unwrap();
            self.leaves.push(record);
            let mut keys = vec![0; layout.node_key_bytes()];
            F::encode_key(&record, &mut keys);
            let (record_low, record_high) = keys.split_at(layout.key_bytes);
            low.get_or_insert(record_low.to_vec());
            high = highest::<F>(high, record_high.to_vec());
        }
        low.zip(high)
    }
}

fn highest<F: BtreeFormat>(known: Option<Vec<u8>>, other: Vec<u8>) -> Option<Vec<u8>> {
    let is_higher = known.as_ref().is_none_or(|known| F::decode_key(&other) > F::decode_key(known));
    if is_higher { Some(other) } else { known }
}
