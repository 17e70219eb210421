//! Rules *attributes* and *parents*: write a whole attribute fork again, with the parent pointers
//! that it must have according to the decided tree (the tree of names that `resolve` has chosen).

use std::collections::{BTreeMap, BTreeSet};

use xfs_check::{Area, Code, Place};
use xfs_evidence::{AttributeDoubt, AttributeEvidence, FoundAttribute, FoundValue};
use xfs_format::attr::Namespace;
use xfs_format::attr::leaf::LEAF_MAGIC;
use xfs_format::dabtree;
use xfs_format::inode::ForkKind;
use xfs_format::{FileBlock, FsBlock, InodeNumber, acl};

use super::names::Names;
use super::pieces::{self, ForkPlace, WrittenBlock};
use crate::action::{Action, counted};
use crate::build::attributes::{AttributeForm, AttributeOwner, NewAttribute, build};
use crate::error::RepairError;
use crate::fork::ForkContents;
use crate::freed::freed;
use crate::patient::Patient;

/// Writes again each attribute fork that is damaged, lacks a parent pointer, or has a parent
/// pointer that it must not have.
///
/// # Errors
///
/// The first error of the overlay.
pub(crate) fn run(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    let members = names.facts.members.keys();
    let mut inodes: Vec<InodeNumber> = members.chain(names.tree.made.keys()).copied().collect();
    inodes.sort_unstable();
    inodes.dedup();
    for inode in inodes {
        let has_name = names.links_to(inode).next().is_some() || names.facts.is_root(inode);
        // An inode that waits for its name keeps the pointers that may state it.
        if names.tree.is_held && (!has_name || !names.facts.members.contains_key(&inode)) {
            continue;
        }
        let wanted = wanted_pointers(names, inode);
        let is_damaged = names.damage.codes_of(inode).into_iter().any(is_about_blocks);
        if is_damaged || wanted != stored_pointers(names, inode) {
            patient.attempt(|patient| write(patient, names, inode, wanted))?;
        }
    }
    Ok(())
}

/// A set of parent pointers. Each has the directory, the directory's generation and the name.
type PointerSet = BTreeSet<(InodeNumber, u32, Box<[u8]>)>;

fn wanted_pointers(names: &Names<'_>, child: InodeNumber) -> PointerSet {
    if !names.facts.has_parents {
        return PointerSet::new();
    }
    let pointer = |link: &super::resolve::Link| {
        let generation = names.generation(link.directory)?;
        Some((link.directory, generation, link.name.clone()))
    };
    names.links_to(child).filter_map(pointer).collect()
}

/// Returns the parent pointers that the inode `child` has on disk now. Finds them by a binary
/// search in the list of all pointers, which is sorted by the inodes that have them.
fn stored_pointers(names: &Names<'_>, child: InodeNumber) -> PointerSet {
    let all = &names.facts.pointers;
    let start = all.partition_point(|pointer| pointer.child < child);
    let of_child = all.iter().skip(start).take_while(|pointer| pointer.child == child);
    of_child.map(|pointer| (pointer.directory, pointer.generation, pointer.name.clone())).collect()
}

/// Returns whether a finding with this code says that the attribute fork is damaged.
fn is_about_blocks(code: Code) -> bool {
    let is_about_pointers = matches!(code, Code::ParentMissing | Code::ParentExtra);
    matches!(code.area(), Area::Attributes | Area::ParentPointers) && !is_about_pointers
}

/// The attributes that a fork keeps, and descriptions of those that are lost.
struct Kept {
    attributes: Vec<NewAttribute>,
    lost: Vec<String>,
}

/// Returns the attributes of a fork that are kept, and descriptions of those that are lost.
/// `absent` has the parent pointers that the fork must have and lacks. An attribute that equals one
/// of `absent` is a damaged parent pointer, and is not kept.
fn kept(found: AttributeEvidence, absent: &PointerSet, inode: InodeNumber) -> Kept {
    let mut kept = Kept { attributes: Vec::new(), lost: Vec::new() };
    let mut seen: BTreeMap<(Namespace, Box<[u8]>), FoundValue> = BTreeMap::new();
    let pointers: BTreeSet<(Vec<u8>, Vec<u8>)> = absent
        .iter()
        .map(|(directory, generation, name)| NewAttribute::parent(name, *directory, *generation))
        .map(|pointer| (pointer.name, pointer.value))
        .collect();
    let mut misfiled = 0;
    for attribute in found.attributes {
        // Damaged flags have made an attribute of another namespace out of a parent pointer.
        if let FoundValue::Whole(value) = &attribute.value
            && pointers.contains(&(attribute.name.to_vec(), value.clone()))
        {
            misfiled += 1;
            continue;
        }
        let shown = attribute.name.escape_ascii().to_string();
        let key = (attribute.namespace, attribute.name.clone());
        match seen.get(&key) {
            Some(first) if *first == attribute.value => continue,
            Some(_) => {
                kept.lost.push(format!("a second value of attribute {shown}"));
                continue;
            }
            None => seen.insert(key, attribute.value.clone()),
        };
        kept.lost.extend(attribute.doubt.map(|doubt| doubt_text(doubt, &attribute, &shown)));
        kept.take(attribute, &shown, inode);
    }
    // Each entry that cannot be read was an attribute, or a parent pointer that is missing now.
    let absent = absent.len() as u64 - misfiled;
    if let Some(count) = found.unreadable.checked_sub(absent).filter(|count| *count > 0) {
        kept.lost.push(format!("{count} attributes of which name or value cannot be read"));
    }
    kept
}

