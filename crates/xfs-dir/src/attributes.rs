//! Extended attributes.
//!
//! Owns: lookup of a value and iteration over the names, in every form of the attribute fork; the
//! conversion to and from Linux names such as `user.NAME`. Does **not** own the check whether a
//! caller may see a namespace.

mod change;
mod linux;
mod operations;
mod remote;
mod work;

use std::ops::ControlFlow;
use std::vec;

use xfs_buffer::{BufferCache, PosixError, Result};
use xfs_format::attr::{AttrEntry, AttrLeaf, AttrShortForm, AttrValue, Namespace};
use xfs_format::directory::name_hash;
use xfs_format::inode::ForkKind;
use xfs_format::{BlockKind, Corruption, FileBlock, StructureAddress};
use xfs_inode::{Fork, Inode};

use crate::dabtree::{CycleDetector, DaLeaves, Leaf, Tree};

pub(crate) use change::{AttributeChange, AttributeKey};
pub use linux::{linux_names, split_linux_name};
pub use operations::{
    NewAttribute, SetMode, attribute_blocks, attribute_quota_blocks, attribute_removal_blocks,
    remove_attribute, set_attribute, set_attribute_along, set_attribute_on_new,
};
pub use work::resume_attribute;
pub(crate) use work::{AttributeWork, OwnedAttribute};

/// A read-only view of the extended attributes of an inode.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    cache: &'a BufferCache,
    inode: &'a Inode,
}

/// An attribute without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeName {
    /// The namespace.
    pub namespace: Namespace,
    /// The name, without a prefix.
    pub name: Box<[u8]>,
    /// The length of the value in bytes.
    pub length_bytes: u32,
}

/// Where the value of an attribute is: the value itself, or the blocks that hold a remote value.
enum ValueLocation {
    Local(Vec<u8>),
    Remote { first_block: FileBlock, length_bytes: u32 },
}

impl From<AttrValue<'_>> for ValueLocation {
    fn from(value: AttrValue<'_>) -> Self {
        match value {
            AttrValue::Local(value) => Self::Local(value.to_vec()),
            AttrValue::Remote { first_block, length_bytes } => {
                Self::Remote { first_block, length_bytes }
            }
        }
    }
}

impl<'a> Attributes<'a> {
    /// Creates a view of the attributes of `inode`.
    #[must_use]
    pub fn new(cache: &'a BufferCache, inode: &'a Inode) -> Self {
        Self { cache, inode }
    }

    /// Returns the value of an attribute.
    ///
    /// # Errors
    ///
    /// Returns [`PosixError::NoAttribute`] if the attribute does not exist, the device's error, or
    /// the check that failed.
    #[doc(alias = "xfs_attr_get")]
    pub fn lookup(&self, namespace: Namespace, name: &[u8]) -> Result<Vec<u8>> {
        self.find(namespace, name)?.ok_or(PosixError::NoAttribute.into())
    }

    /// Returns the value of an attribute; `None` if the attribute does not exist.
    ///
    /// # Errors
    ///
    /// Returns the device's error, or the check that failed.
    pub fn find(&self, namespace: Namespace, name: &[u8]) -> Result<Option<Vec<u8>>> {
        // Parent pointers of one name differ by value and have another hash: they are not a map by
        // name.
        if namespace == Namespace::Parent {
            return Err(PosixError::InvalidArgument.into());
        }
        let found = match self.inode.fork(ForkKind::Attr) {
            Fork::Local(bytes) => {
                let form = AttrShortForm::decode(bytes, self.inode_place())?;
                let Some(entry) = form.find(namespace, name)? else { return Ok(None) };
                Some(entry.value.into())
            }
            _ if self.is_empty()? => None,
            _ => self.find_in_leaves(namespace, name)?,
        };
        match found {
            Some(ValueLocation::Local(value)) => Ok(Some(value)),
            Some(ValueLocation::Remote { first_block, length_bytes }) => {
                self.read_remote(first_block, length_bytes).map(Some)
            }
            None => Ok(None),
        }
    }

