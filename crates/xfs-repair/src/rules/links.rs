//! Rule *links*: corrects link counts from the decided tree (the tree of names that `resolve` has
//! chosen).

use std::collections::BTreeMap;

use xfs_check::Place;
use xfs_format::InodeNumber;

use super::names::Names;
use crate::action::Action;
use crate::error::RepairError;
use crate::patient::Patient;

/// The link count with which XFS marks an inode that has too many links to count. It is never
/// changed again.
const PINNED: u32 = u32::MAX;

/// Corrects the link counts that differ from the number of names. A directory has two links of its
/// own, and one for each directory in it.
///
/// # Errors
///
/// The first error of the overlay.
pub(crate) fn run(patient: &mut Patient, names: &Names<'_>) -> Result<(), RepairError> {
    let mut counts: BTreeMap<InodeNumber, u32> = BTreeMap::new();
    for link in &names.tree.links {
        if names.tree.is_directory(names.facts, link.child) {
            *counts.entry(link.directory).or_default() += 1;
        } else {
            *counts.entry(link.child).or_default() += 1;
        }
    }
    let members = names.facts.members.iter().map(|(number, member)| (*number, Some(member.links)));
    let made = names.tree.made.keys().map(|number| (*number, None));
    for (inode, stored) in members.chain(made) {
        let is_directory = names.tree.is_directory(names.facts, inode);
        let has_name = names.links_to(inode).next().is_some() || names.facts.is_root(inode);
        if names.facts.reserved.contains(&inode) || stored == Some(PINNED) || !has_name {
            continue;
        }
        let of_names = counts.get(&inode).copied().unwrap_or(0);
        let count = of_names.saturating_add(if is_directory { 2 } else { 0 });
        if stored != Some(count) {
            write(patient, names, inode, count)?;
        }
    }
    Ok(())
}

fn write(
    patient: &mut Patient,
    names: &Names<'_>,
    inode: InodeNumber,
    count: u32,
) -> Result<(), RepairError> {
    patient.set_inode(inode, |core| core.nlink = count)?;
    let place = Place::of_inode(inode, patient.geometry());
    let keeps = format!("{count} links, as many as there are names");
    patient.act(Action::new("links", place, names.damage.codes_of(inode), keeps));
    Ok(())
}
