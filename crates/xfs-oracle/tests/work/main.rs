//! Performs seeded operations with the library (`ferroxfs`), and checks the resulting volumes with
//! the checker of ferroxfs alone.
//!
//! The operations are those of the model's histories, and a churn that makes every btree of a small
//! volume grow and shrink. No answer of the library is compared with anything.
//!
//! `cargo xtask mutants` runs this test on builds with a mistake in the allocator, the btrees or
//! the extent maps. A mistake is found if the checker has a finding.
//!
//! The test needs mkfs.xfs of `cargo xtask oracles`, and no root.

#[path = "../agreement/library.rs"]
#[allow(dead_code, reason = "the histories of this test use one folder")]
mod library;

mod churn;

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;

use ferroxfs::Volume;
use ferroxfs::device::SharedDevice;
use xfs_device::FileDevice;
use xfs_oracle::harness::{Trial, TrialError, patiently, run, seeds};
use xfs_oracle::model::{Abilities, Features, Generator, Model};
use xfs_oracle::{CheckerVerdict, Geometry, Subject, check_volume, guarded};
use xfs_testkit::CowDevice;

use churn::STAGES;
use library::Library;

/// The geometries: one with small blocks, whose btrees are deep, and one with the usual blocks.
const GEOMETRIES: [&str; 2] = ["parent-block-1k", "parent-exchange"];
/// Number of operations of a history.
const OPERATIONS: usize = 500;

fn main() -> ExitCode {
    let trials = seeds(1).flat_map(|seed| {
        GEOMETRIES.map(|name| {
            let title = format!("seeded_operations_leave_no_finding::{name}::{seed}");
            Trial::new(title, move || check(name, seed))
        })
    });
    run(trials.collect())
}

fn text(error: impl fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

/// Performs the stages of a churn, and then a history, on a volume of the geometry `name`. Checks
/// the volume after each of them.
fn check(name: &str, seed: u64) -> Result<(), TrialError> {
    let geometry = Geometry::ALL.into_iter().find(|geometry| geometry.name == name);
    let geometry = geometry.ok_or_else(|| text(format!("there is no geometry {name}")))?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let image = geometry.make(folder.path())?;
    let file = patiently(|| FileDevice::open(&image.data, xfs_device::FileOptions::read_only()));
    let device = Arc::new(CowDevice::new(Arc::new(file.map_err(text)?)));
    for stage in &STAGES {
        perform(&device, stage.name, |volume| churn::run(volume, stage, seed))?;
    }
    perform(&device, "history", |volume| history(volume, seed))
}

/// Opens the volume of `device`, calls `work` with it, closes it, and checks it with the checker of
/// ferroxfs. `what` names the work in an error.
fn perform(
    device: &Arc<CowDevice>,
    what: &str,
    work: impl FnOnce(Volume) -> ferroxfs::Result<()>,
) -> Result<(), TrialError> {
    let data: SharedDevice = device.clone();
    let options = ferroxfs::OpenOptions::new().write(true);
    let worked = guarded(|| -> Result<(), String> {
        let volume = options.with_devices(data, None).open().map_err(|error| error.to_string())?;
        work(volume).map_err(|error| error.to_string())
    });
    let stop = match worked {
        Ok(Ok(())) => None,
        Ok(Err(what)) | Err(what) => Some(what),
    };
    if let Some(stop) = &stop {
        println!("stopped: {what}: {stop}");
    }
    let findings = findings(device)?;
    for finding in &findings {
        println!("found: {what}: {finding}");
    }
    match (findings.len(), stop) {
        (0, None) => Ok(()),
        (0, Some(stop)) => Err(text(stop)),
        (count, _) => Err(text(format!("{what}: {count} findings"))),
    }
}

/// Returns the findings of the checker of ferroxfs. A volume with a dirty log is recovered first. A
/// volume with a clean log is not opened: an open would compute the counts of the superblock again,
/// and so hide wrong ones.
fn findings(device: &CowDevice) -> Result<Vec<String>, TrialError> {
    let copy: SharedDevice = Arc::new(device.fork());
    let mut verdict = check_volume(&copy, &copy);
    if verdict == CheckerVerdict::DirtyLog {
        let options = ferroxfs::OpenOptions::new().write(true);
        let recovered = guarded(|| options.with_devices(copy.clone(), None).recover());
        match recovered {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => println!("stopped: recovery: {error}"),
            Err(what) => println!("stopped: recovery: {what}"),
        }
        verdict = check_volume(&copy, &copy);
    }
    match verdict {
        CheckerVerdict::Findings(findings) => Ok(findings),
        verdict => Err(text(format!("the volume is not checked: {verdict:?}"))),
    }
}

/// Performs a random history. Its answers are not compared with anything.
fn history(volume: Volume, seed: u64) -> ferroxfs::Result<()> {
    let shape = volume.geometry();
    let features = Features {
        block_bytes: shape.block_size.into(),
        inode_bytes: shape.inode_size.into(),
        abilities: Abilities::REFLINK,
        section: None,
    };
    let folder = format!("history-{seed}");
    let mut library = Library::below(volume, &folder)?;
    let (mut model, mut generator) = (Model::new(features), Generator::new(seed, features));
    for _ in 0..OPERATIONS {
        let operation = generator.next(&model);
        // An operation that is refused is refused by both; a mistake shows on the disk.
        let _ = model.perform(&operation);
        let _ = library.perform(&operation);
    }
    library.close()
}
