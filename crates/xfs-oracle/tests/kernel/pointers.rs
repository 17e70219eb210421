//! Compares every reference between inodes with the kernel's tree: names by lookup, and parents by
//! `..`, by parent pointers and by search.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use ferroxfs::admin::AgInode;
use ferroxfs::raw::format::IncompatFeatures;
use ferroxfs::{Error, InodeNumber, Node, PosixError, Result, Volume};
use xfs_oracle::{Differences, Tree};

use crate::ours::name;

/// Number of inodes whose paths are searched for on volumes without parent pointers. It is small
/// because each search reads every directory.
const SEARCHED: usize = 12;

pub(crate) fn check(volume: &Volume, kernel: &Tree, differences: &mut Differences) {
    for number in kernel.nodes.keys() {
        if let Err(error) = check_inode(volume, kernel, *number, differences) {
            differences.add(format!("inode {number}: {error}"));
        }
    }
    let has_parents = volume.superblock().has_incompat(IncompatFeatures::PARENT);
    if has_parents {
        for number in kernel.nodes.keys() {
            if let Err(error) = check_parents(volume, kernel, *number, differences) {
                differences.add(format!("parents of inode {number}: {error}"));
            }
        }
    }
    if let Err(error) = check_numbers(volume, kernel, differences) {
        differences.add(format!("inode chunks: {error}"));
    }
    let step = if has_parents { 1 } else { kernel.nodes.len().div_ceil(SEARCHED) };
    for number in kernel.nodes.keys().step_by(step) {
        check_paths(volume, kernel, *number, differences);
    }
}

/// Compares the inodes that the inode btrees mark as used with those that the kernel shows. Only
/// two more may be in use: the realtime bitmap and summary, which the kernel hides.
fn check_numbers(volume: &Volume, kernel: &Tree, differences: &mut Differences) -> Result<()> {
    let superblock = volume.superblock();
    let mut expected: BTreeSet<u64> = kernel.nodes.keys().copied().collect();
    expected.insert(superblock.realtime_bitmap_inode.0);
    expected.insert(superblock.realtime_summary_inode.0);
    let mut found = BTreeSet::new();
    for group in volume.geometry().groups() {
        for chunk in xfs_alloc::inode_chunks(volume.cache(), group)? {
            let chunk = chunk?;
            let in_use = (0..64).filter(|bit| chunk.allocated() & (1 << bit) != 0);
            let number = |bit| volume.geometry().join_inode(group, AgInode(chunk.start.0 + bit)).0;
            found.extend(in_use.map(number));
        }
    }
    differences.field("inode chunks", "in use", &expected, &found);
    Ok(())
}

/// Checks that each name of a directory leads to its inode, that some unknown names are not found,
/// and that `..` leads to the parent.
fn check_inode(
    volume: &Volume,
    kernel: &Tree,
    number: u64,
    differences: &mut Differences,
) -> Result<()> {
    let node = volume.node(InodeNumber(number))?;
    if !node.metadata().is_dir() {
        return Ok(());
    }
    let place = format!("directory {number}");
    let entries = kernel.nodes.get(&number).map(|node| &node.entries);
    for (entry_name, entry) in entries.into_iter().flatten() {
        let found = node.lookup(name(entry_name))?;
        let what = entry_name.escape_ascii().to_string();
        differences.field(&place, &what, &entry.inode, &found.number().0);
        if found.metadata().is_dir() {
            differences.field(&what, "..", &number, &found.parent()?.number().0);
        }
    }
    check_absent(&node, &place, differences);
    Ok(())
}

fn check_absent(node: &Node, place: &str, differences: &mut Differences) {
    for absent in ["no such entry", "entry", "entry 99999999"] {
        match node.lookup(absent.as_ref()) {
            Err(Error::Posix(PosixError::NotFound)) => {}
            other => differences.add(format!("{place}: {absent}: {other:?}")),
        }
    }
}

fn check_parents(
    volume: &Volume,
    kernel: &Tree,
    number: u64,
    differences: &mut Differences,
) -> Result<()> {
    let expected: BTreeSet<_> = paths(kernel, number).into_iter().collect();
    let mut found = BTreeSet::new();
    for parent in volume.node(InodeNumber(number))?.parents()? {
        let folder = volume.node(parent.directory)?;
        let generation = folder.metadata().generation;
        let place = format!("parent {} of inode {number}", parent.directory.0);
        differences.field(&place, "generation", &generation, &parent.generation);
        for path in paths(kernel, parent.directory.0) {
            let separator: &[u8] = if path == b"/" { b"" } else { b"/" };
            found.insert([path.as_slice(), separator, parent.name.as_bytes()].concat());
        }
    }
    if number == kernel.root {
        found.insert(b"/".to_vec());
    }
    differences.field(&format!("inode {number}"), "parents", &expected, &found);
    Ok(())
}

fn check_paths(volume: &Volume, kernel: &Tree, number: u64, differences: &mut Differences) {
    let place = format!("inode {number}");
    match volume.inode_paths(InodeNumber(number)) {
        Ok(whereabouts) => {
            let bytes = |path: &std::path::PathBuf| path.as_os_str().as_bytes().to_vec();
            let mut found: Vec<_> = whereabouts.paths.iter().map(bytes).collect();
            found.sort();
            let mut expected = paths(kernel, number);
            expected.sort();
            differences.field(&place, "whereabouts", &expected, &found);
            for finding in whereabouts.findings {
                differences.add(format!("{place}: {finding}"));
            }
        }
        Err(error) => differences.add(format!("paths of {place}: {error}")),
    }
}

/// Returns the paths of an inode in the kernel's tree, each with a leading `/`.
fn paths(kernel: &Tree, number: u64) -> Vec<Vec<u8>> {
    let node = kernel.nodes.get(&number);
    let absolute = |path: &Vec<u8>| [b"/", path.as_slice()].concat();
    node.into_iter().flat_map(|node| node.paths.iter().map(absolute)).collect()
}
