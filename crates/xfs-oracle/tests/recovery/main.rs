//! Comparison with the kernel's recovery. A mount in the kernel recovers one copy of a volume with
//! a dirty log, and ferroxfs another copy.
//!
//! Before that, the log is decoded to its last item, and xfs_logprint must find as many items.
//! After ferroxfs's recovery, xfs_repair must find nothing, and the trees must be equal inode by
//! inode. A read-only open must show the same tree, because it replays the log in memory. A
//! recovery that a failing device interrupts, and that is repeated, must end in the same tree.
//!
//! `cargo xtask test --long`, or `FERROXFS_LONG=1`, runs 350 crashes instead of 17. `FERROXFS_SEED`
//! chooses the seeds of the crashes during all operations.

#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;

mod odd;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use ferroxfs::device::Devices;
use ferroxfs::raw::log::{LogReader, find_head_and_tail};
use ferroxfs::{OpenError, OpenOptions};
use xfs_device::{FileDevice, SharedDevice};
use xfs_oracle::harness::{Trial, TrialError, patiently, run, seeds};
use xfs_oracle::model::{Abilities, Features};
use xfs_oracle::{CrashLoad, CrashRecipe, Differences, Image, Tree, ready};
use xfs_testkit::{CowDevice, FailingDevice, Fault, Persistence, RequestKind};

const CRASHES: [CrashRecipe; 5] = [
    CrashRecipe {
        name: "flushed",
        options: "-n parent=0 -m rmapbt=1",
        external_log: false,
        load: CrashLoad::Names,
        operations: 3000,
        sync_every: 700,
        flushes: true,
    },
    CrashRecipe {
        name: "not-flushed",
        options: "-n parent=0",
        external_log: false,
        load: CrashLoad::Names,
        operations: 2500,
        sync_every: 1000,
        flushes: false,
    },
    CrashRecipe {
        name: "parent",
        options: "-n parent=1",
        external_log: false,
        load: CrashLoad::Names,
        operations: 2000,
        sync_every: 600,
        flushes: true,
    },
    CrashRecipe {
        name: "external-log-parent",
        options: "-n parent=1 -m rmapbt=0 -b size=1024",
        external_log: true,
        load: CrashLoad::Names,
        operations: 2000,
        sync_every: 900,
        flushes: false,
    },
    // The smallest log of such a volume, which wraps several times.
    CrashRecipe {
        name: "wrapped-log",
        options: "-n parent=0 -l size=16m,su=32k -m rmapbt=0,reflink=0",
        external_log: false,
        load: CrashLoad::Names,
        operations: 100_000,
        sync_every: 100,
        flushes: true,
    },
];

/// Recipes of volumes to which operations of every kind were applied. Their logs have open intents,
/// unlinked files, and blocks for copy-on-write.
const EVERYTHING: [CrashRecipe; 3] = [
    CrashRecipe {
        name: "everything",
        options: "-n parent=0 -m rmapbt=1",
        external_log: false,
        load: CrashLoad::Everything(features(4096, Abilities::REFLINK)),
        operations: 1200,
        sync_every: usize::MAX,
        flushes: true,
    },
    CrashRecipe {
        name: "everything-parent",
        options: "-n parent=1 -i exchange=1",
        external_log: false,
        load: CrashLoad::Everything(features(4096, Abilities::VOLUME)),
        operations: 900,
        sync_every: usize::MAX,
        flushes: true,
    },
    CrashRecipe {
        name: "everything-not-flushed",
        options: "-b size=1024",
        external_log: true,
        load: CrashLoad::Everything(features(1024, Abilities::REFLINK)),
        operations: 1200,
        sync_every: usize::MAX,
        flushes: false,
    },
];

const fn features(block_bytes: u64, abilities: Abilities) -> Features {
    Features { block_bytes, inode_bytes: 512, abilities, section: None }
}

fn main() -> ExitCode {
    let (few, many) = if std::env::var_os("FERROXFS_LONG").is_some() { (10, 100) } else { (1, 4) };
    let trial = |crash: CrashRecipe, number: u64| {
        let name = format!("same_recovery_as_the_kernel::{}::{number}", crash.name);
        Trial::new(name, move || check_crash(&crash, number))
    };
    let names = (0..few).flat_map(|number| CRASHES.map(|crash| trial(crash, number)));
    let everything = seeds(many).flat_map(|number| EVERYTHING.map(|crash| trial(crash, number)));
    let odd = [2, 6, 20].map(|before_last| {
        let name = format!("odd_record_is_replayed_as_by_the_kernel_or_refused::{before_last}");
        Trial::new(name, move || odd::check(before_last))
    });
    run(names.chain(everything).chain(odd).collect())
}

fn check_crash(crash: &CrashRecipe, seed: u64) -> Result<(), TrialError> {
    ready()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let image = crash.make(folder.path(), seed)?;
    let about = |reason| TrialError::Failed(format!("seed {seed}: {reason}"));
    let (found, expected) = (decode(&image)?, image.logged()?);
    if found != expected {
        return Err(about(format!("{found:?} in the log, where xfs_logprint has {expected:?}")));
    }
    let volume = open(&image).map_err(|error| about(error.to_string()))?;
    let cycle = volume.log_state().map_or(0, |state| state.head.cycle());
    if crash.name == "wrapped-log" && cycle < 2 {
        return Err(about("the log has not wrapped".to_owned()));
    }
    let shown = ours::walk(&volume).map_err(text)?;
    check_image(&image, &shown, seed == 0).map_err(|error| match error {
        TrialError::Failed(reason) => about(reason),
        other => other,
    })
}

