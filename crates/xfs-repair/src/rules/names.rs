//! The rules about names: directories, parent pointers, link counts, lost inodes.
//!
//! Owns: the order in which the decided tree of names is written. The decision is in `resolve`.
//! Does **not** own: how one directory or one attribute fork is written.
//!
//! These rules look at the whole volume, because a name is stored in two places: the directory
//! entry and the parent pointer. They write only objects that have findings or that differ from the
//! decided tree.

use std::collections::BTreeMap;

use xfs_check::{Area, Code, Place};
use xfs_format::InodeNumber;

use super::facts::Facts;
use super::resolve::{Tree, resolve};
use super::{attributes, directory, links, orphans, superblock};
use crate::action::Action;
use crate::damage::Damage;
use crate::error::RepairError;
use crate::model::Model;
use crate::patient::Patient;

/// The input of the rules about names: the inodes of the volume, the evidence for its names, and
/// the decided tree of names.
pub(crate) struct Names<'a> {
    /// The inodes of the volume and their forks.
    pub(crate) model: &'a Model,
    /// The evidence for names on the volume: directory entries and parent pointers.
    pub(crate) facts: &'a Facts,
    /// The tree of names that `resolve` has decided on.
    pub(crate) tree: &'a Tree,
    /// The damage that the check at the start of the round has found.
    pub(crate) damage: &'a Damage,
    /// For each child, the indexes in `tree` of the links that lead to it.
    links_of_child: BTreeMap<InodeNumber, Vec<usize>>,
}

impl Names<'_> {
    /// Returns the links to a child in `tree`, the names that `resolve` has decided on.
    pub(crate) fn links_to(
        &self,
        child: InodeNumber,
    ) -> impl Iterator<Item = &super::resolve::Link> {
        let of_child = self.links_of_child.get(&child).into_iter().flatten();
        of_child.filter_map(|index| self.tree.links.get(*index))
    }

    /// Returns the generation that a directory has after the repair. `None` if the inode is not in
    /// use and is not made again.
    pub(crate) fn generation(&self, directory: InodeNumber) -> Option<u32> {
        let changed =
            self.tree.made.get(&directory).or_else(|| self.tree.generations.get(&directory));
        changed.copied().or_else(|| self.facts.members.get(&directory).map(|m| m.generation))
    }
}

/// Applies the rules about names.
///
/// # Errors
///
/// The first error of the overlay.
pub(crate) fn run(patient: &mut Patient, damage: &Damage) -> Result<(), RepairError> {
    if !concerns_names(damage) {
        return Ok(());
    }
    let model = patient.model()?;
    let allows_loss = patient.allows_loss();
    let facts = { Facts::collect(&patient.evidence(), &model, damage, allows_loss) };
    let tree = resolve(&facts);
    let mut links_of_child: BTreeMap<InodeNumber, Vec<usize>> = BTreeMap::new();
    for (index, link) in tree.links.iter().enumerate() {
        links_of_child.entry(link.child).or_default().push(index);
    }
    let names = Names { model: &model, facts: &facts, tree: &tree, damage, links_of_child };
    if set_types(patient, &names)? || orphans::restore_forks(patient, &names)? {
        return Ok(());
    }
    let nameless: Vec<InodeNumber> = tree.rescued.iter().copied().collect();
    if superblock::adopt_quota_inodes(patient, &nameless)? {
        return Ok(());
    }
    if !tree.is_held {
        orphans::run(patient, &names)?;
    }
    orphans::make_reserved(patient, &names)?;
    set_generations(patient, &names)?;
    directory::run(patient, &names)?;
    attributes::run(patient, &names)?;
    if !tree.is_held {
        links::run(patient, &names)?;
        report_dropped(patient, &names);
    }
    Ok(())
}

/// Returns whether any finding is about directories, attributes, parent pointers or inodes, so that
/// names may be affected.
fn concerns_names(damage: &Damage) -> bool {
    let is_about_names = |code: Code| {
        matches!(
            code.area(),
            Area::Directory
                | Area::Attributes
                | Area::ParentPointers
                | Area::Inode
                | Area::MetadataDirectory
        )
    };
    damage.inodes.values().flatten().any(|finding| is_about_names(finding.code))
}

/// Corrects the type of each inode whose stored type is wrong according to the decided tree. The
/// right type is in its directory entries. Returns whether there are such inodes.
fn set_types(patient: &mut Patient, names: &Names<'_>) -> Result<bool, RepairError> {
    for (inode, entry_type) in &names.tree.types {
        let Some(file_type) = entry_type.file_type() else { continue };
        patient.set_inode(*inode, |core| {
            core.mode = file_type.mode_bits() | core.mode & PERMISSIONS;
        })?;
        let place = Place::of_inode(*inode, patient.geometry());
        let keeps = "the contents; the type is that of the names";
        patient.act(Action::new("type", place, names.damage.codes_of(*inode), keeps));
    }
    Ok(!names.tree.types.is_empty())
}

/// The bits of a mode that do not belong to the file type.
const PERMISSIONS: u16 = 0o7777;

/// Corrects the generation in the inode of each directory for which `resolve` has decided on
/// another generation. That is the generation in the parent pointers of the directory's children.
fn set_generations(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    for (directory, generation) in &names.tree.generations {
        patient.set_inode(*directory, |core| core.generation = *generation)?;
        let place = Place::of_inode(*directory, patient.geometry());
        let keeps = format!("all names; the children agree on generation {generation}");
        patient.act(Action::new("generation", place, names.damage.codes_of(*directory), keeps));
    }
    Ok(())
}

/// Adds an action to the plan for each name that is given up because its inode is not in use.
fn report_dropped(patient: &mut Patient, names: &Names<'_>) {
    for dropped in names.tree.dropped.iter().filter(|dropped| dropped.is_loss) {
        let link = &dropped.link;
        let place = Place::of_inode(link.directory, patient.geometry());
        let codes = vec![Code::DirTarget];
        let lost = format!(
            "the name {} in {}: {} is not in use",
            link.name.escape_ascii(),
            link.directory,
            link.child
        );
        let action = Action::new("entry", place, codes, "the other names of the directory");
        patient.act(action.losing(Some(link.child), lost));
    }
}