    /// Searches the leaves for an attribute; returns `None` if they do not contain it. Attributes
    /// whose names have the same hash may spread over several leaves.
    fn find_in_leaves(&self, namespace: Namespace, name: &[u8]) -> Result<Option<ValueLocation>> {
        let (tree, hash) = (self.tree(), name_hash(name));
        let mut leaf = tree.find_leaf(hash)?;
        let mut cycle = CycleDetector::new(leaf.block);
        loop {
            let bytes = leaf.buffer.bytes();
            let decoded = AttrLeaf::decode(&bytes, tree.place(leaf.block))?;
            if let Some(found) = find(decoded.find(hash), namespace, name)? {
                return Ok(Some(found));
            }
            let continues = decoded.hash_range().is_none_or(|(_, last)| last == hash);
            let Some(next) = decoded.forward().filter(|_| continues) else { return Ok(None) };
            cycle.advance(&tree, next)?;
            drop(bytes);
            leaf = tree.read_sibling(next, hash)?;
        }
    }

    fn tree(&self) -> Tree<'a> {
        Tree {
            cache: self.cache,
            inode: self.inode,
            recent: None,
            fork: ForkKind::Attr,
            root: FileBlock(0),
            blocks: 1,
            block_kind: BlockKind::Attr,
        }
    }

    /// Returns whether the attribute fork does not exist, or has no blocks.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.inode.extent_map(self.cache, ForkKind::Attr)?.is_empty())
    }

    fn inode_place(&self) -> StructureAddress {
        StructureAddress::Inode(self.inode.number())
    }

    /// Passes every attribute, including parent pointers, to `visit`, until the visitor breaks.
    /// Copies nothing. For a block that cannot be read, the visitor gets one error, and then the
    /// attributes of the following blocks.
    ///
    /// The visitor runs while the block is latched for reading: it must not wait for a writer of
    /// the block.
    pub fn visit(
        &self,
        visit: &mut dyn FnMut(Result<AttrEntry<'_>>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self.blocks() {
            Ok(mut blocks) => {
                while let Some(flow) = blocks.visit_next(self, visit) {
                    flow?;
                }
                ControlFlow::Continue(())
            }
            Err(error) => visit(Err(error)),
        }
    }

    fn blocks(&self) -> Result<Blocks<'a>> {
        Ok(match self.inode.fork(ForkKind::Attr) {
            Fork::Local(bytes) => Blocks::ShortForm(bytes),
            _ if self.is_empty()? => Blocks::Nothing,
            _ => Blocks::DaLeaves(self.tree().leaves()),
        })
    }

    /// Returns an iterator over the names of attributes, without parent pointers. Unlike
    /// [`visit`](Self::visit), the iterator copies the names. It holds the copies of one block at a
    /// time.
    #[must_use]
    pub fn names(&self) -> AttributeNames<'a> {
        AttributeNames { batches: Batches::new(*self, AttributeName::from_entry) }
    }
}

impl AttributeName {
    fn from_entry(entry: &AttrEntry<'_>, _: StructureAddress) -> Option<Result<Self>> {
        let AttrEntry { namespace, name, value } = *entry;
        let length_bytes = value.length_bytes();
        (namespace != Namespace::Parent)
            .then(|| Ok(Self { namespace, name: name.into(), length_bytes }))
    }
}

/// An iterator over the names of attributes, without parent pointers.
pub struct AttributeNames<'a> {
    batches: Batches<'a, AttributeName>,
}

impl Iterator for AttributeNames<'_> {
    type Item = Result<AttributeName>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.next()
    }
}

/// The blocks whose attributes an iteration has not visited yet.
enum Blocks<'a> {
    Nothing,
    ShortForm(&'a [u8]),
    DaLeaves(DaLeaves<'a>),
}

/// The visitor of an iteration. It returns `Continue` to get the next attribute, or `Break` to end
/// the iteration.
type AttributeVisitor<'v> = dyn FnMut(Result<AttrEntry<'_>>) -> ControlFlow<()> + 'v;

