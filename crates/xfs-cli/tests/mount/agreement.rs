//! A test that runs a seeded history of all operations that FUSE passes on. Each answer of the
//! mount is compared with that of the model. The final tree is compared with the tree that the
//! kernel's XFS finds on the volume.
//!
//! `FERROXFS_SEED=N` repeats one history; `FERROXFS_LONG=1` runs 20 of them.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use xfs_oracle::harness::TrialError;
use xfs_oracle::model::{Abilities, AllocationMode, Features, Generator, Model, Operation, SLOTS};
use xfs_oracle::{FileFlags, Kernel, Subject, Time, Tree};

use crate::mounted::mounted;

const OPERATIONS: usize = 2_000;
const FEATURES: Features =
    Features { block_bytes: 4096, inode_bytes: 512, abilities: Abilities::VOLUME, section: None };

pub(crate) fn mount_agrees_with_the_model() -> Result<(), TrialError> {
    check_seeds("noatime,suid,dev")
}

pub(crate) fn writeback_mount_agrees_with_the_model() -> Result<(), TrialError> {
    check_seeds("noatime,suid,dev,writeback_cache")
}

pub(crate) fn checking_mount_agrees_with_the_model() -> Result<(), TrialError> {
    check_seeds("noatime,suid,nodefault_permissions")
}

fn check_seeds(options: &str) -> Result<(), TrialError> {
    let seed = std::env::var("FERROXFS_SEED").ok().and_then(|seed| seed.parse().ok());
    let count = if std::env::var_os("FERROXFS_LONG").is_some() { 20 } else { 1 };
    let mut seeds = seed.map_or(0..count, |seed| seed..seed + 1);
    seeds.try_for_each(|seed| check(seed, options))
}

fn check(seed: u64, options: &str) -> Result<(), TrialError> {
    let mut volume = mounted(options)?;
    let root = volume.at("judged");
    fs::create_dir(&root).unwrap();
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let since = Time { seconds: seconds as i64 - 1, nanoseconds: 0 };
    let mut kernel = Kernel::new(&root);
    let (mut generator, mut model) = (Generator::new(seed, FEATURES), Model::new(FEATURES));
    let mut history = Vec::new();
    let mut perform = |operation: Operation, model: &mut Model| {
        let (expected, found) = (model.perform(&operation), kernel.perform(&operation));
        history.push(operation);
        if expected == found {
            return Ok(());
        }
        let last = &history[history.len().saturating_sub(20)..];
        let last: Vec<_> = last.iter().map(|done| format!("    {done:?}")).collect();
        let last = last.join("\n");
        let what = format!("seed {seed}: expected {expected:?}, found {found:?}, after\n{last}");
        Err(TrialError::Failed(what))
    };
    for _ in 0..OPERATIONS {
        let operation = generator.next(&model);
        if is_carried(&operation) && is_judged(&operation) {
            perform(operation, &mut model)?;
        }
    }
    (0..SLOTS).try_for_each(|slot| perform(Operation::Close { slot }, &mut model))?;
    drop(kernel);
    volume.unmount();
    let mount = volume.image.mount(&["ro"])?;
    let differences = model.differences(&Tree::walk(mount.path())?, "judged", since);
    differences.into_result().map_err(|what| format!("seed {seed}: {what}"))?;
    mount.unmount()?;
    volume.check()
}

/// Returns whether the kernel's FUSE passes the operation to its server (docs/mount-differences.md
/// has the list). Returns false also for operations that set the flags immutable or append-only:
/// FUSE does not know these flags, and therefore may return other errors first.
fn is_carried(operation: &Operation) -> bool {
    use AllocationMode::{Collapse, Insert, Unshare};
    if let Operation::SetFlags { settings, .. } = operation {
        return !settings.flags.intersects(FileFlags::IMMUTABLE | FileFlags::APPEND);
    }
    !matches!(
        operation,
        Operation::Clone(_)
            | Operation::Deduplicate(_)
            | Operation::Exchange(_)
            | Operation::Allocate { mode: Collapse | Insert | Unshare, .. }
    )
}

/// Returns whether the model predicts the answer of a mount to the operation. The model's rules for
/// the other operations have been compared only with the library and the kernel's XFS so far.
fn is_judged(operation: &Operation) -> bool {
    if let Operation::SetFlags { settings, .. } = operation {
        let flags = FileFlags::SYNC | FileFlags::NOSYMLINKS | FileFlags::EXTENT_SIZE;
        return !settings.flags.intersects(flags);
    }
    let is_list = |name: &str| name.starts_with("system.");
    !matches!(
        operation,
        Operation::SetList { .. }
            | Operation::WritePieces { .. }
            | Operation::ReadPieces { .. }
            | Operation::Scan { .. }
    ) && !matches!(operation, Operation::RemoveAttribute { name, .. } if is_list(name))
}
