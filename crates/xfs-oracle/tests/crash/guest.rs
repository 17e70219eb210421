//! Power cuts of volumes with realtime sections, which a guest recovers too. This machine's kernel
//! need not know realtime sections.
//!
//! A guest mounts two copies of each volume: one as the power cut has left it, and one after
//! ferroxfs's recovery. Then ferroxfs must show the same tree of both, and of its own recovery.
//! xfs_repair and the checker must find nothing, and the counters of realtime groups must be right.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferroxfs::device::SharedDevice;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError, seeds};
use xfs_oracle::{Differences, Geometry, Image, Resumed, Tree, ready_with_programs};
use xfs_testkit::{CowDevice, PowerCuts};

use crate::disks::{atomicity, base};
use crate::history::{RecordedHistory, materialise, open, prepare, recover};
use crate::judge::CrashCase;
use crate::resumed::resumed;
use crate::sections::check_sums;
use crate::volumes::make;
use crate::{is_long, ours, text, zones};

/// Number of operations per history, and between two syncs.
const HISTORY: (usize, usize) = (120, 30);
/// Number of seeds, each with a guest of its own: in a long run, and in a short run.
const SEEDS: (u64, u64) = (20, 1);
/// The time after which a guest is ended.
const LIMIT: Duration = Duration::from_secs(600);

pub(crate) fn trials() -> Vec<Trial> {
    let seeds = seeds(if is_long() { SEEDS.0 } else { SEEDS.1 });
    let trial = |seed| {
        let name = format!("guest_recovers_realtime_crashes_as_ferroxfs_does::{seed}");
        Trial::new(name, move || check(seed))
    };
    seeds.map(trial).collect()
}

/// A volume after a power cut.
struct CutVolume {
    name: &'static str,
    /// The volume as the power cut has left it.
    crashed: Image,
    /// The volume after ferroxfs's recovery.
    recovered: Image,
    /// The tree after ferroxfs's recovery.
    tree: Tree,
    /// The attribute changes that a recovery completes.
    resumed: Resumed,
}

fn check(seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let mut guest = Guest::new(GuestKernel::New)?.limit(LIMIT);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let mut volumes = Vec::new();
    for geometry in &Geometry::REALTIME {
        let folder = folder.path().join(geometry.name);
        std::fs::create_dir(&folder).map_err(text)?;
        let volume = cut(geometry, seed, &folder);
        volumes.push(volume.map_err(|what| about(geometry.name, seed, what))?);
    }
    let (mut script, mut letters) = (String::new(), 'a'..='z');
    for volume in &volumes {
        for image in [&volume.crashed, &volume.recovered] {
            let mut add = |path: &Path| {
                guest = guest.clone().image(path);
                letters.next().expect("a guest has enough drives")
            };
            let data = add(&image.data);
            let option =
                image.realtime.as_deref().map(|path| format!(",rtdev=/dev/vd{}", add(path)));
            let option = option.unwrap_or_default();
            script.push_str(&format!(
                "mount -o noatime{option} /dev/vd{data} /mnt || {{ echo {}; dmesg | tail; exit 1; }}\n\
                 umount /mnt || exit 1\n",
                volume.name
            ));
        }
    }
    guest.script(&script).run()?.checked()?;
    for volume in &volumes {
        volume.check().map_err(|what| about(volume.name, seed, what))?;
    }
    Ok(())
}

fn about(name: &str, seed: u64, what: impl std::fmt::Display) -> TrialError {
    text(format!("{name}, seed {seed}: {what}"))
}

/// Performs a history and cuts the power at a random request. Recovers the volume with ferroxfs,
/// and judges the recovery by the history.
fn cut(geometry: &Geometry, seed: u64, folder: &Path) -> Result<CutVolume, TrialError> {
    let (image, features) = make(geometry, folder)?;
    let start = prepare((geometry, &image), features, &zones::ballast(geometry))?;
    let history = RecordedHistory::random(start, seed, HISTORY)?;
    let cuts = PowerCuts::new(&history.recording, atomicity(&history.superblock));
    let cut = cuts.sample(seed << 16 | 1 << 14);
    let crashed = cuts.after(cut);
    let point = cut.point();
    let judge = CrashCase { states: &history.states, point, image: &image, folder };
    let device: SharedDevice = Arc::new(crashed.fork());
    let resumed = resumed(&device);
    let recovered = recover(crashed.fork())?.replay(usize::MAX);
    let (_, tree) = judge.state(recovered.fork())?;
    Ok(CutVolume {
        name: geometry.name,
        crashed: materialise(&image, &crashed, &folder.join("crashed"))?,
        recovered: materialise(&image, &recovered, &folder.join("recovered"))?,
        tree,
        resumed,
    })
}

impl CutVolume {
    /// Compares the volumes that the guest has mounted with ferroxfs's recovery.
    fn check(&self) -> Result<(), String> {
        for (program, image) in [("the guest", &self.crashed), ("ferroxfs", &self.recovered)] {
            let about = |what: String| format!("recovered by {program}: {what}");
            let device = base(image).map_err(|error| about(error.to_string()))?;
            let device = CowDevice::new(device);
            check_sums(device.fork()).map_err(about)?;
            let volume = open(device).map_err(about)?;
            let found = ours::walk(&volume).map_err(|error| about(error.to_string()))?;
            let compared = Differences::between_recovered(&found, &self.tree, &self.resumed);
            compared.into_result().map_err(about)?;
            drop(volume);
            if let Some(findings) = image.findings().map_err(|error| about(error.to_string()))? {
                return Err(about(findings));
            }
        }
        Ok(())
    }
}
