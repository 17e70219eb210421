//! Tests in which other programs check the names that ferroxfs has written. `xfs_repair -n` must
//! find nothing, and the kernel must show the paths, inodes and attributes of the model, after an
//! unmount and after a simulated crash.
#![allow(clippy::indexing_slicing, reason = "what fails here fails the test")]

#[path = "../it/names.rs"]
mod names;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;

use tempfile::TempDir;
use xfs_alloc::open_journal;
use xfs_buffer::BufferCache;
use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_dir::ParentPath;
use xfs_format::features::VersionFlags;
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, Tree, ready};
use xfs_trans::Journal;
use xfs_trans::testing::{JournalParts, parts, superblock};

use names::{Model, Names, Shown};

/// Number of operations for each geometry and seed.
const STEPS: usize = 2500;

/// The number of chains of transactions that the test interrupts, for each geometry. The test
/// copies the image in the middle of a chain. The copy is as a crash at that moment would leave the
/// image.
const CHAINS: usize = 12;

fn main() -> ExitCode {
    let names = [
        "default",
        "block-1k",
        "directory-64k-block-1k",
        "block-64k",
        "inode-2k",
        "no-finobt",
        "newest",
        "parent",
        "parent-block-1k",
        "parent-inode-2k-directory-64k",
    ];
    let geometries = Geometry::ALL.into_iter().filter(|geometry| names.contains(&geometry.name));
    let mut trials = Vec::new();
    for (geometry, seed) in geometries.zip(41..) {
        let has_parents = geometry.name.contains("parent");
        let paths = [ParentPath::Direct, ParentPath::Intents];
        for path in paths.into_iter().take(if has_parents { 2 } else { 1 }) {
            for cut in [false, true] {
                let end = if cut { "cut" } else { "unmounted" };
                let name = format!("names::{}::{path:?}::{end}", geometry.name);
                trials.push(Trial::new(name, move || check(&geometry, seed, path, cut)));
            }
        }
        if has_parents {
            let name = format!("promised_parents::{}", geometry.name);
            trials.push(Trial::new(name, move || check_promises(&geometry, seed)));
        }
    }
    for geometry in Geometry::ALL {
        if ["default", "block-1k", "parent"].contains(&geometry.name) {
            let name = format!("half_set_values::{}", geometry.name);
            trials.push(Trial::new(name, move || check_half_set(&geometry)));
        }
    }
    run(trials)
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn folder() -> Result<TempDir, TrialError> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)
}

fn check(geometry: &Geometry, seed: u64, path: ParentPath, cut: bool) -> Result<(), TrialError> {
    ready()?;
    let folder = folder()?;
    let image = geometry.make(folder.path())?;
    let journal = open(&image)?;
    let mut names = Names::new(&journal, seed, path);
    for step in 0..STEPS {
        names.step(step % (STEPS / 2) < STEPS / 3).map_err(failed)?;
    }
    names.model().check_open(journal.cache());
    journal.force_all().map_err(failed)?;
    let model = names.into_model();
    if cut {
        drop(journal);
    } else {
        journal.unmount().map_err(failed)?;
    }
    judge(&image, &model, cut)
}

/// Copies the image between two transactions of a chain, while intents of parent pointers are open.
/// The kernel must finish the intents of each copy.
fn check_promises(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready()?;
    let folder = folder()?;
    let image = Arc::new(geometry.make(folder.path())?);
    let journal = open(&image)?;
    let mut names = Names::new(&journal, seed, ParentPath::Intents);
    for step in 0..STEPS / 2 {
        names.step(step % 300 < 200).map_err(failed)?;
    }
    let mut chains = 0;
    for _ in 0..20 * CHAINS {
        let copies = Rc::new(RefCell::new(Vec::new()));
        let (source, kept) = (Arc::clone(&image), Rc::clone(&copies));
        names.between_steps = Some(Box::new(move || {
            let folder = folder_of_copy();
            let copy = source.copy(folder.path()).expect("room for a copy");
            kept.borrow_mut().push((folder, copy));
        }));
        names.step(true).map_err(failed)?;
        names.between_steps = None;
        for (_folder, copy) in copies.take() {
            chains += 1;
            judge(&copy, names.model(), true)?;
        }
        if chains >= CHAINS {
            break;
        }
    }
    drop(names);
    journal.unmount().map_err(failed)
}

fn folder_of_copy() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for a copy")
}

fn open(image: &Image) -> Result<Arc<Journal>, TrialError> {
    let JournalParts { cache, log, superblock } = parts(&device(image)?, 1);
    open_journal(cache, log, &superblock).map_err(failed)
}

