//! New contents of a fork: records in the inode, or a btree.
//!
//! Owns: the form of a fork, its counts, and the blocks of its btree. Does **not** own: which
//! contents are right.

use std::collections::HashSet;

use xfs_evidence::{ForkEvidence, InodeEvidence};
use xfs_format::btree::BtreeFormat;
use xfs_format::extent::{
    EXTENT_BYTES, EXTENT_ROOT_HEADER_BYTES, Extent, ExtentRoot, MAX_EXTENT_BLOCKS,
    encode_extent_root,
};
use xfs_format::inode::{self, ForkFormat, ForkKind, InodeCore};
use xfs_format::realtime::MetadataRootLayout;
use xfs_format::{AgNumber, FsBlock, Group, InodeNumber};
use zerocopy::IntoBytes;

use crate::build::btree;
use crate::error::RepairError;
use crate::patient::Patient;

/// New contents of a fork.
#[derive(Clone, Debug)]
pub(crate) enum ForkContents {
    /// The bytes that lie in the inode.
    Local(Vec<u8>),
    /// Extents in the order of the file. They become records in the inode if they fit, and a btree
    /// otherwise.
    Extents(Vec<Extent>),
}

/// Length of the core of an inode in bytes.
const CORE_BYTES: usize = size_of::<xfs_format::inode::InodeDisk>();

/// Length in bytes of the entry of one child (a key and a pointer) in the root of an extent btree.
const ROOT_ENTRY_BYTES: usize = 16;

/// Length in bytes of the unit in which an inode stores the offset of its attribute fork.
const OFFSET_UNIT: usize = 8;

