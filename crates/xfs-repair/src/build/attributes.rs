//! Builder of whole attribute forks: it turns a list of attributes into the short form, or into
//! leaves with nodes above them and blocks of remote values.
//!
//! Owns: the choice of the form, leaves, remote values, and the places of all blocks in the fork.
//! Does **not** own: where the blocks lie on disk.
//!
//! ```text
//! fork block 0: the only leaf, or the root   1..n: remote values   from n: leaves, nodes
//! ```
//!
//! # Invariants
//!
//! - **I1** The same attributes give the same bytes, whatever their order in the list.

use xfs_format::attr::leaf::{
    AttrFreeDisk, AttrLeafEntryDisk, AttrLeafHeaderDisk, LEAF_MAGIC, encode_name, is_local,
};
use xfs_format::attr::remote::RemoteBlock;
use xfs_format::attr::{AttrEntry, AttrValue, Namespace, short_form};
use xfs_format::directory::name_hash;
use xfs_format::parent::{Parent, ParentDisk};
use xfs_format::{BlockKind, FileBlock, Geometry, InodeNumber, StructureAddress};
use zerocopy::IntoBytes;

use super::blocks::NewBlock;
use super::dabtree::{self, Branch, TreeIdentity};

/// An attribute of a fork that is built.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NewAttribute {
    /// The namespace.
    pub(crate) namespace: Namespace,
    /// The name: 1 to 255 bytes.
    pub(crate) name: Vec<u8>,
    /// The value.
    pub(crate) value: Vec<u8>,
}

impl NewAttribute {
    /// Creates the parent pointer of an inode that has the name `name` in the directory
    /// `directory`. `generation` is the generation of that directory.
    pub(crate) fn parent(name: &[u8], directory: InodeNumber, generation: u32) -> Self {
        let value = ParentDisk { inode: directory.0.into(), generation: generation.into() };
        Self { namespace: Namespace::Parent, name: name.to_vec(), value: value.as_bytes().to_vec() }
    }

    /// Returns the attribute in the form in which a leaf stores it with a local value, that is, a
    /// value next to the name.
    fn entry(&self) -> AttrEntry<'_> {
        AttrEntry {
            namespace: self.namespace,
            name: &self.name,
            value: AttrValue::Local(&self.value),
        }
    }

    /// Returns the attribute in the form in which a leaf stores it with a remote value, that is, a
    /// value in other blocks of the fork, from `first_block` on.
    fn remote_entry(&self, first_block: FileBlock) -> AttrEntry<'_> {
        let length_bytes = u32::try_from(self.value.len()).expect("a value has at most 64 KiB");
        let value = AttrValue::Remote { first_block, length_bytes };
        AttrEntry { namespace: self.namespace, name: &self.name, value }
    }

    /// Returns the hash that orders the attribute in its fork.
    fn hash(&self) -> u32 {
        let nowhere = StructureAddress::Inode(InodeNumber(0));
        match Parent::decode(&self.entry(), nowhere) {
            Ok(Some(parent)) => parent.hash(),
            _ => name_hash(&self.name),
        }
    }
}

/// An attribute fork that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttributeForm {
    /// The bytes of the short form, which lie in the inode.
    Short(Vec<u8>),
    /// The blocks of the fork. There are none if the fork has no attributes.
    Blocks(AttributeBlocks),
}

/// The blocks of an attribute fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttributeBlocks {
    /// The leaves of the fork, and the nodes above them.
    pub(crate) tree: Vec<NewBlock>,
    /// The blocks of remote values.
    pub(crate) values: Vec<RemotePart>,
}

/// The part of a remote value that one block holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemotePart {
    /// The block of the fork that holds this part of the value.
    pub(crate) file_block: FileBlock,
    /// The offset of the part in its value, in bytes.
    pub(crate) offset: u32,
    /// The bytes of the part.
    pub(crate) part: Vec<u8>,
}

/// The inode whose attribute fork is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeOwner {
    /// The inode number.
    pub(crate) number: InodeNumber,
    /// The number of bytes of the attribute fork in the inode.
    pub(crate) room: usize,
}

/// Builds an attribute fork. Returns `None` if the attributes need more blocks than a fork has.
pub(crate) fn build(
    attributes: &[NewAttribute],
    owner: AttributeOwner,
    geometry: &Geometry,
) -> Option<AttributeForm> {
    let mut sorted: Vec<&NewAttribute> = attributes.iter().collect();
    sorted.sort_by_cached_key(|attribute| (attribute.hash(), (*attribute).clone()));
    sorted.dedup();
    if sorted.is_empty() {
        return Some(AttributeForm::Blocks(AttributeBlocks::default()));
    }
    let entries: Vec<AttrEntry<'_>> = sorted.iter().map(|attribute| attribute.entry()).collect();
    if let Some(bytes) = short_form::encode(&entries)
        && bytes.len() <= owner.room
        && entries.iter().all(fits_short_form)
    {
        return Some(AttributeForm::Short(bytes));
    }
    let tree = TreeIdentity {
        owner: owner.number,
        uuid: geometry.meta_uuid,
        block_bytes: geometry.block_size as usize,
        kind: BlockKind::Attr,
    };
    let mut remote = RemoteValues { next: 1, parts: Vec::new(), geometry };
    let leaves = leaves(&sorted, &tree, &mut remote)?;
    let others = (remote.next..=u64::from(u32::MAX)).map(FileBlock);
    let mut places = std::iter::once(FileBlock(0)).chain(others);
    let tree = dabtree::assemble(leaves, &tree, &mut places)?;
    Some(AttributeForm::Blocks(AttributeBlocks { tree, values: remote.parts }))
}

