//! A device whose n-th request fails, for n = 1, 2, 3 and so on, during a script of every
//! operation.
//!
//! The affected operation must fail without any effect, or the volume must shut down. After a
//! shutdown, recovery must give a state of the history that keeps every promise of the syncs that
//! had returned. If the request of a background thread failed, a later operation must report the
//! failure.

use std::sync::Arc;

use rustix::io::Errno;
use xfs_oracle::harness::TrialError;
use xfs_oracle::model::{Durable, Model, Operation};
use xfs_oracle::{CrashHistory, Geometry, Subject, guarded, ready_with_programs};
use xfs_testkit::{CowDevice, FailingDevice, Fault, Persistence, Prng, RequestKind};

use crate::disks::VolumeDisks;
use crate::history::{prepare, recover, writable};
use crate::judge::CrashCase;
use crate::library::Library;
use crate::volumes::make;
use crate::{is_long, script, text};

/// The distance between two requests of a kind that fail in a short run, each in a trial of its
/// own. The first request of each kind fails too.
const SHORT_SHARE: u64 = 48;
/// The share of tried failures after which xfs_repair checks the recovered volume in a short run:
/// one in this number.
const REPAIRED_SHARE: u64 = 4;
/// Number of operations in a script between two syncs.
const SYNC_EVERY: usize = 12;

pub(crate) fn check(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = make(geometry, folder.path())?;
    let (start, model) = prepare((geometry, &image), features, &script::preparation(features))?;
    let operations = script(&model, seed);
    let share = if is_long() { 1 } else { SHORT_SHARE };
    let faults = [RequestKind::Write, RequestKind::Flush, RequestKind::Read].into_iter();
    let faults =
        faults.flat_map(|kind| [Persistence::Once, Persistence::Forever].map(|p| (kind, p)));
    for (kind, persistence) in faults {
        let mut failures = 0;
        // The first one always, because there are few of some kinds.
        for nth in std::iter::once(1).chain((seed % share + 2..).step_by(share as usize)) {
            let fault = Fault { kind, nth, persistence };
            let is_repaired = is_long() || nth / share % REPAIRED_SHARE == 0;
            let check = || -> Result<bool, String> {
                let attempt = ScriptAttempt::run(&start, &model, &operations, (fault, seed))?;
                let recovery = recover(attempt.device)?;
                let recovered = recovery.replay(usize::MAX);
                let judge = CrashCase {
                    states: &attempt.states,
                    point: usize::MAX,
                    image: &image,
                    folder: folder.path(),
                };
                judge.state(recovered.fork())?;
                if is_repaired {
                    judge.repair(&recovered)?;
                }
                Ok(attempt.has_failed)
            };
            let has_failed =
                check().map_err(|what| text(format!("seed {seed}, {fault:?}: {what}")))?;
            if !has_failed {
                break;
            }
            failures += 1;
        }
        if is_long() {
            println!("{}, seed {seed}: {failures} times a {kind:?} failed", geometry.name);
        }
        if failures == 0 {
            return Err(text(format!("seed {seed}: no {kind:?} has ever failed")));
        }
    }
    Ok(())
}

/// Returns every operation in random order, with syncs in between. Each operation is preceded by
/// operations that restore the missing parts of the tree.
fn script(model: &Model, seed: u64) -> Vec<Operation> {
    let mut prng = Prng::new(seed);
    let mut rest = script::operations(model.features());
    let mut model = model.clone();
    let mut script = Vec::new();
    while !rest.is_empty() {
        let mut next = script::repair(&model);
        next.push(rest.swap_remove(prng.within(0..rest.len())));
        if rest.len().is_multiple_of(SYNC_EVERY) {
            next.push(Operation::Sync(Durable::Volume));
        }
        for operation in next {
            let _ = model.perform(&operation);
            script.push(operation);
        }
    }
    script
}

/// The result of performing a script until the device failed or the script ended.
struct ScriptAttempt {
    states: CrashHistory,
    /// The contents of the device at the end of the attempt.
    device: CowDevice,
    /// Whether any request has failed.
    has_failed: bool,
}

impl ScriptAttempt {
    fn run(
        start: &CowDevice,
        model: &Model,
        operations: &[Operation],
        (fault, seed): (Fault, u64),
    ) -> Result<Self, String> {
        let held = Arc::new(start.fork());
        let device = Arc::new(FailingDevice::new(held.clone(), seed << 32 | fault.nth));
        device.set_fault(Some(fault));
        let mut states = CrashHistory::new(model.clone());
        let performed = guarded(|| match writable(VolumeDisks::inside(device.clone())) {
            Ok(volume) => {
                let mut library = Library::new(volume);
                perform(&mut library, model.clone(), operations, &mut states)?;
                // Deferred work may fail now, and then the volume is not clean.
                let _ = library.close();
                Ok(())
            }
            Err(_) if device.failures() > 0 => Ok(()),
            Err(error) => Err(format!("opening: {error}")),
        });
        let has_failed = device.failures() > 0;
        performed.map_err(|what| format!("panicked: {what}"))??;
        Ok(Self { states, device: held.fork(), has_failed })
    }
}

/// Performs operations until one of them fails because of the device. Records the operations in
/// `states`.
fn perform(
    library: &mut Library,
    mut model: Model,
    operations: &[Operation],
    states: &mut CrashHistory,
) -> Result<(), String> {
    for (number, operation) in operations.iter().enumerate() {
        let (expected, found) = (model.perform(operation), library.perform(operation));
        let is_failure = matches!(found, Err(Errno::IO)) && expected != found;
        if expected != found && !is_failure {
            return Err(format!("{operation:?} gave {found:?}, not {expected:?}"));
        }
        if is_failure {
            states.note_attempt(operation, &model, number);
            return Ok(());
        }
        states.note(operation, &found, &model, number..number + 1);
    }
    Ok(())
}