impl Kept {
    /// Keeps an attribute, or lists it as lost if its value is lost.
    fn take(&mut self, attribute: FoundAttribute, shown: &str, inode: InodeNumber) {
        let is_list = attribute.namespace == Namespace::Trusted
            && (&*attribute.name == acl::ACCESS_NAME || &*attribute.name == acl::DEFAULT_NAME);
        match attribute.value {
            FoundValue::Whole(value) if is_list && acl::decode(&value, inode).is_err() => {
                self.lost.push(format!("the access control list {shown}, which is impossible"));
            }
            FoundValue::Whole(value) => self.attributes.push(NewAttribute {
                namespace: attribute.namespace,
                name: attribute.name.into_vec(),
                value,
            }),
            FoundValue::Lost { length_bytes, .. } => {
                self.lost.push(format!("the value of {length_bytes} bytes of attribute {shown}"));
            }
        }
    }
}

/// Describes the part of a kept attribute that may be wrong or lost.
fn doubt_text(doubt: AttributeDoubt, attribute: &FoundAttribute, shown: &str) -> String {
    match doubt {
        AttributeDoubt::Namespace => format!(
            "the namespace of attribute {shown}, which is {} now",
            match attribute.namespace {
                Namespace::User => "\"user\"",
                Namespace::Trusted => "\"trusted\"",
                Namespace::Security => "\"security\"",
                Namespace::Parent => "that of parent pointers",
            }
        ),
        AttributeDoubt::ValueLength => format!("the end of the value of attribute {shown}"),
    }
}

/// Returns whether the readable leaves of an attribute fork form one complete chain. If so, its
/// unreadable blocks were nodes, which only repeat the hashes of the leaves, and no attribute is
/// lost.
fn has_all_leaves(patient: &Patient, names: &Names<'_>, inode: InodeNumber) -> bool {
    let Some(known) = names.model.inodes.get(&inode) else { return false };
    let geometry = patient.geometry();
    let mut leaves: BTreeMap<FileBlock, (Option<FileBlock>, Option<FileBlock>)> = BTreeMap::new();
    for extent in &known.attr.extents {
        for index in 0..u64::from(extent.length_blocks) {
            let mut bytes = vec![0; geometry.block_size as usize];
            let at = geometry.block_disk_addr(FsBlock(extent.start.0 + index));
            let is_read = at.is_some_and(|at| patient.can_read(at, &mut bytes));
            let is_leaf = dabtree::magic(&bytes) == Some(LEAF_MAGIC);
            if is_read && is_leaf && dabtree::owner(&bytes) == Some(inode) {
                let siblings = (dabtree::back(&bytes), dabtree::forward(&bytes));
                leaves.insert(FileBlock(extent.file_block.0 + index), siblings);
            }
        }
    }
    let firsts = leaves.iter().filter(|(_, (back, _))| back.is_none());
    let mut at = match firsts.map(|(block, _)| *block).collect::<Vec<_>>().as_slice() {
        [first] => Some(*first),
        _ => return false,
    };
    // Each leaf is passed once: the chain removes it.
    while let Some(block) = at {
        match leaves.remove(&block) {
            Some((_, forward)) => at = forward,
            None => return false,
        }
    }
    leaves.is_empty()
}

fn write(
    patient: &mut Patient,
    names: &Names<'_>,
    inode: InodeNumber,
    wanted: PointerSet,
) -> Result<(), RepairError> {
    let geometry = patient.geometry().clone();
    let found = {
        let evidence = patient.evidence();
        evidence.attributes(&evidence.inode(inode))
    };
    let missing = found.missing.len();
    let parents = found.parents.iter();
    let stored: PointerSet =
        parents.map(|parent| (parent.parent, parent.generation, parent.name.clone())).collect();
    let absent: PointerSet = wanted.difference(&stored).cloned().collect();
    let Kept { mut attributes, mut lost } = kept(found, &absent, inode);
    if missing > 0 && !has_all_leaves(patient, names, inode) {
        lost.push(format!(
            "the attributes in {missing} ranges of the fork that hold none any more"
        ));
    }
    if !lost.is_empty() && !patient.allows_loss() {
        return Ok(());
    }
    let count = attributes.len();
    let pointers = wanted.len();
    attributes.extend(
        wanted.iter().map(|(directory, generation, name)| {
            NewAttribute::parent(name, *directory, *generation)
        }),
    );
    let old = names.model.inodes.get(&inode).map_or(&[][..], |known| &known.attr.extents);
    let room = patient.fork_room(inode, ForkKind::Attr);
    let owner = AttributeOwner { number: inode, room };
    match build(&attributes, owner, &geometry) {
        None => return Ok(()),
        Some(AttributeForm::Short(bytes)) => {
            patient.set_fork(inode, ForkKind::Attr, ForkContents::Local(bytes))?;
        }
        Some(AttributeForm::Blocks(blocks)) => {
            let tree = blocks.tree.into_iter().map(WrittenBlock::Block);
            let all = tree.chain(blocks.values.into_iter().map(WrittenBlock::Value)).collect();
            pieces::write(patient, names.model, ForkPlace { inode, kind: ForkKind::Attr }, all)?;
        }
    }
    let place = Place::of_inode(inode, patient.geometry());
    let codes = names.damage.codes_of(inode);
    let keeps = [counted(count, "attribute"), counted(pointers, "parent pointer")].join(" and ");
    let mut action = Action::new("attributes", place, codes, keeps);
    let is_loss = !lost.is_empty();
    for what in lost {
        action = action.losing(Some(inode), what);
    }
    if is_loss {
        // A block of a value whose name is lost may be the only copy of that value.
        let evidence = patient.evidence();
        let new = evidence.extents(&evidence.inode(inode), ForkKind::Attr).extents;
        action = action.losing_extents(&geometry, &freed(old, &new));
    }
    patient.act(action);
    Ok(())
}
