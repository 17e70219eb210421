//! Builder of the name hash btree that directories and attribute forks share.
//!
//! Owns: nodes, sibling pointers, and the place of each block in the fork. Does **not** own: the
//! contents of the leaves.
//!
//! # Invariants
//!
//! - **I1** The root gets the first of the file blocks that the caller offers. All other blocks get
//!   the next ones, in the caller's order: leaves first, then each level of nodes.
//! - **I2** Entries are spread evenly over the blocks of a level, so that no block is nearly empty.

use uuid::Uuid;
use xfs_format::dabtree::{DaHeaderDisk, MAX_DEPTH, NODE_MAGIC, NodeEntryDisk, NodeHeaderDisk};
use xfs_format::{BlockKind, FileBlock, InodeNumber};
use zerocopy::{FromBytes, IntoBytes};

use super::blocks::NewBlock;

/// Properties that all blocks of one tree share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeIdentity {
    /// The inode to which the tree belongs.
    pub(crate) owner: InodeNumber,
    /// The UUID of the volume's metadata.
    pub(crate) uuid: Uuid,
    /// The length of a block in bytes.
    pub(crate) block_bytes: usize,
    /// The kind of the blocks: those of a directory's index, or of an attribute fork.
    pub(crate) kind: BlockKind,
}

impl TreeIdentity {
    /// Returns the common header of a block with this magic number, without siblings.
    pub(crate) fn header(&self, magic: u16) -> DaHeaderDisk {
        DaHeaderDisk {
            forward: 0.into(),
            back: 0.into(),
            magic: magic.into(),
            pad: 0.into(),
            crc: [0; 4],
            block: 0.into(),
            lsn: 0.into(),
            uuid: self.uuid.into_bytes(),
            owner: self.owner.0.into(),
        }
    }
}

/// A finished block of the tree, a leaf or a node, with the highest hash in it.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// The bytes of the block.
    pub(crate) bytes: Vec<u8>,
    /// The highest hash of the block's entries.
    pub(crate) last_hash: u32,
}

/// Splits `items` into as few parts as `capacity` allows, all of about the same length (I2).
pub(crate) fn spread<T>(items: &[T], capacity: usize) -> std::slice::Chunks<'_, T> {
    let parts = items.len().div_ceil(capacity).max(1);
    items.chunks(items.len().div_ceil(parts).max(1))
}

/// Builds the nodes above `leaves`. Assigns the blocks of the fork in `places` to the leaves and
/// nodes (I1). Returns `None` if `places` has too few blocks, or if the tree would be too high.
pub(crate) fn assemble(
    leaves: Vec<Branch>,
    tree: &TreeIdentity,
    places: &mut dyn Iterator<Item = FileBlock>,
) -> Option<Vec<NewBlock>> {
    let root = places.next()?;
    let mut blocks = Vec::new();
    let (mut row, mut level) = (leaves, 0_u16);
    while row.len() > 1 {
        level += 1;
        if level > MAX_DEPTH {
            return None;
        }
        let row_places: Vec<FileBlock> = places.take(row.len()).collect();
        if row_places.len() < row.len() {
            return None;
        }
        link(&mut row, &row_places)?;
        let children = children(&row, &row_places)?;
        blocks.extend(row.into_iter().zip(row_places).map(|(branch, file_block)| NewBlock {
            file_block,
            kind: tree.kind,
            bytes: branch.bytes,
        }));
        let capacity =
            (tree.block_bytes - size_of::<NodeHeaderDisk>()) / size_of::<NodeEntryDisk>();
        row = spread(&children, capacity).map(|entries| node(entries, level, tree)).collect();
    }
    let root_branch = row.pop()?;
    blocks.push(NewBlock { file_block: root, kind: tree.kind, bytes: root_branch.bytes });
    blocks.sort_by_key(|block| block.file_block);
    Some(blocks)
}

/// Stores in each block of one level the numbers of its left and right siblings. Returns `None` if
/// a number does not fit in 32 bits.
fn link(row: &mut [Branch], places: &[FileBlock]) -> Option<()> {
    let number =
        |place: Option<&FileBlock>| place.map_or(Some(0), |place| u32::try_from(place.0).ok());
    for (index, branch) in row.iter_mut().enumerate() {
        let (header, _) = DaHeaderDisk::mut_from_prefix(&mut branch.bytes).ok()?;
        header.back = number(index.checked_sub(1).and_then(|before| places.get(before)))?.into();
        header.forward = number(places.get(index + 1))?.into();
    }
    Some(())
}

/// Returns the entries for the nodes of the next higher level, one for each block of this level.
/// `None` if a block number does not fit in 32 bits.
fn children(row: &[Branch], places: &[FileBlock]) -> Option<Vec<NodeEntryDisk>> {
    let entry = |(branch, place): (&Branch, &FileBlock)| {
        let before = u32::try_from(place.0).ok()?;
        Some(NodeEntryDisk { hash: branch.last_hash.into(), before: before.into() })
    };
    row.iter().zip(places).map(entry).collect()
}

fn node(entries: &[NodeEntryDisk], level: u16, tree: &TreeIdentity) -> Branch {
    let count = u16::try_from(entries.len()).expect("the entries of a node fit its block");
    let header = NodeHeaderDisk {
        header: tree.header(NODE_MAGIC),
        count: count.into(),
        level: level.into(),
        pad: 0.into(),
    };
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(entries.as_bytes());
    bytes.resize(tree.block_bytes, 0);
    let last_hash = entries.last().map_or(0, |entry| entry.hash.get());
    Branch { bytes, last_hash }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;
    use xfs_format::dabtree::NodeHeaderDisk;
    use xfs_format::{BlockKind, FileBlock, InodeNumber};
    use zerocopy::FromBytes;

    use super::{Branch, TreeIdentity, assemble};

    /// Builds a tree over nine leaves, with four entries in a node, and reads the header of each
    /// node. Checks that the root has the first file block, and that the leaves and then the nodes
    /// of level 1 follow (I1). Checks that the entries for the nine leaves are spread over three
    /// nodes (I2).
    #[test]
    fn tree_of_three_levels_has_its_places_in_order_and_even_nodes() {
        let tree = TreeIdentity {
            owner: InodeNumber(131),
            uuid: Uuid::nil(),
            block_bytes: size_of::<NodeHeaderDisk>() + 4 * 8,
            kind: BlockKind::DirectoryIndex,
        };
        let leaf =
            |hash: u8| Branch { bytes: vec![hash; tree.block_bytes], last_hash: hash.into() };
        let leaves: Vec<Branch> = (1..=9).map(leaf).collect();
        let blocks = assemble(leaves, &tree, &mut (100..).map(FileBlock)).unwrap();
        let places: Vec<u64> = blocks.iter().map(|block| block.file_block.0).collect();
        assert_eq!(places, (100..=112).collect::<Vec<u64>>());
        let marks: Vec<u8> =
            blocks.iter().skip(1).take(9).map(|leaf| *leaf.bytes.last().unwrap()).collect();
        assert_eq!(marks, (1..=9).collect::<Vec<u8>>());
        let node = |bytes: &[u8]| {
            let (header, _) = NodeHeaderDisk::read_from_prefix(bytes).unwrap();
            (header.level.get(), header.count.get())
        };
        assert_eq!(node(&blocks.first().unwrap().bytes), (2, 3));
        let nodes: Vec<_> = blocks.iter().skip(10).map(|block| node(&block.bytes)).collect();
        assert_eq!(nodes, [(1, 3); 3]);
    }
}
