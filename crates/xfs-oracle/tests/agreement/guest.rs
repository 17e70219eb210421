//! Histories on volumes with a realtime section, which the kernel of a guest performs. It must give
//! the answers of the model, and show the tree of the model. The agreement compares ferroxfs with
//! the same model.
//!
//! The program of this test is also the program that runs in the guest.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError, seeds};
use xfs_oracle::model::{Abilities, Features, RealtimeRules};
use xfs_oracle::{AgreementRun, Geometry, Image, Kernel, Time, Tree, ready_with_programs};

use crate::volumes;

/// The option with which this program performs a history. Its arguments are the folder of the
/// mount, the seed, the number of operations, and the features of the volume as four words.
const OPTION: &str = "--agree";
/// Number of operations of a history: in a long run, and in a short run.
const OPERATIONS: (usize, usize) = (4000, 400);
/// Number of seeds, each with a guest of its own: in a long run, and in a short run.
const SEEDS: (u64, u64) = (20, 1);
/// The time after which a guest is ended.
const LIMIT: Duration = Duration::from_secs(1200);

pub(crate) fn trials() -> Vec<Trial> {
    let is_long = std::env::var_os("FERROXFS_LONG").is_some();
    let (count, operations) =
        if is_long { (SEEDS.0, OPERATIONS.0) } else { (SEEDS.1, OPERATIONS.1) };
    let trial = |seed| {
        let name = format!("kernel_of_a_guest_agrees_with_the_model_of_sections::{seed}");
        Trial::new(name, move || check(seed, operations))
    };
    seeds(count).map(trial).collect()
}

fn check(seed: u64, operations: usize) -> Result<(), TrialError> {
    ready_with_programs()?;
    let program = std::env::current_exe().map_err(text)?;
    let mut guest = Guest::new(GuestKernel::New)?.program("program", &program).limit(LIMIT);
    guest = guest.memory_mib(1024);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (mut script, mut letters) = ("status=0\n".to_owned(), 'a'..='z');
    let mut images: Vec<(&str, Image)> = Vec::new();
    for geometry in &Geometry::ROOMY_SECTIONS {
        let (image, features) = volumes::make(geometry, folder.path())?;
        let mut add = |path: &Path| {
            guest = guest.clone().image(path);
            letters.next().expect("a guest has enough drives")
        };
        let data = add(&image.data);
        let option = image.realtime.as_deref().map(|path| format!(",rtdev=/dev/vd{}", add(path)));
        script.push_str(&format!(
            "mount -o noatime{} /dev/vd{data} /mnt || exit 1\n\
             /in/program {OPTION} /mnt {seed} {operations} {} || {{ echo {}; status=1; }}\n\
             umount /mnt || exit 1\n",
            option.unwrap_or_default(),
            words_of(features),
            geometry.name
        ));
        images.push((geometry.name, image));
    }
    script.push_str("exit $status\n");
    guest.script(&script).run()?.checked()?;
    for (name, image) in &images {
        if let Some(findings) = image.findings()? {
            return Err(text(format!("{name}, seed {seed}: {findings}")));
        }
    }
    Ok(())
}

/// Returns the features of a volume, and of the kernel of the guest, as arguments of this program.
fn words_of(features: Features) -> String {
    let section = match features.section {
        None => "none".to_owned(),
        Some(RealtimeRules::Groups) => "groups".to_owned(),
        Some(RealtimeRules::Zones) => "zones".to_owned(),
        Some(RealtimeRules::Classic { extent_bytes }) => extent_bytes.to_string(),
    };
    let Features { block_bytes, inode_bytes, abilities, .. } = features;
    let abilities = abilities | Abilities::SOCKET_ATTRIBUTES;
    format!("{block_bytes} {inode_bytes} {} {section}", abilities.bits())
}

fn features_of(words: &[&str]) -> Option<Features> {
    let [block_bytes, inode_bytes, abilities, section] = words else { return None };
    let section = match *section {
        "none" => None,
        "groups" => Some(RealtimeRules::Groups),
        "zones" => Some(RealtimeRules::Zones),
        bytes => Some(RealtimeRules::Classic { extent_bytes: bytes.parse().ok()? }),
    };
    let abilities = Abilities::from_bits_retain(abilities.parse().ok()?);
    let (block_bytes, inode_bytes) = (block_bytes.parse().ok()?, inode_bytes.parse().ok()?);
    Some(Features { block_bytes, inode_bytes, abilities, section })
}

/// Performs a history if the arguments ask for that. Returns `None` for the arguments of a test.
pub(crate) fn run_in_guest() -> Option<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [OPTION, folder, seed, operations, features @ ..] = words.as_slice() else { return None };
    let features = features_of(features).expect("the script passes the features");
    let number = |word: &str| word.parse::<u64>().expect("the script passes numbers");
    match perform(Path::new(folder), number(seed), number(operations) as usize, features) {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(what) => {
            println!("{words:?}: {what}");
            Some(ExitCode::FAILURE)
        }
    }
}

fn perform(mounted: &Path, seed: u64, operations: usize, features: Features) -> Result<(), String> {
    let since = now();
    let root: PathBuf = mounted.join("judged");
    std::fs::create_dir(&root).map_err(|error| error.to_string())?;
    let (mut kernel, mut run) = (Kernel::new(&root), AgreementRun::new(seed, features));
    run.perform(operations, &mut kernel).map_err(|other| {
        let (count, last) = (other.history.len(), other.history.last());
        format!("operation {count}, {last:?}: {}", other.what())
    })?;
    let tree = Tree::walk(mounted).map_err(|error| error.to_string())?;
    run.model().differences(&tree, "judged", since).into_result()
}

fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The clock of inode times is coarser than this one.
    Time { seconds: now.as_secs() as i64 - 1, nanoseconds: 0 }
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