/// The blocks of remote values, in the order in which the attributes are packed into leaves.
struct RemoteValues<'g> {
    /// The next block of the fork that is free for a value.
    next: u64,
    parts: Vec<RemotePart>,
    geometry: &'g Geometry,
}

impl RemoteValues<'_> {
    /// Assigns blocks of the fork to `value`, and stores the bytes of `value` in them. Returns the
    /// first of these blocks.
    fn push(&mut self, value: &[u8]) -> FileBlock {
        let first = FileBlock(self.next);
        let capacity = RemoteBlock::capacity(self.geometry) as usize;
        let mut offset = 0;
        for part in value.chunks(capacity) {
            let file_block = FileBlock(self.next);
            self.parts.push(RemotePart { file_block, offset, part: part.to_vec() });
            offset += u32::try_from(part.len()).expect("a part is shorter than a block");
            self.next += 1;
        }
        first
    }
}

/// The length in bytes from which a name or a value is too long for the short form, as in the
/// kernel.
const SHORT_FORM_LIMIT: usize = 255;

fn fits_short_form(entry: &AttrEntry<'_>) -> bool {
    entry.name.len() < SHORT_FORM_LIMIT && (entry.value.length_bytes() as usize) < SHORT_FORM_LIMIT
}

/// Packs attributes, which must be sorted by hash, into leaves. Returns `None` if an attribute is
/// too long for a leaf.
fn leaves(
    sorted: &[&NewAttribute],
    tree: &TreeIdentity,
    remote: &mut RemoteValues<'_>,
) -> Option<Vec<Branch>> {
    let mut leaves = Vec::new();
    let mut leaf = LeafBytes::new(tree);
    for attribute in sorted {
        let is_local = is_local(attribute.name.len(), attribute.value.len(), tree.block_bytes);
        let (name, flags) = match is_local {
            true => encode_name(&attribute.entry()),
            false => encode_name(&attribute.remote_entry(remote.push(&attribute.value))),
        };
        if !leaf.has_room(name.len()) {
            let full = std::mem::replace(&mut leaf, LeafBytes::new(tree));
            leaves.push(full.finish());
        }
        if !leaf.has_room(name.len()) {
            return None;
        }
        leaf.push(attribute.hash(), flags.bits(), name);
    }
    leaves.push(leaf.finish());
    Some(leaves)
}

/// A leaf under construction.
struct LeafBytes<'t> {
    tree: &'t TreeIdentity,
    entries: Vec<AttrLeafEntryDisk>,
    /// The names with their values, in the order of the entries.
    names: Vec<Vec<u8>>,
    /// The offset of the name that starts lowest in the block. Names fill the block from its end.
    first_used: usize,
}

impl<'t> LeafBytes<'t> {
    fn new(tree: &'t TreeIdentity) -> Self {
        Self { tree, entries: Vec::new(), names: Vec::new(), first_used: tree.block_bytes }
    }

    fn table_end(&self) -> usize {
        size_of::<AttrLeafHeaderDisk>() + size_of_val(self.entries.as_slice())
    }

    fn has_room(&self, name_bytes: usize) -> bool {
        self.table_end() + size_of::<AttrLeafEntryDisk>() + name_bytes <= self.first_used
    }

    fn push(&mut self, hash: u32, flags: u8, name: Vec<u8>) {
        self.first_used -= name.len();
        let name_offset = u16::try_from(self.first_used).expect("a name starts inside its block");
        let (hash, name_offset) = (hash.into(), name_offset.into());
        self.entries.push(AttrLeafEntryDisk { hash, name_offset, flags, pad: 0 });
        self.names.push(name);
    }

    fn finish(self) -> Branch {
        let table_end = self.table_end();
        let field = |value: usize| u16::try_from(value).expect("a length inside a block");
        let free = field(self.first_used - table_end);
        // A free range without bytes has no start either.
        let base = if free == 0 { 0 } else { field(table_end) };
        let none = AttrFreeDisk { base: 0.into(), size: 0.into() };
        let header = AttrLeafHeaderDisk {
            header: self.tree.header(LEAF_MAGIC),
            count: field(self.entries.len()).into(),
            used_bytes: field(self.tree.block_bytes - self.first_used).into(),
            first_used: field(self.first_used).into(),
            holes: 0,
            pad: 0,
            free: [AttrFreeDisk { base: base.into(), size: free.into() }, none, none],
            pad2: 0.into(),
        };
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend(self.entries.as_bytes());
        bytes.resize(self.first_used, 0);
        bytes.extend(self.names.iter().rev().flatten());
        let last_hash = self.entries.last().map_or(0, |entry| entry.hash.get());
        Branch { bytes, last_hash }
    }
}

#[cfg(test)]
mod tests;
