//! Names that we write, as others see them: `xfs_repair -n` finds nothing to say, and the kernel
//! shows the paths, inodes and attributes of the model, after an unmount and after a crash.

#[path = "../workload/names.rs"]
mod names;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use xfs_alloc::open_journal;
use xfs_device::{FileDevice, OpenOptions, SharedDevice};
use xfs_dir::ParentPath;
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, Tree, ready};
use xfs_trans::testing::{Parts, parts};

use names::{Model, Names, Shown};

/// Of each geometry, with each seed.
const STEPS: usize = 2500;

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
    let trials = geometries.zip(41..).flat_map(|(geometry, seed)| {
        let paths = [ParentPath::Direct, ParentPath::Intents];
        let count = if geometry.name.contains("parent") { 2 } else { 1 };
        paths.into_iter().take(count).flat_map(move |path| {
            [false, true].map(|cut| {
                let end = if cut { "cut" } else { "unmounted" };
                let name = format!("names::{}::{path:?}::{end}", geometry.name);
                Trial::new(name, move || check(&geometry, seed, path, cut))
            })
        })
    });
    run(trials.collect())
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn check(geometry: &Geometry, seed: u64, path: ParentPath, cut: bool) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)?;
    let image = geometry.make(folder.path())?;
    let model = change(&image, seed, path, cut)?;
    if cut {
        // The kernel replays what we have left in the log.
        image.mount(&[])?.unmount()?;
    }
    if let Some(findings) = image.findings()? {
        return Err(failed(format!("xfs_repair -n: {findings}")));
    }
    let mount = image.mount(&["ro"])?;
    let compared = compare(mount.path(), &model);
    mount.unmount()?;
    compared
}

/// Runs the workload on the image, and leaves it unmounted or as a crash would.
fn change(image: &Image, seed: u64, path: ParentPath, cut: bool) -> Result<Model, TrialError> {
    let device: SharedDevice =
        Arc::new(FileDevice::open(&image.data, OpenOptions::read_write()).map_err(failed)?);
    let Parts { cache, log, superblock } = parts(&device, 1);
    let journal = open_journal(cache, log, &superblock).map_err(failed)?;
    let mut names = Names::new(&journal, seed, path);
    for step in 0..STEPS {
        names.step(step % (STEPS / 2) < STEPS / 3).map_err(failed)?;
    }
    journal.force_all().map_err(failed)?;
    let model = names.into_model();
    if !cut {
        journal.unmount().map_err(failed)?;
    }
    Ok(model)
}

/// Compares what the kernel shows with the model.
fn compare(root: &Path, model: &Model) -> Result<(), TrialError> {
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
    let expected = model.shown();
    for (number, shown) in &expected {
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
