//! The power fails while the library works: at any moment, keeping any part of what was not flushed.
//!
//! A history of one thread runs on a device that records what happens to it. For each cut the image
//! is recovered twice, by us and by the kernel. Then xfs_repair must find nothing in either, both
//! must show the same inodes, and what they show must be a state of the history that keeps every
//! promise of the syncs that had returned ([`Chronicle`]).
//!
//! `FERROXFS_SEED=N` runs one history. The log is written by threads, so that the requests come in
//! another order each time: the image of a cut that fails is kept, and named in the report.
//! `cargo xtask test --long`, or `FERROXFS_LONG=1`, makes 2,000 cuts.

#[path = "../agreement/library.rs"]
#[allow(dead_code, reason = "a volume that loses power is not closed")]
mod library;
#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ferroxfs::{BlockDevice, Volume};
use library::Library;
use xfs_device::FileDevice;
use xfs_oracle::harness::{Trial, TrialError, patiently, run};
use xfs_oracle::model::{Abilities, Bytes, Durable, Features, Generator, Model, Operation};
use xfs_oracle::{Chronicle, Differences, Geometry, Image, Subject, Tree, guarded, ready};
use xfs_testkit::{Atomicity, CowDevice, Cut, PowerCuts, Recording, RecordingDevice, Request};

/// Volumes on which the power fails.
const VOLUMES: [(&str, Features); 2] = [
    ("parent-exchange", features(4096, Abilities::all())),
    ("block-1k", features(1024, Abilities::REFLINK)),
];

const fn features(block_bytes: u64, abilities: Abilities) -> Features {
    Features { block_bytes, inode_bytes: 512, abilities }
}

/// Operations of a history.
const OPERATIONS: usize = 240;
/// After so many of them everything is made durable.
const SYNC_EVERY: usize = 40;
/// Cuts of one history.
const CUTS: u64 = 10;

fn main() -> ExitCode {
    let histories = if std::env::var_os("FERROXFS_LONG").is_some() { 100 } else { 1 };
    let seeds = match std::env::var("FERROXFS_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..histories,
    };
    let trials = seeds.flat_map(|seed| {
        VOLUMES.map(|(name, features)| {
            let title = format!("a_crash_keeps_every_promise::{name}::{seed}");
            Trial::new(title, move || check_history(name, features, seed))
        })
    });
    run(trials.collect())
}

fn check_history(name: &str, features: Features, seed: u64) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let geometry = Geometry::ALL.into_iter().find(|geometry| geometry.name == name);
    let image = geometry.ok_or_else(|| text("no such geometry"))?.make(folder.path())?;
    let about = |what: String| TrialError::Failed(format!("seed {seed}: {what}"));
    let history = History::record(&image, features, seed)?;
    let superblock = history.superblock.clone();
    let cuts = PowerCuts::new(&history.recording, Atomicity::of(&superblock));
    check_judge(&history, &image, folder.path())?;
    for number in 0..CUTS {
        let cut = cuts.sample(seed << 16 | number);
        let crashed = folder.path().join("crashed");
        std::fs::create_dir_all(&crashed).map_err(text)?;
        let crashed = history.materialise(&image, &cuts.after(cut), &crashed)?;
        if let Err(what) = check_cut(&history, &crashed, cut, folder.path()) {
            let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("crash-{seed}-{cut}"));
            std::fs::create_dir_all(&kept).map_err(text)?;
            history.materialise(&image, &cuts.after(cut), &kept)?;
            return Err(about(format!("cut {cut}, kept as {}: {what}", kept.display())));
        }
    }
    Ok(())
}

/// A judge that finds nothing would not find this either: the device is as it was halfway, and every
/// sync is said to have returned.
fn check_judge(history: &History, image: &Image, folder: &Path) -> Result<(), TrialError> {
    let halfway = history.recording.requests().len() / 2;
    let place = folder.join("judge");
    std::fs::create_dir_all(&place).map_err(text)?;
    let lost = history.materialise(image, &history.recording.replay(halfway), &place)?;
    recover(&lost)?;
    let volume = patiently(|| Volume::open(&lost.data)).map_err(text)?;
    let tree = ours::walk(&volume).map_err(text)?;
    let read = |path: &str| contents(&volume, path);
    match history.chronicle.judge(&tree, usize::MAX, read) {
        Err(_) => Ok(()),
        Ok(state) => {
            Err(text(format!("half a history passes for state {state}, all of it synced")))
        }
    }
}

fn file_name(image: &Image) -> &std::ffi::OsStr {
    image.data.file_name().unwrap_or_default()
}

/// A history that has been performed, and what it did to its device.
struct History {
    chronicle: Chronicle,
    operations: Vec<Operation>,
    recording: Recording,
    superblock: ferroxfs::Superblock,
}

