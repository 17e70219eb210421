//! One operation on a prepared tree, then one sync or none, then a power cut, for every pair of
//! operation and sync.
//!
//! These are the one-operation workloads of ACE. The power cut drops all requests after the sync,
//! or none, or a random part. So the test sees whether each sync alone made its changes durable,
//! without help from other operations. Each recovery is also interrupted by one power cut.

use std::path::Path;

use xfs_oracle::harness::TrialError;
use xfs_oracle::model::{Model, Operation};
use xfs_oracle::{Geometry, Image, ready_with_programs};
use xfs_testkit::{CowDevice, Cut, PowerCuts, Recording};

use crate::disks::atomicity;
use crate::history::{RecordedHistory, prepare, recover};
use crate::judge::CrashCase;
use crate::volumes::make;
use crate::{is_long, script, text};

/// The share of pairs of operation and sync that a short run tries: one in this number.
const SHORT_SHARE: usize = 40;
/// The share of tried pairs that xfs_repair and the kernel check too: one in this number.
const WITNESSED_SHARE: usize = 8;
/// Number of random power cuts per pair.
const CUTS: u64 = 4;

pub(crate) fn check(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = make(geometry, folder.path())?;
    let (start, model) = prepare((geometry, &image), features, &script::preparation(features))?;
    let share = if is_long() { 1 } else { SHORT_SHARE };
    let pairs = script::operations(features).into_iter().flat_map(|operation| {
        let mut after = model.clone();
        let _ = after.perform(&operation);
        let pair = move |sync| [operation.clone()].into_iter().chain(sync).collect();
        script::syncs(&after).into_iter().map(pair).collect::<Vec<Vec<_>>>()
    });
    let pairs = pairs.enumerate().filter(|(number, _)| number % share == seed as usize % share);
    for (number, pair) in pairs {
        let is_witnessed = number / share % WITNESSED_SHARE == 0;
        let trial =
            PairTrial { image: &image, folder: folder.path(), start: &start, model: &model };
        trial
            .check(&pair, seed << 16 | number as u64, is_witnessed)
            .map_err(|what| text(format!("seed {seed}, pair {number}, {pair:?}: {what}")))?;
    }
    Ok(())
}

/// A prepared volume on which one operation followed by one sync is tried.
struct PairTrial<'a> {
    image: &'a Image,
    folder: &'a Path,
    start: &'a CowDevice,
    model: &'a Model,
}

impl PairTrial<'_> {
    fn check(&self, pair: &[Operation], seed: u64, is_witnessed: bool) -> Result<(), String> {
        let mut rest = pair.iter();
        let next = |_: &Model| rest.next().cloned();
        let history = RecordedHistory::record(self.start.fork(), self.model.clone(), next)?;
        let atomicity = atomicity(&history.superblock);
        let cuts = PowerCuts::new(&history.recording, atomicity.clone());
        for cut in chosen(&cuts, &history.recording, seed) {
            let crashed = cuts.after(cut);
            let judge = CrashCase {
                states: &history.states,
                point: cut.point(),
                image: self.image,
                folder: self.folder,
            };
            let about = |what: String| format!("cut {cut}: {what}");
            let recovery = recover(crashed.fork()).map_err(about)?;
            judge.state(recovery.replay(usize::MAX)).map_err(about)?;
            let cuts = PowerCuts::new(&recovery, atomicity.clone());
            let second = cuts.sample(seed);
            let about = |what: String| format!("cut {cut}, of its recovery {second}: {what}");
            let recovery = recover(cuts.after(second)).map_err(about)?;
            let recovered = recovery.replay(usize::MAX);
            judge.state(recovered.fork()).map_err(about)?;
            if is_witnessed {
                judge.with_witnesses(&crashed, &recovered).map_err(about)?;
            }
        }
        Ok(())
    }
}

/// Returns the power cuts to try: two after the last request, of which one loses all unflushed data
/// and one loses none, and others at random requests.
fn chosen(cuts: &PowerCuts<'_>, recording: &Recording, seed: u64) -> Vec<Cut> {
    let end = recording.requests().len();
    let at_the_end = cuts.at(end, 2).take(2);
    at_the_end.chain((0..CUTS).map(|number| cuts.sample(seed << 8 | number))).collect()
}
