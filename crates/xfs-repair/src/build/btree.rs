//! The bulk loader: sorted records in, a whole btree out.
//!
//! Owns: the shape of the btree, its keys, siblings and sealed blocks. Does **not** own: where the
//! blocks lie, which the caller decides, or the header or inode that has the pointer to the root.
//!
//! Leaves and nodes are filled to three quarters, so that the next changes do not split every
//! block. The entries of a level are spread evenly. Each block then has at least half of the
//! entries that fit, which is what the format asks for.

use std::marker::PhantomData;

use xfs_format::btree::{
    BtreeFormat, BtreeHeader, BtreeIdentity, BtreeLayout, Extents, PointerForm,
};
use xfs_format::extent::Extent;
use xfs_format::realtime::MetadataRootLayout;
use xfs_format::{
    AgBlock, BlockKind, DiskAddr, FileBlock, FsBlock, Geometry, Group, InodeNumber, Lsn,
};

/// A sealed block (with checksum) and its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuiltBlock {
    /// The address of the block.
    pub(crate) at: DiskAddr,
    /// The bytes, with LSN and checksum.
    pub(crate) bytes: Vec<u8>,
}

/// A btree of an allocation group.
#[derive(Clone, Debug)]
pub(crate) struct BuiltTree {
    /// The root block.
    pub(crate) root: AgBlock,
    /// The number of levels.
    pub(crate) levels: u32,
    /// The blocks of the btree.
    pub(crate) blocks: Vec<BuiltBlock>,
}

/// The btree of a fork. Its root lies in the inode.
#[derive(Clone, Debug)]
pub(crate) struct BuiltFork {
    /// The level of the root.
    pub(crate) level: u16,
    /// The children of the root: for each, its first file block and its block number.
    pub(crate) children: Vec<(FileBlock, FsBlock)>,
    /// The blocks below the root.
    pub(crate) blocks: Vec<BuiltBlock>,
}

/// Returns the number of blocks of an allocation group's btree with `records` records. Its root is
/// one of these blocks.
pub(crate) fn count_blocks<F: BtreeFormat>(records: usize, geometry: &Geometry) -> usize {
    blocks_below::<F>(records, 1, geometry)
}

/// Returns the number of levels of an allocation group's btree with `records` records.
pub(crate) fn count_levels<F: BtreeFormat>(records: usize, geometry: &Geometry) -> u32 {
    let layout = F::KIND.layout();
    let mut level_blocks = count_level(records, 0, layout, geometry);
    let mut levels = 1;
    while level_blocks > 1 {
        level_blocks = count_level(level_blocks, levels, layout, geometry);
        levels += 1;
    }
    levels
}

/// Returns the number of blocks of a fork's btree with `records` records. Its root lies in the
/// inode, holds up to `capacity` children, and is not counted.
pub(crate) fn count_fork_blocks(records: usize, capacity: usize, geometry: &Geometry) -> usize {
    blocks_below::<Extents>(records, capacity, geometry)
}

/// Returns the number of blocks outside of the inode that a btree of a realtime group needs for
/// `records` records. The root lies in the inode and holds the records if they fit.
pub(crate) fn count_section_blocks<F: BtreeFormat>(
    records: usize,
    root: MetadataRootLayout,
    geometry: &Geometry,
) -> usize {
    if records <= root.capacity(0) {
        0
    } else {
        blocks_below::<F>(records, root.capacity(1), geometry)
    }
}

fn blocks_below<F: BtreeFormat>(records: usize, capacity: usize, geometry: &Geometry) -> usize {
    let layout = F::KIND.layout();
    let mut level_blocks = count_level(records, 0, layout, geometry);
    let mut blocks = level_blocks;
    let mut level = 1;
    while level_blocks > capacity {
        level_blocks = count_level(level_blocks, level, layout, geometry);
        blocks += level_blocks;
        level += 1;
    }
    blocks
}

/// Returns the number of blocks of a level with this number of entries. An empty btree has one
/// leaf.
fn count_level(entries: usize, level: u32, layout: &BtreeLayout, geometry: &Geometry) -> usize {
    let most = layout.max_entries(level, geometry.block_size);
    if entries <= most {
        return 1;
    }
    entries.div_ceil((most * 3 / 4).max(1))
}

/// Builds a btree of a group from sorted records. Takes as many of `blocks` as
/// [`count_blocks`] says, in order.
///
/// # Panics
///
/// Panics if there are too few blocks: a mistake of the caller.
pub(crate) fn build<F: BtreeFormat>(
    group: &Group<'_>,
    lsn: Lsn,
    records: &[F::Record],
    blocks: &[AgBlock],
) -> BuiltTree {
    let numbers = blocks.iter().map(|block| u64::from(block.0));
    let owner = TreeOwner { group: *group, owner: group.number().0.into(), lsn };
    let levels = Loader::<F, _>::new(owner, numbers).load(records, 1);
    BuiltTree {
        root: AgBlock(u32::try_from(levels.last).expect("the caller passed blocks of 32 bits")),
        levels: levels.count,
        blocks: levels.blocks,
    }
}

