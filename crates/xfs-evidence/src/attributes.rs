//! The extended attributes and parent pointers of a damaged inode.
//!
//! Owns: attributes from the short form and from every leaf of the attribute fork, and the values
//! in blocks of their own. Does **not** own: the nodes, which only lead to leaves. All blocks that
//! the fork maps are read, so no attribute is lost because of a damaged node. A damaged entry does
//! not hide any other entry.

mod leaf_entry;
mod namespace;
mod short_form;

use xfs_format::attr::{
    AttrEntry, AttrLeaf, AttrShortForm, AttrValue, MAX_VALUE, Namespace, RemoteBlock,
};
use xfs_format::dabtree;
use xfs_format::extent::FILE_BLOCK_LIMIT;
use xfs_format::inode::{CORE_BYTES, FORK_OFFSET_BYTES, ForkFormat, ForkKind};
use xfs_format::parent::{Parent, ParentDisk};
use xfs_format::{
    BlockKind, Check, Corruption, FileBlock, FsBlock, InodeNumber, Structure, StructureAddress,
};

use crate::fork::{FileRange, ForkEvidence};
use crate::inode::InodeEvidence;
use crate::sweep::BlockIdentity;
use crate::volume::{Damage, Evidence, Trust};

/// The largest number of blocks of one attribute fork that are read.
const MOST_BLOCKS: u64 = 1 << 20;
/// The largest number of bytes of attribute values that are returned for one inode.
const MOST_VALUE_BYTES: usize = 64 << 20;
/// The largest number of damages that are reported for one attribute fork.
const MOST_DAMAGES: usize = 1 << 10;

/// An attribute that was found in a damaged inode or in its attribute fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAttribute {
    /// The namespace, which is never [`Namespace::Parent`].
    pub namespace: Namespace,
    /// The name without a prefix.
    pub name: Box<[u8]>,
    /// The value, as far as it could be read.
    pub value: FoundValue,
    /// The part of the attribute that the damage leaves uncertain.
    pub doubt: Option<AttributeDoubt>,
    /// Whether the leaf that holds the attribute passed all checks; in the short form, whether the
    /// inode passed all checks.
    pub trust: Trust,
}

/// The part of an attribute that a damage leaves uncertain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeDoubt {
    /// The flags are damaged, and several namespaces can be meant.
    Namespace,
    /// The length of the value, or the end of the short form, is damaged.
    ValueLength,
}

/// The value of an attribute, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundValue {
    /// All bytes of the value.
    Whole(Vec<u8>),
    /// A value in blocks of its own. At least one of these blocks could not be read, or does not
    /// belong to the attribute.
    Lost {
        /// The first of the value's blocks in the attribute fork.
        first_block: FileBlock,
        /// The length of the value in bytes, as the leaf states it.
        length_bytes: u32,
    },
}

/// A parent pointer that was found in a damaged inode or in its attribute fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundParent {
    /// The inode number of the parent directory.
    pub parent: InodeNumber,
    /// The generation of the parent directory's inode.
    pub generation: u32,
    /// The name of the file in the parent directory.
    pub name: Box<[u8]>,
    /// Whether the leaf that holds the parent pointer passed all checks; in the short form, whether
    /// the inode passed all checks.
    pub trust: Trust,
}

/// The attributes of an inode, as far as they could be read.
#[derive(Clone, Debug, Default)]
pub struct AttributeEvidence {
    /// The attributes, without parent pointers.
    pub attributes: Vec<FoundAttribute>,
    /// The parent pointers.
    pub parents: Vec<FoundParent>,
    /// The number of further entries whose name or value is lost. Each of them was an attribute or
    /// a parent pointer.
    pub unreadable: u64,
    /// The ranges of the fork whose blocks could not be read, or are not attribute blocks.
    pub missing: Vec<FileRange>,
    /// The extent map of the attribute fork. It is empty in the short form.
    pub map: ForkEvidence,
    /// The damages that were found while the attributes were read.
    pub damages: Vec<Damage>,
    value_bytes: usize,
}

