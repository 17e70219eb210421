//! Many power cuts of one history. After each cut, the checker of ferroxfs must find the recovered
//! volume clean. Neither the kernel nor xfs_repair checks the volume, so there is time for many
//! cuts.

use xfs_oracle::harness::TrialError;
use xfs_oracle::{CheckerVerdict, Geometry, ready_with_programs};
use xfs_testkit::{CowDevice, PowerCuts};

use crate::disks::{atomicity, checked};
use crate::history::{RecordedHistory, keep, prepare, recover};
use crate::volumes::make;
use crate::{is_long, text};

/// Number of operations per history.
const OPERATIONS: usize = 240;
/// Number of operations between two syncs.
const SYNC_EVERY: usize = 40;
/// Number of power cuts per history in a usual run.
const CUTS: u64 = 8;
/// Number of power cuts per history in a long run.
const LONG_CUTS: u64 = 120;

/// Cuts a history at random requests. Recovers the volume after each cut, and checks that our
/// checker finds no damage (nothing more severe than `preen`).
pub(crate) fn check(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = make(geometry, folder.path())?;
    let start = prepare((geometry, &image), features, &[])?;
    let history = RecordedHistory::random(start, seed, (OPERATIONS, SYNC_EVERY))?;
    let cuts = PowerCuts::new(&history.recording, atomicity(&history.superblock));
    let count = if is_long() { LONG_CUTS } else { CUTS };
    for number in 0..count {
        // The histories of `random` are cut by other numbers.
        let cut = cuts.sample(seed << 16 | 1 << 15 | number);
        let crashed = cuts.after(cut);
        let recovered = recover(crashed.fork())?.replay(usize::MAX);
        silent(recovered).map_err(|what| {
            let name = format!("silent-{seed}-{cut}");
            let kept = keep((&image, &crashed), &name, &history.operations_text());
            text(format!("seed {seed}, cut {cut}, {kept}: {what}"))
        })?;
    }
    println!("crash states: {count} of {} with seed {seed} are clean", geometry.name);
    Ok(())
}

/// Returns an error unless the checker of ferroxfs finds the recovered volume clean.
fn silent(recovered: CowDevice) -> Result<(), String> {
    match checked(recovered) {
        CheckerVerdict::Findings(findings) if findings.is_empty() => Ok(()),
        verdict => Err(format!("after our recovery: {verdict:?}")),
    }
}