impl Patient<'_> {
    /// Returns the number of bytes that a fork has in its inode. For an attribute fork that does
    /// not exist yet, this is the length with which [`set_fork`](Self::set_fork) creates it.
    ///
    /// # Panics
    ///
    /// Panics if the inode cannot be decoded: the caller must have checked it.
    pub(crate) fn fork_room(&self, number: InodeNumber, kind: ForkKind) -> usize {
        let found = self.evidence().inode(number);
        let core = found.any_core().expect("the inode can be decoded");
        if kind == ForkKind::Attr && !core.has_attr_fork() {
            let offset = usize::from(new_fork_offset(&found, core)) * OFFSET_UNIT;
            return found.bytes.len() - CORE_BYTES - offset;
        }
        found.fork(kind).len()
    }

    /// Gives a fork new contents: writes format, extent count, block count and, if extents do not
    /// fit the inode, a new extent btree. Size and times stay. Blocks that the fork no longer maps
    /// become free, and their groups are marked for a rebuild of the space btrees. The number of
    /// bytes that the fork has in the inode does not change. An inode without an attribute fork
    /// gets one if `kind` is the attribute fork.
    ///
    /// # Errors
    ///
    /// [`RepairError::NoSpace`] if a btree is needed and too few blocks are free.
    ///
    /// # Panics
    ///
    /// Panics if the inode cannot be decoded, or if local contents do not fit
    /// [`fork_room`](Self::fork_room): mistakes of the caller.
    pub(crate) fn set_fork(
        &mut self,
        number: InodeNumber,
        kind: ForkKind,
        contents: ForkContents,
    ) -> Result<(), RepairError> {
        let contents = match contents {
            ForkContents::Extents(extents) => ForkContents::Extents(cut(&extents)),
            local @ ForkContents::Local(_) => local,
        };
        let found = self.evidence().inode(number);
        let mut core = found.any_core().expect("the inode can be decoded").clone();
        let old = self.evidence().extents(&found, kind);
        let other = match kind {
            ForkKind::Data => ForkKind::Attr,
            ForkKind::Attr => ForkKind::Data,
        };
        let other = self.evidence().extents(&found, other);
        let mut bytes = found.bytes.clone();
        if kind == ForkKind::Attr && !core.has_attr_fork() {
            core.fork_offset = new_fork_offset(&found, &core);
            shrink_root(&found, &core, &mut bytes);
        }
        let room = inode::fork(&bytes, &core, kind).len();
        let mut fork = vec![0; room];
        let mut new_blocks = Vec::new();
        let (format, extents) = match &contents {
            ForkContents::Local(local) => {
                let target = fork.get_mut(..local.len()).expect("local contents fit the fork");
                target.copy_from_slice(local);
                (ForkFormat::Local, &[][..])
            }
            ForkContents::Extents(extents) if extents.len() * EXTENT_BYTES <= room => {
                put_extents(extents, &mut fork);
                (ForkFormat::Extents, extents.as_slice())
            }
            ForkContents::Extents(extents) => {
                new_blocks = self.put_tree(number, extents, &old, &mut fork)?;
                (ForkFormat::Btree, extents.as_slice())
            }
        };
        let is_realtime = kind == ForkKind::Data && core.is_realtime();
        self.mark_changes(&old, if is_realtime { None } else { Some(extents) }, &new_blocks);
        let count = extents.len();
        match kind {
            ForkKind::Data => {
                (core.data_format, core.extents) = (format, count as u64);
            }
            ForkKind::Attr => {
                let count = u32::try_from(count).expect("an attribute fork has few extents");
                (core.attr_format, core.attr_extents) = (format, count);
            }
        }
        core.blocks =
            blocks_of(extents, &new_blocks) + blocks_of(&other.extents, &other.tree_blocks);
        replace_fork(&mut bytes, &core, kind, &fork);
        self.write_inode(&core, &bytes)
    }

    /// Writes a btree of records of a realtime group, with its root in the data fork of a metadata
    /// inode. Takes the blocks of the old btree first. The groups of blocks that the btree gives up
    /// or gets are marked for a rebuild of the space btrees.
    ///
    /// # Errors
    ///
    /// [`RepairError::NoSpace`] if too few blocks are free.
    ///
    /// # Panics
    ///
    /// Panics if the inode cannot be decoded: the caller must have checked it.
    pub(crate) fn set_records<F: BtreeFormat>(
        &mut self,
        number: InodeNumber,
        records: &[F::Record],
    ) -> Result<(), RepairError> {
        let found = self.evidence().inode(number);
        let mut core = found.any_core().expect("the inode can be decoded").clone();
        let old = match core.data_format {
            ForkFormat::MetadataBtree => self.evidence().realtime_tree_blocks(&found).tree_blocks,
            _ => Vec::new(),
        };
        let other = self.evidence().extents(&found, ForkKind::Attr);
        let root =
            MetadataRootLayout { kind: F::KIND, fork_bytes: found.fork(ForkKind::Data).len() };
        let count = btree::count_section_blocks::<F>(records.len(), root, self.geometry());
        let mut blocks: Vec<FsBlock> = old.iter().copied().take(count).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let missing = u32::try_from(count - blocks.len()).expect("a btree has few blocks");
        if missing > 0 {
            let near = self.geometry().split_inode(number).map_or(AgNumber(0), |(group, _)| group);
            blocks.extend(self.take_blocks(near, missing)?);
        }
        let group = Group::new(self.geometry(), AgNumber(0)).expect("a volume has a first group");
        let built = btree::build_section::<F>(&group, number, records, root, &blocks);
        for block in built.blocks {
            self.write(block.at, &block.bytes)?;
        }
        let old = ForkEvidence { tree_blocks: old, ..ForkEvidence::default() };
        self.mark_changes(&old, None, &blocks);
        (core.data_format, core.extents, core.size) = (ForkFormat::MetadataBtree, 0, 0);
        core.blocks = blocks_of(&[], &blocks) + blocks_of(&other.extents, &other.tree_blocks);
        let mut bytes = found.bytes.clone();
        replace_fork(&mut bytes, &core, ForkKind::Data, &built.fork);
        self.write_inode(&core, &bytes)
    }

    /// Builds a btree over `extents`: writes the blocks of the btree, and its root into `fork`.
    /// Takes the blocks of the old btree first. Returns the blocks that the new btree occupies.
    fn put_tree(
        &mut self,
        number: InodeNumber,
        extents: &[Extent],
        old: &ForkEvidence,
        fork: &mut [u8],
    ) -> Result<Vec<FsBlock>, RepairError> {
        let capacity = ExtentRoot::capacity(fork.len());
        let count = btree::count_fork_blocks(extents.len(), capacity, self.geometry());
        let mut blocks: Vec<FsBlock> = old.tree_blocks.iter().copied().take(count).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let missing = u32::try_from(count - blocks.len()).expect("a fork has few blocks");
        if missing > 0 {
            let near = self.geometry().split_inode(number).map_or(AgNumber(0), |(group, _)| group);
            blocks.extend(self.take_blocks(near, missing)?);
        }
        let group = Group::new(self.geometry(), AgNumber(0)).expect("a volume has a first group");
        let built = btree::build_fork(&group, number, extents, capacity, &blocks);
        encode_extent_root(built.level, &built.children, fork);
        for block in built.blocks {
            self.write(block.at, &block.bytes)?;
        }
        Ok(blocks)
    }

    /// Marks groups for a rebuild of their space btrees: the groups of blocks that the fork loses,
    /// and those of blocks that it gets. `extents` is `None` for a fork that maps blocks of the
    /// realtime section: then only the blocks of its btree count.
    fn mark_changes(&mut self, old: &ForkEvidence, extents: Option<&[Extent]>, blocks: &[FsBlock]) {
        let (old_set, new_set): (HashSet<&FsBlock>, HashSet<&FsBlock>) =
            (old.tree_blocks.iter().collect(), blocks.iter().collect());
        let old_blocks = old_set.difference(&new_set).copied();
        let new_blocks = new_set.difference(&old_set).copied();
        let (old_extents, extents) = match extents {
            Some(extents) => (old.extents.as_slice(), extents),
            None => (&[][..], &[][..]),
        };
        let before: HashSet<&Extent> = old_extents.iter().collect();
        let after: HashSet<&Extent> = extents.iter().collect();
        let lost = old_extents.iter().filter(|extent| !after.contains(extent));
        let won = extents.iter().filter(|extent| !before.contains(extent));
        let starts = lost.chain(won).map(|extent| extent.start);
        let changed: Vec<FsBlock> = old_blocks.chain(new_blocks).copied().chain(starts).collect();
        for block in changed {
            if let Some((group, _)) = self.geometry().split_block(block) {
                self.mark_group(group);
            }
        }
    }
}