/// Builds the btree of a fork from extents in file order. `capacity` is the largest number of
/// children that the root in the inode can hold. Takes as many of `blocks` as [`count_fork_blocks`]
/// says, in order.
///
/// # Panics
///
/// Panics if there are too few blocks: a mistake of the caller.
pub(crate) fn build_fork(
    group: &Group<'_>,
    inode: InodeNumber,
    extents: &[Extent],
    capacity: usize,
    blocks: &[FsBlock],
) -> BuiltFork {
    let owner = TreeOwner { group: *group, owner: inode.0, lsn: Lsn(0) };
    let numbers = blocks.iter().map(|block| block.0);
    let levels = Loader::<Extents, _>::new(owner, numbers).load(extents, capacity);
    BuiltFork {
        level: u16::try_from(levels.count).expect("a btree has few levels"),
        children: levels
            .top
            .iter()
            .map(|child| (child.first.file_block, FsBlock(child.pointer)))
            .collect(),
        blocks: levels.blocks,
    }
}

/// A btree of a realtime group. Its root lies in the inode.
#[derive(Clone, Debug)]
pub(crate) struct BuiltSection {
    /// The bytes of the data fork, which hold the root.
    pub(crate) fork: Vec<u8>,
    /// The blocks below the root.
    pub(crate) blocks: Vec<BuiltBlock>,
}

/// Builds a btree of a realtime group from sorted records, with the root in the metadata inode
/// `inode`. Takes as many of `blocks` as [`count_section_blocks`] says, in order.
///
/// # Panics
///
/// Panics if there are too few blocks: a mistake of the caller.
pub(crate) fn build_section<F: BtreeFormat>(
    group: &Group<'_>,
    inode: InodeNumber,
    records: &[F::Record],
    root: MetadataRootLayout,
    blocks: &[FsBlock],
) -> BuiltSection {
    let geometry = group.geometry();
    let mut block = vec![0; geometry.block_size as usize];
    let mut fork = vec![0; root.fork_bytes];
    if records.len() <= root.capacity(0) {
        let entries: Vec<_> = records.iter().map(leaf_entry).collect();
        put_records::<F>(&entries, geometry, &mut block);
        root.pack(0, entries.len(), &block, &mut fork);
        return BuiltSection { fork, blocks: Vec::new() };
    }
    let owner = TreeOwner { group: *group, owner: inode.0, lsn: Lsn(0) };
    let numbers = blocks.iter().map(|block| block.0);
    let levels = Loader::<F, _>::new(owner, numbers).load(records, root.capacity(1));
    put_children::<F>(&levels.top, geometry, &mut block);
    root.pack(levels.count, levels.top.len(), &block, &mut fork);
    BuiltSection { fork, blocks: levels.blocks }
}

const fn leaf_entry<R: Copy>(record: &R) -> Entry<R> {
    Entry { first: *record, highest: *record, pointer: 0 }
}

/// The owner and the LSN that the headers of the new blocks of a btree get.
struct TreeOwner<'a> {
    /// The group of the btree. For the btree of a fork, any group of the volume: only its geometry
    /// is used.
    group: Group<'a>,
    owner: u64,
    lsn: Lsn,
}

/// An entry of a block: in a leaf a record, and in a node a finished child.
#[derive(Clone, Copy)]
struct Entry<R> {
    /// The first record below the entry; in a leaf, the record itself.
    first: R,
    /// The record with the highest high key below the entry; in a leaf, the record itself.
    highest: R,
    /// The block number of the child. It has no meaning in an entry of a leaf.
    pointer: u64,
}

/// The levels of a btree that are already built.
struct Levels<R> {
    /// An entry for each block of the highest level.
    top: Vec<Entry<R>>,
    /// The block number of the last block that was used. That block is the root if the highest
    /// level has only one block.
    last: u64,
    count: u32,
    blocks: Vec<BuiltBlock>,
}

/// A btree that is being built.
struct Loader<'a, F: BtreeFormat, I> {
    owner: TreeOwner<'a>,
    numbers: I,
    last: u64,
    blocks: Vec<BuiltBlock>,
    format: PhantomData<F>,
}

impl<'a, F: BtreeFormat, I: Iterator<Item = u64>> Loader<'a, F, I> {
    const fn new(owner: TreeOwner<'a>, numbers: I) -> Self {
        Self { owner, numbers, last: 0, blocks: Vec::new(), format: PhantomData }
    }

    /// Builds the levels of the btree from the leaves upwards, until a level has at most `capacity`
    /// blocks.
    fn load(mut self, records: &[F::Record], capacity: usize) -> Levels<F::Record> {
        let entries: Vec<_> = records.iter().map(leaf_entry).collect();
        let mut top = self.level(&entries, 0);
        let mut count = 1;
        while top.len() > capacity {
            top = self.level(&top, count);
            count += 1;
        }
        Levels { top, last: self.last, count, blocks: self.blocks }
    }