/// Decodes all items of the log. Returns the number of transactions and the number of items.
fn decode(image: &Image) -> Result<(usize, usize), TrialError> {
    let devices = options(image).open_devices(&image.data).map_err(text)?;
    let superblock = devices.describe().map_err(text)?.superblock;
    let log = devices.log(&superblock).ok_or_else(|| text("no log"))?.map_err(text)?;
    let state = find_head_and_tail(&log).map_err(text)?;
    let mut reader = LogReader::new(&log, &state);
    let (mut transactions, mut items) = (0, 0);
    while let Some(transaction) = reader.next_transaction().map_err(text)? {
        transactions += 1;
        for item in transaction.items().map_err(text)? {
            item.map_err(text)?;
            items += 1;
        }
    }
    Ok((transactions, items))
}

/// Checks that ferroxfs recovers an image as the kernel does. `shown` is the tree that a read-only
/// open of the image shows. If `interrupts` is true, also checks interrupted recoveries.
fn check_image(image: &Image, shown: &Tree, interrupts: bool) -> Result<(), TrialError> {
    let kernel = {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
        let copy = image.copy(folder.path())?;
        copy.mount(&[])?.unmount()?;
        let mount = copy.mount(&["ro"])?;
        let tree = Tree::walk(mount.path())?;
        mount.unmount()?;
        tree
    };
    Differences::between(&kernel, shown).into_result()?;
    // A separate file, because the kernel may release a mounted image with a delay.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let copy = image.copy(folder.path())?;
    let summary = writable(&copy)?.recover().map_err(text)?;
    if summary.is_none_or(|summary| summary.items == 0) {
        return Err(TrialError::Failed("there was nothing to recover".to_owned()));
    }
    let findings = copy.findings()?;
    if let Some(findings) = &findings
        && !is_left_damaged(image)?
    {
        return Err(TrialError::Failed(format!("xfs_repair -n says:\n{findings}")));
    }
    let volume = open(&copy).map_err(text)?;
    if !volume.log_state().is_some_and(|state| state.clean) {
        return Err(TrialError::Failed("the log is dirty after the recovery".to_owned()));
    }
    Differences::between(&kernel, &ours::walk(&volume).map_err(text)?).into_result()?;
    if interrupts {
        check_interrupted(image, &kernel)?;
    }
    if findings.is_some() {
        return Ok(());
    }
    // The kernel accepts our log as clean, and continues from there.
    let mount = copy.mount(&[])?;
    std::fs::create_dir(mount.path().join("after the recovery")).map_err(text)?;
    mount.unmount()?;
    match copy.findings()? {
        None => Ok(()),
        Some(findings) => Err(TrialError::Failed(format!("after a mount:\n{findings}"))),
    }
}

/// Returns whether xfs_repair finds damage after the kernel's own recovery. If the power fails
/// while the kernel frees the attributes of a deleted file, its log may leave an attribute node
/// that does not verify. The file then stays unlinked but not freed, after any recovery.
fn is_left_damaged(image: &Image) -> Result<bool, TrialError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let copy = image.copy(folder.path())?;
    copy.mount(&[])?.unmount()?;
    Ok(copy.findings()?.is_some())
}

/// Checks that an interrupted and repeated recovery has the result of an uninterrupted one.
fn check_interrupted(image: &Image, recovered: &Tree) -> Result<(), TrialError> {
    let faults = [1, 2, 3, 7, 20].map(|nth| (RequestKind::Write, nth));
    for (kind, nth) in faults.into_iter().chain([1, 2, 3].map(|nth| (RequestKind::Flush, nth))) {
        let (data, log) = (failing(&image.data)?, image.log.as_deref().map(failing).transpose()?);
        let both = || [Some(&data), log.as_ref()].into_iter().flatten();
        let set = |fault| both().for_each(|device| device.set_fault(fault));
        let devices = |writes| {
            let log = log.clone().map(|log| log as SharedDevice);
            OpenOptions::new().write(writes).with_devices(data.clone(), log)
        };
        set(Some(Fault { kind, nth, persistence: Persistence::Forever }));
        let first = devices(true).recover();
        if both().any(|device| device.failures() > 0) && first.is_ok() {
            return Err(TrialError::Failed(format!("{kind:?} {nth} failed without an error")));
        }
        set(None);
        let about = |what: String| TrialError::Failed(format!("{kind:?} {nth} failed: {what}"));
        devices(true).recover().map_err(|error| about(error.to_string()))?;
        let volume = devices(false).open().map_err(|error| about(error.to_string()))?;
        if !volume.log_state().is_some_and(|state| state.clean) {
            return Err(about("the log is still dirty".to_owned()));
        }
        let shown = ours::walk(&volume).map_err(|error| about(error.to_string()))?;
        Differences::between(recovered, &shown).into_result().map_err(about)?;
    }
    Ok(())
}

/// Returns a device in memory that has the contents of a file. Requests to the device can be made
/// to fail. The file itself is not changed.
fn failing(path: &Path) -> Result<Arc<FailingDevice>, TrialError> {
    let file = FileDevice::open(path, xfs_device::FileOptions::read_only()).map_err(text)?;
    Ok(Arc::new(FailingDevice::new(Arc::new(CowDevice::new(Arc::new(file))), 1)))
}

fn options(image: &Image) -> OpenOptions {
    match &image.log {
        Some(log) => OpenOptions::new().log_device(log),
        None => OpenOptions::new(),
    }
}

fn open(image: &Image) -> Result<ferroxfs::Volume, OpenError> {
    patiently(|| options(image).open(&image.data))
}

fn writable(image: &Image) -> Result<Devices, TrialError> {
    patiently(|| options(image).write(true).open_devices(&image.data)).map_err(text)
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