fn device(image: &Image) -> Result<SharedDevice, TrialError> {
    Ok(Arc::new(FileDevice::open(&image.data, FileOptions::read_write()).map_err(failed)?))
}

/// Checks the image with `xfs_repair -n`, which must find nothing, and compares with `model` the
/// files that the kernel and ferroxfs show. If `replays` is set, the kernel replays the log first.
fn judge(image: &Image, model: &Model, replays: bool) -> Result<(), TrialError> {
    if replays {
        image.mount(&[])?.unmount()?;
    }
    expect_sound(image)?;
    let mount = image.mount(&["ro"])?;
    let compared = compare(mount.path(), &model.shown());
    mount.unmount()?;
    compared?;
    let device = device(image)?;
    let superblock = superblock(&device);
    let has_attributes = model.shown().values().any(|shown| !shown.attributes.is_empty());
    if has_attributes && !superblock.version_flags.contains(VersionFlags::ATTR) {
        return Err(failed("the superblock does not say that inodes have attributes"));
    }
    let geometry = Arc::new(superblock.geometry);
    model.check(&BufferCache::new(device, geometry, 8 << 20));
    Ok(())
}

/// Copies the image during chains that set long values, when the blocks of a value are mapped but
/// no attribute names them. In each copy the old attributes must be present, `xfs_repair` must find
/// nothing, and the kernel must be able to change the attributes further.
fn check_half_set(geometry: &Geometry) -> Result<(), TrialError> {
    ready()?;
    let folder = folder()?;
    let image = Arc::new(geometry.make(folder.path())?);
    let journal = open(&image)?;
    let mut names = Names::new(&journal, 61, ParentPath::Direct);
    names.cuts_values = true;
    for step in 0..200 {
        names.step(step < 150).map_err(failed)?;
    }
    for _ in 0..CHAINS {
        let copies = Rc::new(RefCell::new(Vec::new()));
        let (source, kept) = (Arc::clone(&image), Rc::clone(&copies));
        names.between_steps = Some(Box::new(move || {
            let folder = folder_of_copy();
            let copy = source.copy(folder.path()).expect("room for a copy");
            kept.borrow_mut().push((folder, copy));
        }));
        let before = names.model().shown();
        names.set_long().map_err(failed)?;
        names.between_steps = None;
        for (_folder, copy) in copies.take() {
            copy.mount(&[])?.unmount()?;
            expect_sound(&copy)?;
            let mount = copy.mount(&[])?;
            let compared = compare(mount.path(), &before);
            remove_attributes(mount.path())?;
            mount.unmount()?;
            compared?;
            expect_sound(&copy)?;
        }
    }
    drop(names);
    journal.unmount().map_err(failed)
}

fn expect_sound(image: &Image) -> Result<(), TrialError> {
    match image.findings()? {
        Some(findings) => Err(failed(format!("xfs_repair -n: {findings}"))),
        None => Ok(()),
    }
}

/// Removes the user attributes of everything in the root directory, through the kernel.
fn remove_attributes(root: &Path) -> Result<(), TrialError> {
    for entry in std::fs::read_dir(root).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let mut names = vec![0; 1 << 16];
        let length = rustix::fs::listxattr(&path, &mut names[..]).map_err(failed)?;
        names.truncate(length);
        for name in names.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
            rustix::fs::removexattr(&path, name).map_err(failed)?;
        }
    }
    Ok(())
}

/// Compares what the kernel shows below `root` with the expected contents.
fn compare(root: &Path, expected: &BTreeMap<u64, Shown>) -> Result<(), TrialError> {
    let tree = Tree::walk(root)?;
    let found: BTreeMap<u64, Shown> = tree
        .nodes
        .into_iter()
        .map(|(number, node)| {
            let is_directory = node.mode & 0o170_000 == 0o040_000;
            let links = if is_directory { 0 } else { node.links as usize };
            let entries = node.entries.into_iter().map(|(name, entry)| (name, entry.inode));
            let attributes = node.attributes;
            (number, Shown { links, entries: entries.collect(), attributes })
        })
        .collect();
    for (number, shown) in expected {
        if found.get(number) != Some(shown) {
            return Err(failed(format!("inode {number} is not what the kernel shows")));
        }
    }
    if found.len() != expected.len() {
        let (found, expected) = (found.len(), expected.len());
        return Err(failed(format!("the kernel shows {found} inodes, not {expected}")));
    }
    Ok(())
}