    fn next_number(&mut self) -> u64 {
        self.last = self.numbers.next().expect("the caller passed as many blocks as were counted");
        self.last
    }

    fn geometry(&self) -> &'a Geometry {
        self.owner.group.geometry()
    }

    fn address(&self, pointer: u64) -> DiskAddr {
        match F::KIND.layout().form {
            PointerForm::Short => {
                let block = AgBlock(u32::try_from(pointer).expect("a block of a group"));
                self.geometry().ag_block_disk_addr(self.owner.group.number(), block)
            }
            PointerForm::Long => {
                let at = self.geometry().block_disk_addr(FsBlock(pointer));
                at.expect("the caller passed blocks of the volume")
            }
        }
    }

    /// Builds one level of blocks from sorted entries. Returns an entry for each block. Without
    /// entries, builds one empty leaf.
    fn level(&mut self, entries: &[Entry<F::Record>], level: u32) -> Vec<Entry<F::Record>> {
        let count = count_level(entries.len(), level, F::KIND.layout(), self.geometry());
        let numbers: Vec<u64> = (0..count).map(|_| self.next_number()).collect();
        let (share, more) = (entries.len() / count, entries.len() % count);
        let mut rest = entries;
        let mut built = Vec::with_capacity(count);
        for (index, pointer) in numbers.iter().enumerate() {
            let length = share + usize::from(index < more);
            let (part, after) = rest.split_at_checked(length).expect("the shares add up");
            rest = after;
            let left = index.checked_sub(1).and_then(|left| numbers.get(left)).copied();
            let right = numbers.get(index + 1).copied();
            let header = BtreeHeader {
                identity: BtreeIdentity {
                    kind: F::KIND,
                    owner: self.owner.owner,
                    address: self.address(*pointer),
                },
                level: u16::try_from(level).expect("a btree has few levels"),
                count: u16::try_from(part.len()).expect("a block has fewer than 2^16 entries"),
                left,
                right,
            };
            self.push(&header, part);
            built.extend(joined::<F>(part, *pointer));
        }
        built
    }

    fn push(&mut self, header: &BtreeHeader, entries: &[Entry<F::Record>]) {
        let geometry = self.geometry();
        let mut bytes = vec![0; geometry.block_size as usize];
        header.encode(geometry, &mut bytes);
        match header.level {
            0 => put_records::<F>(entries, geometry, &mut bytes),
            _ => put_children::<F>(entries, geometry, &mut bytes),
        }
        BlockKind::Btree(F::KIND).seal(&mut bytes, self.owner.lsn);
        self.blocks.push(BuiltBlock { at: header.identity.address, bytes });
    }
}

/// Returns the entry by which a parent points to a finished block: `pointer` is the number of the
/// block, and `entries` are its entries. `None` for an empty leaf.
fn joined<F: BtreeFormat>(entries: &[Entry<F::Record>], pointer: u64) -> Option<Entry<F::Record>> {
    let first = entries.first()?.first;
    let highest = entries.iter().max_by_key(|entry| F::high_key(&entry.highest))?.highest;
    Some(Entry { first, highest, pointer })
}

fn put_records<F: BtreeFormat>(
    entries: &[Entry<F::Record>],
    geometry: &Geometry,
    block: &mut [u8],
) {
    let layout = F::KIND.layout();
    let room = block.get_mut(layout.header_bytes()..).expect("a block is longer than its header");
    for (entry, slot) in entries.iter().zip(room.chunks_exact_mut(layout.record_bytes)) {
        F::encode_record(&entry.first, geometry, slot);
    }
}

fn put_children<F: BtreeFormat>(
    entries: &[Entry<F::Record>],
    geometry: &Geometry,
    block: &mut [u8],
) {
    let layout = F::KIND.layout();
    let (front, pointers) = block.split_at_mut(layout.pointers_offset(geometry.block_size));
    let keys = front.get_mut(layout.header_bytes()..).expect("keys follow the header");
    let mut highest = vec![0; layout.node_key_bytes()];
    let slots = keys
        .chunks_exact_mut(layout.node_key_bytes())
        .zip(pointers.chunks_exact_mut(layout.pointer_bytes()));
    for (entry, (key, pointer)) in entries.iter().zip(slots) {
        F::encode_key(&entry.first, key);
        // The high key is that of the highest record below the child, not of its first one.
        F::encode_key(&entry.highest, &mut highest);
        for (target, source) in key.iter_mut().zip(&highest).skip(layout.key_bytes) {
            *target = *source;
        }
        let encoded = layout.encode_pointer(Some(entry.pointer));
        for (target, source) in pointer.iter_mut().zip(encoded) {
            *target = source;
        }
    }
}

#[cfg(test)]
mod tests;