/// Cuts extents that are too long for an extent record into several. Records of the reverse map,
/// from which extents may come, can be longer.
fn cut(extents: &[Extent]) -> Vec<Extent> {
    let mut parts = Vec::with_capacity(extents.len());
    for extent in extents {
        let mut rest = *extent;
        while rest.length_blocks > MAX_EXTENT_BLOCKS {
            parts.push(Extent { length_blocks: MAX_EXTENT_BLOCKS, ..rest });
            rest.file_block.0 += u64::from(MAX_EXTENT_BLOCKS);
            rest.start.0 += u64::from(MAX_EXTENT_BLOCKS);
            rest.length_blocks -= MAX_EXTENT_BLOCKS;
        }
        parts.push(rest);
    }
    parts
}

/// Returns the offset of a new attribute fork in the inode, in units of 8 bytes. It is the kernel's
/// default offset, or a higher one if the data fork reaches past that.
fn new_fork_offset(found: &InodeEvidence, core: &InodeCore) -> u8 {
    let literal = found.bytes.len() - CORE_BYTES;
    let used = match core.data_format {
        ForkFormat::Device => return 1,
        ForkFormat::Local => usize::try_from(core.size).map_or(literal, |size| size.min(literal)),
        ForkFormat::Extents => usize::try_from(core.extents)
            .map_or(literal, |count| (count * EXTENT_BYTES).min(literal)),
        _ => {
            let children = ExtentRoot::decode(found.fork(ForkKind::Data));
            let children = children.map_or(0, |root| root.count());
            EXTENT_ROOT_HEADER_BYTES + children * ROOT_ENTRY_BYTES
        }
    };
    let least = used.div_ceil(OFFSET_UNIT);
    let usual = (literal / OFFSET_UNIT).saturating_sub(literal / OFFSET_UNIT * 3 / 7);
    let most = literal / OFFSET_UNIT - 1;
    u8::try_from(least.max(usual).min(most)).expect("the literal area has fewer than 256 units")
}

/// Writes the root of the data fork's btree again after the length of the data fork in the inode
/// was reduced. The offset of the pointers in the root depends on that length.
fn shrink_root(found: &InodeEvidence, core: &InodeCore, bytes: &mut [u8]) {
    if core.data_format != ForkFormat::Btree {
        return;
    }
    let Ok(root) = ExtentRoot::decode(found.fork(ForkKind::Data)) else { return };
    let children: Vec<_> = root.iter().collect();
    let end = CORE_BYTES + usize::from(core.fork_offset) * OFFSET_UNIT;
    let fork = bytes.get_mut(CORE_BYTES..end).expect("the attribute fork lies in the inode");
    encode_extent_root(root.level(), &children, fork);
}

fn put_extents(extents: &[Extent], fork: &mut [u8]) {
    for (extent, slot) in extents.iter().zip(fork.chunks_exact_mut(EXTENT_BYTES)) {
        let disk = extent.encode().expect("the extent was decoded from a record");
        slot.copy_from_slice(disk.as_bytes());
    }
}

/// Replaces the bytes of a fork in the bytes of its inode.
fn replace_fork(bytes: &mut [u8], core: &InodeCore, kind: ForkKind, fork: &[u8]) {
    let middle = CORE_BYTES + usize::from(core.fork_offset) * OFFSET_UNIT;
    let start = match kind {
        ForkKind::Data => CORE_BYTES,
        ForkKind::Attr => middle,
    };
    let target = bytes.get_mut(start..start + fork.len());
    target.expect("the fork lies in the inode").copy_from_slice(fork);
}

/// Returns the number of blocks of a fork: those of its extents, and those of its btree (`tree`).
fn blocks_of(extents: &[Extent], tree: &[FsBlock]) -> u64 {
    let blocks: u64 = extents.iter().map(|extent| u64::from(extent.length_blocks)).sum();
    blocks + tree.len() as u64
}

#[cfg(test)]
mod tests;
