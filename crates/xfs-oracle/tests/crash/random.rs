//! Long histories of every operation, with power cuts at any request. Some recoveries are cut as
//! well.

use std::path::Path;

use xfs_oracle::harness::TrialError;
use xfs_oracle::{Geometry, GeometryFeature, Image, ready_with_programs};
use xfs_testkit::{CowDevice, PowerCuts};

use crate::disks::atomicity;
use crate::history::{RecordedHistory, count_again, keep, prepare, recover};
use crate::judge::CrashCase;
use crate::sections::forge_count;
use crate::usage::forge_usage;
use crate::volumes::make;
use crate::{text, zones};

/// Number of operations per history.
const OPERATIONS: usize = 240;
/// Number of operations between two syncs.
const SYNC_EVERY: usize = 40;
/// Number of power cuts per history.
const CUTS: u64 = 10;
/// The share of power cuts after which the recovery is also interrupted by power cuts: one in this
/// number.
const RECOVERIES_EVERY: u64 = 5;
/// Number of power cuts per recovery. Each one interrupts the recovery that follows the previous
/// cut.
const RECOVERY_CUTS: u64 = 2;

pub(crate) fn check(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = make(geometry, folder.path())?;
    let start = prepare((geometry, &image), features, &zones::ballast(geometry))?;
    let history = RecordedHistory::random(start, seed, (OPERATIONS, SYNC_EVERY))?;
    let cuts = PowerCuts::new(&history.recording, atomicity(&history.superblock));
    check_judge(&history, &image, folder.path())?;
    for number in 0..CUTS {
        let cut = cuts.sample(seed << 16 | number);
        let crashed = cuts.after(cut);
        let judge = CrashCase {
            states: &history.states,
            point: cut.point(),
            image: &image,
            folder: folder.path(),
        };
        let keep = |what: String, device: &CowDevice| {
            let kept =
                keep((&image, device), &format!("crash-{seed}-{cut}"), &history.operations_text());
            text(format!("seed {seed}, cut {cut}, {kept}: {what}"))
        };
        judge.recovers(&crashed).map_err(|what| keep(what, &crashed))?;
        if geometry.has_zones() && number == 0 {
            check_forged_count(&judge, &crashed)?;
        }
        if geometry.feature == GeometryFeature::Quota {
            check_counts(&judge, &crashed).map_err(|what| keep(what, &crashed))?;
            if number == 0 {
                check_forged_usage(&judge, &crashed)?;
            }
        }
        if number % RECOVERIES_EVERY == 0 {
            check_recovery(&history, &judge, (&crashed, seed << 16 | number))
                .map_err(|(what, device)| keep(what, &device))?;
        }
    }
    Ok(())
}

/// Opens a device with quota after a power cut, and closes it. The device must have a state of the
/// history, and xfs_repair, which counts all inodes, must find nothing.
fn check_counts(judge: &CrashCase<'_>, crashed: &CowDevice) -> Result<(), String> {
    let counted = count_again(crashed.fork())?;
    judge.repair(&counted)?;
    judge.state(counted).map(drop)
}

/// Checks that xfs_repair and our checker, which count all inodes, each reject a wrong count of a
/// dquot.
fn check_forged_usage(judge: &CrashCase<'_>, crashed: &CowDevice) -> Result<(), TrialError> {
    let counted = count_again(crashed.fork())?;
    forge_usage(&counted)?;
    match judge.repair(&counted) {
        Err(what) if what.contains("check: ") && what.contains("quota") => Ok(()),
        other => Err(text(format!("a wrong count of a dquot is accepted: {other:?}"))),
    }
}

/// Checks that the judge rejects a wrong count of the used blocks of a zone.
fn check_forged_count(judge: &CrashCase<'_>, crashed: &CowDevice) -> Result<(), TrialError> {
    let recovered = recover(crashed.fork())?.replay(usize::MAX);
    forge_count(&recovered)?;
    match judge.repair(&recovered) {
        Err(what) if what.contains("zone 0 counts") => Ok(()),
        other => Err(text(format!("a wrong count of a zone is accepted: {other:?}"))),
    }
}

/// Interrupts a recovery by a power cut, and the next recovery by another one. After each cut,
/// recovers the volume and judges the result.
fn check_recovery(
    history: &RecordedHistory,
    judge: &CrashCase<'_>,
    (crashed, seed): (&CowDevice, u64),
) -> Result<(), (String, CowDevice)> {
    let atomicity = atomicity(&history.superblock);
    let mut crashed = crashed.fork();
    for number in 0..RECOVERY_CUTS {
        let recovery = recover(crashed.fork()).map_err(|what| (what, crashed.fork()))?;
        let cuts = PowerCuts::new(&recovery, atomicity.clone());
        let cut = cuts.sample(seed << 8 | number);
        let again = cuts.after(cut);
        judge
            .recovers(&again)
            .map_err(|what| (format!("recovery {number}, cut {cut}: {what}"), again.fork()))?;
        crashed = again;
    }
    Ok(())
}

/// Checks that the judge rejects a volume that has lost synced changes. The device gets only the
/// requests before the last synced change of names, but the judge must assume that all syncs had
/// returned. If the names after these requests happen to equal later ones, the judge may rightly
/// accept the device. Then the test gives the device fewer requests.
fn check_judge(history: &RecordedHistory, image: &Image, folder: &Path) -> Result<(), TrialError> {
    let states = &history.states;
    let judge = CrashCase { states, point: usize::MAX, image, folder };
    let Some(mut position) = states.before_promised_change() else { return Ok(()) };
    while position > 0 {
        let recovery = recover(history.recording.replay(position))?;
        match judge.state(recovery.replay(usize::MAX)) {
            Err(_) => return Ok(()),
            Ok((state, _)) if !states.may_show(state, position) => {
                return Err(text(format!(
                    "the device before request {position} is accepted as state {state}"
                )));
            }
            Ok(_) => position /= 2,
        }
    }
    Ok(())
}