impl Blocks<'_> {
    /// Visits the attributes of the next block. Returns `None` if there are no more blocks.
    fn visit_next(
        &mut self,
        attributes: &Attributes<'_>,
        visit: &mut AttributeVisitor<'_>,
    ) -> Option<ControlFlow<()>> {
        match self {
            Self::Nothing => None,
            Self::ShortForm(bytes) => {
                let flow = visit_short_form(bytes, attributes.inode_place(), visit);
                *self = Self::Nothing;
                Some(flow)
            }
            Self::DaLeaves(leaves) => Some(match leaves.next()? {
                Ok(leaf) => visit_leaf(&leaf, attributes.tree().place(leaf.block), visit),
                Err(error) => visit(Err(error)),
            }),
        }
    }
}

fn visit_short_form(
    bytes: &[u8],
    place: StructureAddress,
    visit: &mut AttributeVisitor<'_>,
) -> ControlFlow<()> {
    let form = match AttrShortForm::decode(bytes, place) {
        Ok(form) => form,
        Err(corruption) => return visit(Err(corruption.into())),
    };
    // The verification of the whole form also finds errors in single entries.
    for entry in form.entries().map_while(Result::ok) {
        visit(Ok(entry))?;
    }
    match form.verify() {
        Ok(()) => ControlFlow::Continue(()),
        Err(corruption) => visit(Err(corruption.into())),
    }
}

fn visit_leaf(
    leaf: &Leaf,
    place: StructureAddress,
    visit: &mut AttributeVisitor<'_>,
) -> ControlFlow<()> {
    let bytes = leaf.buffer.bytes();
    match AttrLeaf::decode(&bytes, place) {
        Ok(leaf) => leaf.entries().try_for_each(|entry| visit(entry.map_err(Into::into))),
        Err(corruption) => visit(Err(corruption.into())),
    }
}

/// Returns the value of the attribute with this name among `entries`; `None` if there is no such
/// attribute.
fn find<'e>(
    entries: impl Iterator<Item = Result<AttrEntry<'e>, Corruption>>,
    namespace: Namespace,
    name: &[u8],
) -> Result<Option<ValueLocation>> {
    for entry in entries {
        let entry = entry?;
        if entry.namespace == namespace && entry.name == name {
            return Ok(Some(entry.value.into()));
        }
    }
    Ok(None)
}

/// A function that converts an attribute to an item that an iteration returns. It returns `None`
/// for an attribute that the iteration skips.
type AttributeFilter<T> = fn(&AttrEntry<'_>, StructureAddress) -> Option<Result<T>>;

/// An iterator over attributes. An `AttributeFilter` function converts each attribute to an item or
/// skips it. The iterator reads one block at a time.
pub(crate) struct Batches<'a, T> {
    attributes: Attributes<'a>,
    keep: AttributeFilter<T>,
    blocks: Blocks<'a>,
    batch: vec::IntoIter<Result<T>>,
}

impl<'a, T> Batches<'a, T> {
    pub(crate) fn new(attributes: Attributes<'a>, keep: AttributeFilter<T>) -> Self {
        let (blocks, batch) = match attributes.blocks() {
            Ok(blocks) => (blocks, Vec::new()),
            Err(error) => (Blocks::Nothing, vec![Err(error)]),
        };
        Self { attributes, keep, blocks, batch: batch.into_iter() }
    }
}

impl<T> Iterator for Batches<'_, T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.batch.next() {
                return Some(item);
            }
            let (keep, place) = (self.keep, self.attributes.inode_place());
            let mut batch = Vec::new();
            let mut visit = |entry: Result<AttrEntry<'_>>| {
                match entry {
                    Ok(entry) => batch.extend(keep(&entry, place)),
                    Err(error) => batch.push(Err(error)),
                }
                ControlFlow::Continue(())
            };
            let _never_breaks: ControlFlow<()> =
                self.blocks.visit_next(&self.attributes, &mut visit)?;
            self.batch = batch.into_iter();
        }
    }
}

#[cfg(test)]
mod tests;