impl History {
    fn record(image: &Image, features: Features, seed: u64) -> Result<Self, TrialError> {
        let file = FileDevice::open(&image.data, xfs_device::OpenOptions::read_only());
        let device = Arc::new(RecordingDevice::new(Arc::new(file.map_err(text)?)));
        let options = ferroxfs::OpenOptions::new().writable(true);
        let devices = options.with_devices(device.clone(), None);
        let volume = devices.writable_volume().map_err(text)?;
        let superblock = volume.superblock().clone();
        let mut library = Library::new(volume);
        let (mut model, mut generator) = (Model::new(features), Generator::new(seed, features));
        let (mut chronicle, mut operations) = (Chronicle::new(model.clone()), Vec::new());
        for number in 1..=OPERATIONS {
            let operation = match number % SYNC_EVERY {
                0 => Operation::Sync(Durable::Volume),
                _ => generator.next(&model),
            };
            let began = device.position();
            let (expected, found) = (model.perform(&operation), library.perform(&operation));
            if expected != found {
                let words = format!("seed {seed}: {operation:?} gave {found:?}, not {expected:?}");
                return Err(TrialError::Failed(words));
            }
            chronicle.note((&operation, &found), &model, (began, device.position()));
            operations.push(operation);
        }
        let recording = device.recording();
        Ok(Self { chronicle, operations, recording, superblock })
    }

    /// Writes what a cut left into a file in `folder`.
    fn materialise(
        &self,
        image: &Image,
        device: &CowDevice,
        folder: &Path,
    ) -> Result<Image, TrialError> {
        let _ = std::fs::remove_file(folder.join(file_name(image)));
        let copy = image.copy(folder)?;
        let file = OpenOptions::new().write(true).open(&copy.data).map_err(text)?;
        for request in self.recording.requests() {
            let (offset, length) = match request {
                Request::Write { offset, bytes, .. } => (*offset, bytes.len() as u64),
                Request::Discard { offset, length } => (*offset, *length),
                Request::Flush => continue,
            };
            let mut bytes = vec![0; length as usize];
            device.read_at(offset, &mut bytes).map_err(text)?;
            file.write_all_at(&bytes, offset).map_err(text)?;
        }
        Ok(copy)
    }
}

fn check_cut(history: &History, crashed: &Image, cut: Cut, folder: &Path) -> Result<(), String> {
    let words = |error: xfs_oracle::OracleError| error.to_string();
    let kernel = folder.join("kernel");
    std::fs::create_dir_all(&kernel).map_err(|error| error.to_string())?;
    let other = crashed.copy(&kernel).map_err(words)?;
    recover(crashed)?;
    if let Some(findings) = crashed.findings().map_err(words)? {
        return Err(format!("after our recovery xfs_repair -n says:\n{findings}"));
    }
    let volume = patiently(|| Volume::open(&crashed.data)).map_err(|error| error.to_string())?;
    let ours = ours::walk(&volume).map_err(|error| format!("our tree: {error}"))?;
    let state = history
        .chronicle
        .judge(&ours, cut.point(), |path| contents(&volume, path))
        .map_err(|what| format!("{what}\nthe history ends with {}", history.last(12)))?;
    drop(volume);
    let theirs = recovered_by_kernel(&other)
        .map_err(|what| format!("state {state}; the kernel's recovery: {what}"))?;
    Differences::between(&theirs, &ours)
        .into_result()
        .map_err(|what| format!("state {state}: {what}"))
}

impl History {
    fn last(&self, count: usize) -> String {
        let start = self.operations.len().saturating_sub(count);
        let last = self.operations.get(start..).unwrap_or_default();
        last.iter().map(|operation| format!("\n    {operation:?}")).collect()
    }
}

fn recover(image: &Image) -> Result<(), String> {
    let options = ferroxfs::OpenOptions::new().writable(true);
    let devices = patiently(|| options.open_devices(&image.data));
    let devices = devices.map_err(|error| error.to_string())?;
    let recovered = guarded(|| devices.recover()).map_err(|what| format!("recovery: {what}"))?;
    recovered.map(drop).map_err(|error| format!("our recovery fails: {}", chain(&error)))
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|error| error.to_string()).collect::<Vec<_>>().join(": ")
}

fn recovered_by_kernel(image: &Image) -> Result<Tree, String> {
    let words = |error: xfs_oracle::OracleError| error.to_string();
    image.mount(&[]).map_err(words)?.unmount().map_err(words)?;
    if let Some(findings) = image.findings().map_err(words)? {
        return Err(format!("xfs_repair -n says:\n{findings}"));
    }
    let mount = image.mount(&["ro"]).map_err(words)?;
    let tree = Tree::walk(mount.path()).map_err(words)?;
    mount.unmount().map_err(words)?;
    Ok(tree)
}

/// A whole file, its holes left out.
fn contents(volume: &Volume, path: &str) -> Result<Bytes, String> {
    let words = |error: ferroxfs::Error| format!("{path}: {error}");
    let file = volume.lookup_no_follow(path).and_then(|node| node.open()).map_err(words)?;
    let mut bytes = Bytes::new(volume.geometry().block_size.into());
    let size = file.metadata().size;
    let mut at = 0;
    while let Some(start) = file.seek_data(at).map_err(words)?.filter(|start| *start < size) {
        let end = file.seek_hole(start).map_err(words)?.unwrap_or(size).min(size);
        let mut part = vec![0; (end - start) as usize];
        let read = file.read_at(start, &mut part).map_err(words)?;
        bytes.write(start, part.get(..read).unwrap_or_default());
        at = end;
    }
    bytes.resize(size);
    Ok(bytes)
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