impl AttributeEvidence {
    /// Returns whether all attributes were read and none of them is doubtful.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.unreadable == 0
            && self.damages.is_empty()
            && self.missing.is_empty()
            && self.map.is_whole()
    }

    /// Adds a range of the fork to `missing`. If the last range of `missing` ends where this range
    /// starts, the two are joined.
    fn miss(&mut self, range: FileRange) {
        match self.missing.last_mut() {
            Some(last) if last.start <= range.start && range.start <= last.end => {
                last.end = last.end.max(range.end);
            }
            _ => self.missing.push(range),
        }
    }

    fn damage(&mut self, damage: impl Into<Damage>) {
        if self.damages.len() < MOST_DAMAGES {
            self.damages.push(damage.into());
        }
    }
}

impl Evidence<'_> {
    /// Reads the attributes and parent pointers of an inode.
    #[must_use]
    pub fn attributes(&self, inode: &InodeEvidence) -> AttributeEvidence {
        let mut found = AttributeEvidence::default();
        let Some(core) = inode.any_core() else { return found };
        match core.fork_format(ForkKind::Attr) {
            Some(ForkFormat::Local) => self.attribute_short_form(inode, &mut found),
            Some(ForkFormat::Extents | ForkFormat::Btree) => self.leaves(inode, &mut found),
            _ => {}
        }
        found
    }

    /// Returns the parent pointers that can still be found in the bytes of a free inode.
    ///
    /// A free inode does not say where its attribute fork began, so every offset at which it can
    /// begin is tried. The bytes at an offset are used only if they are a short form that passes
    /// all checks and has a parent pointer.
    #[must_use]
    pub fn parents_left(&self, inode: &InodeEvidence) -> Vec<FoundParent> {
        let literal = inode.bytes.get(CORE_BYTES..).unwrap_or_default();
        let address = StructureAddress::Inode(inode.number);
        for start in (0..literal.len()).step_by(FORK_OFFSET_BYTES) {
            let bytes = literal.get(start..).unwrap_or_default();
            let Ok(form) = AttrShortForm::decode(bytes, address) else { continue };
            if form.count() == 0 || form.verify().is_err() {
                continue;
            }
            let mut found = AttributeEvidence::default();
            for entry in form.entries().map_while(Result::ok) {
                self.take(inode.number, &entry, Quality::DOUBTFUL, &mut found);
            }
            let is_inode =
                |found: &FoundParent| self.geometry().split_inode(found.parent).is_some();
            found.parents.retain(is_inode);
            if !found.parents.is_empty() && found.damages.is_empty() {
                return found.parents;
            }
        }
        Vec::new()
    }

    fn attribute_short_form(&self, inode: &InodeEvidence, found: &mut AttributeEvidence) {
        let address = StructureAddress::Inode(inode.number);
        let fork = inode.fork(ForkKind::Attr);
        let form = AttrShortForm::decode(fork, address);
        if let Err(corruption) = form.and_then(|form| form.verify()) {
            found.damage(corruption);
        }
        let is_sound = inode.is_sound() && found.damages.is_empty();
        let trust = if is_sound { Trust::Sound } else { Trust::Doubtful };
        let read = short_form::records(fork);
        found.unreadable = read.unreadable;
        let last = read.records.len().saturating_sub(1);
        for (index, record) in read.records.iter().enumerate() {
            match self.entry_of(record) {
                Some((entry, mut doubt)) => {
                    if read.has_doubtful_end && index == last {
                        doubt = doubt.or(Some(AttributeDoubt::ValueLength));
                    }
                    self.take(inode.number, &entry, Quality { trust, doubt }, found);
                }
                None => found.unreadable += 1,
            }
        }
    }

    /// Returns the attribute that a record stands for, and the part of the attribute that is
    /// uncertain. Returns `None` if the name is damaged.
    fn entry_of<'a>(
        &self,
        record: &short_form::Record<'a>,
    ) -> Option<(AttrEntry<'a>, Option<AttributeDoubt>)> {
        let (name, value) = (record.name, AttrValue::Local(record.value));
        let entry = |namespace| AttrEntry { namespace, name, value };
        let address = StructureAddress::Inode(InodeNumber(0));
        let is_pointer = || match Parent::decode(&entry(Namespace::Parent), address) {
            Ok(Some(parent)) => self.geometry().split_inode(parent.inode).is_some(),
            _ => false,
        };
        let stated = namespace::of_short_flags(record.flags);
        if name.contains(&0) {
            return None;
        }
        if let Some(namespace) = stated.filter(|stated| *stated != Namespace::Parent) {
            return Some((entry(namespace), None));
        }
        // The number of a directory that does not exist is a damage of the pointer alone.
        let is_length_of_pointer = record.value.len() == size_of::<ParentDisk>();
        if stated == Some(Namespace::Parent) && is_length_of_pointer {
            return Some((entry(Namespace::Parent), None));
        }
        let meant = namespace::meant(record.flags, name, |namespace| {
            namespace != Namespace::Parent || is_pointer()
        })?;
        Some((entry(meant.namespace), meant.doubt()))
    }

    fn leaves(&self, inode: &InodeEvidence, found: &mut AttributeEvidence) {
        found.map = self.extents(inode, ForkKind::Attr);
        found.missing.clone_from(&found.map.missing);
        let mut budget = MOST_BLOCKS;
        let mut reads = self.fork_reads();
        for extent in found.map.extents.clone() {
            for index in 0..u64::from(extent.length_blocks) {
                let block = FileBlock(extent.file_block.0 + index);
                let start = FsBlock(extent.start.0 + index);
                let left = budget.checked_sub(1).filter(|_| !reads.is_over());
                let Some(left) = left else {
                    found.miss(FileRange { start: block, end: FileBlock(FILE_BLOCK_LIMIT) });
                    return found.damage(Damage::OverBudget { budget: MOST_BLOCKS - budget });
                };
                budget = left;
                if !reads.is_first(start) {
                    found.miss(FileRange { start: block, end: FileBlock(block.0 + 1) });
                    found.damage(Damage::Repeated { block: start });
                } else if !self.fork_block(inode.number, block, start, found) {
                    reads.waste();
                }
            }
        }
    }

    /// Reads one block of an attribute fork. Returns whether the block names the inode as its
    /// owner.
    fn fork_block(
        &self,
        owner: InodeNumber,
        block: FileBlock,
        start: FsBlock,
        found: &mut AttributeEvidence,
    ) -> bool {
        let whole = FileRange { start: block, end: FileBlock(block.0 + 1) };
        let (bytes, at) = match self.read_block(start) {
            Ok(read) => read,
            Err(damage) => {
                found.damage(damage);
                found.miss(whole);
                return false;
            }
        };
        let address = StructureAddress::Attr(owner, block);
        if dabtree::magic(&bytes) == Some(xfs_format::attr::leaf::LEAF_MAGIC) {
            let trust = self.judge(BlockKind::Attr, &bytes, at, &mut found.damages);
            self.leaf(owner, &bytes, LeafPlace { address, trust }, found);
        } else if !is_known(&bytes) {
            let check = Check::Magic {
                found: dabtree::magic(&bytes).unwrap_or_default().into(),
                expected: xfs_format::attr::leaf::LEAF_MAGIC.into(),
            };
            found.damage(Corruption::new(Structure::Attr, address, check));
            found.miss(whole);
        }
        BlockIdentity::of(&bytes).is_some_and(|identity| identity.owner() == owner.0)
    }

    fn leaf(
        &self,
        owner: InodeNumber,
        bytes: &[u8],
        place: LeafPlace,
        found: &mut AttributeEvidence,
    ) {
        let LeafPlace { address, trust: Some(trust) } = place else { return };
        let leaf = match AttrLeaf::decode(bytes, address) {
            Ok(leaf) => leaf,
            Err(corruption) => return found.damage(corruption),
        };
        if let Some(other) = leaf.owner().filter(|found| *found != owner) {
            let check = Check::ForeignOwner { found: other.0, expected: owner.0 };
            return found.damage(Corruption::new(Structure::Attr, address, check));
        }
        for read in leaf_entry::entries(&leaf, trust) {
            match read {
                Some(leaf_entry::LeafEntry { entry, doubt }) => {
                    self.take(owner, &entry, Quality { trust, doubt }, found);
                }
                None => found.unreadable += 1,
            }
        }
    }

    fn take(
        &self,
        owner: InodeNumber,
        entry: &AttrEntry<'_>,
        quality: Quality,
        found: &mut AttributeEvidence,
    ) {
        let Quality { trust, doubt } = quality;
        let address = StructureAddress::Inode(owner);
        match Parent::decode(entry, address) {
            Ok(Some(parent)) => found.parents.push(FoundParent {
                parent: parent.inode,
                generation: parent.generation,
                name: parent.name.into(),
                trust,
            }),
            Ok(None) => {
                let value = self.value(owner, entry.value, found);
                let (namespace, name) = (entry.namespace, entry.name.into());
                found.attributes.push(FoundAttribute { namespace, name, value, doubt, trust });
            }
            Err(corruption) => {
                found.unreadable += 1;
                found.damage(corruption);
            }
        }
    }

    fn value(
        &self,
        owner: InodeNumber,
        value: AttrValue<'_>,
        found: &mut AttributeEvidence,
    ) -> FoundValue {
        let (first_block, length_bytes) = match value {
            AttrValue::Local(bytes) => return FoundValue::Whole(bytes.to_vec()),
            AttrValue::Remote { first_block, length_bytes } => (first_block, length_bytes),
        };
        let lost = FoundValue::Lost { first_block, length_bytes };
        let length = usize::try_from(length_bytes.min(MAX_VALUE)).expect("at most 64 KiB");
        if found.value_bytes + length > MOST_VALUE_BYTES {
            found.damage(Damage::OverBudget { budget: MOST_VALUE_BYTES as u64 });
            return lost;
        }
        let mut bytes = Vec::new();
        let mut block = first_block;
        while bytes.len() < length {
            let Some(part) = self.value_part(owner, block, bytes.len(), found) else {
                return lost;
            };
            bytes.extend(part);
            block = FileBlock(block.0 + 1);
        }
        found.value_bytes += length;
        bytes.truncate(length);
        FoundValue::Whole(bytes)
    }

    /// Reads one block of a remote value. Returns the part of the value in the block, which must
    /// begin at byte `offset` of the value and must not be empty. Returns `None` if the block is
    /// damaged or holds another part.
    fn value_part(
        &self,
        owner: InodeNumber,
        block: FileBlock,
        offset: usize,
        found: &mut AttributeEvidence,
    ) -> Option<Vec<u8>> {
        let extent = found.map.find(block)?;
        let start = FsBlock(extent.start.0 + (block.0 - extent.file_block.0));
        let (bytes, at) = match self.read_block(start) {
            Ok(read) => read,
            Err(damage) => {
                found.damage(damage);
                return None;
            }
        };
        let trust = self.judge(BlockKind::AttrRemote, &bytes, at, &mut found.damages);
        let remote = RemoteBlock::decode(&bytes, StructureAddress::Attr(owner, block)).ok()?;
        let is_own = remote.owner() == owner && remote.offset() as usize == offset;
        let is_usable = trust == Some(Trust::Sound) && is_own && !remote.part().is_empty();
        is_usable.then(|| remote.part().to_vec())
    }
}

/// How far an entry can be believed, and its uncertain part.
#[derive(Clone, Copy)]
struct Quality {
    trust: Trust,
    doubt: Option<AttributeDoubt>,
}

impl Quality {
    /// The quality of an entry that was found in unused bytes, which no check protects.
    const DOUBTFUL: Self = Self { trust: Trust::Doubtful, doubt: None };
}

/// The address of a leaf, and how far the contents of the leaf can be believed.
#[derive(Clone, Copy)]
struct LeafPlace {
    address: StructureAddress,
    trust: Option<Trust>,
}

/// Returns whether a block has the magic number of a node or of a remote value. Such a block can
/// belong to an attribute fork, although it is not a leaf.
fn is_known(bytes: &[u8]) -> bool {
    let remote = bytes.first_chunk().map(|magic| u32::from_be_bytes(*magic));
    dabtree::magic(bytes) == Some(dabtree::NODE_MAGIC)
        || remote == Some(xfs_format::attr::remote::REMOTE_MAGIC)
}
