//! The kernel replays ferroxfs's log. ferroxfs makes and changes volumes, and the power fails at a
//! random request.
//!
//! The log has every kind of item, because the operations are those of the library's API: buffers
//! of all types, inodes, inode creation, ordered and cancelled buffers, intents with their
//! completions. The kernel mounts the volume after a power cut. Then `xfs_repair -n` must find
//! nothing. The names, owners, attributes and targets must be those after some operation, at least
//! as late as the last synced operation. An operation may change contents, sizes and times in
//! several transactions; the crash tests judge them. Before the mount, the newest `xfs_logprint`
//! must read the log without a complaint. ferroxfs's own recovery of another copy must give the
//! same volume, inode by inode.
//!
//! A trial prints the seed of its operations and its cut. The log's threads write at any time, and
//! another thread forces the log all the time. So a seed gives the same operations, and about the
//! same requests.
//!
//! | variable | effect |
//! |---|---|
//! | `FERROXFS_LONG=1` | runs 2,000 seeds instead of 16, each on its own volume and cut twice |
//! | `FERROXFS_SEED=N`, `FERROXFS_SEED=N..M` | runs the histories of one seed, or of several |
//! | `FERROXFS_KEEP=1` | keeps the images of a failing cut |

#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;
#[path = "../crash/resumed.rs"]
mod resumed;
mod workload;

use std::fs::OpenOptions as Open;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, TryRecvError};

use ferroxfs::admin::Upkeep;
use ferroxfs::device::SharedDevice;
use ferroxfs::{OpenOptions, Volume};
use xfs_oracle::harness::{Trial, TrialError, run, seeds};
use xfs_oracle::{Differences, Image, Tree, ready};
use xfs_testkit::{Atomicity, Cut, PowerCuts, Prng, RecordingDevice};
use xfs_trans::testing::{make_sized, superblock};

use resumed::resumed;
use workload::{NamesState, every_kind, names, prepare, step};

const VOLUME_BYTES: u64 = 300 << 20;
const OPERATIONS: u32 = 120;
/// Number of power cuts per history.
const CUTS: u64 = 2;
/// Number of histories of a short run, and of a long one. Every eighth history has the same layout,
/// because there are eight layouts.
const SEEDS: [u64; 2] = [16, 2000];

/// The `xfs_logprint` names of the items that every history leaves in the log.
const ITEMS: [&str; 3] = ["BUF:", "INODE:", "ICR:"];

/// The `xfs_logprint` names of intents and their completions. An intent is logged only if a
/// checkpoint ends between it and its completion.
const INTENTS: [&str; 12] = [
    "EFI:", "EFD:", "RUI:", "RUD:", "CUI:", "CUD:", "BUI:", "BUD:", "ATTRI:", "ATTRD:", "XMI:",
    "XMD:",
];
/// Options of mkfs for a volume on which every kind of intent can occur.
const EVERY_FEATURE: &str = "-l size=16m -n parent=1 -i exchange=1 -m rmapbt=1,reflink=1";
/// The greatest number of attempts of a test that must bring every kind of intent into the log.
const MOST_ROUNDS: u32 = 400;

/// The layouts of the volumes, each with its name and its mkfs options.
const LAYOUTS: [(&str, &str); 8] = [
    ("default", "-l size=16m"),
    ("parent", "-l size=16m -n parent=1 -m rmapbt=1"),
    ("plain", "-l size=16m -n parent=0 -m rmapbt=0,reflink=0"),
    ("block-1k", "-l size=16m -b size=1024 -n parent=1"),
    ("inode-1k", "-l size=16m -i size=1024 -m rmapbt=0"),
    ("block-64k", "-b size=65536 -n parent=1"),
    ("sector-4k", "-l size=16m -s size=4096 -n parent=1"),
    ("stripe", "-l size=16m,su=32k -d su=64k,sw=4 -n parent=1"),
];

fn main() -> ExitCode {
    let [short, long] = SEEDS;
    let count = if std::env::var_os("FERROXFS_LONG").is_some() { long } else { short };
    let trials = seeds(count).map(|seed| {
        let (name, options) = layout_of(seed);
        let title = format!("replayed_by_the_kernel::{name}::{seed}");
        Trial::new(title, move || check_history(options, seed))
    });
    let every_item = Trial::new("every_item_is_read_by_xfs_logprint", check_every_item);
    run(trials.chain([every_item]).collect())
}

fn layout_of(seed: u64) -> (&'static str, &'static str) {
    let [first, ..] = LAYOUTS;
    let number = seed % LAYOUTS.len() as u64;
    LAYOUTS.get(number as usize).copied().unwrap_or(first)
}

/// The names of a volume after each operation, and a list of pairs: a time, and the number of
/// operations that were durable at that time. A time is the number of requests that the device had
/// recorded by then.
struct ReplayHistory {
    states: Vec<NamesState>,
    durable: Vec<(usize, usize)>,
}

fn check_history(options: &str, seed: u64) -> Result<(), TrialError> {
    ready()?;
    let made: SharedDevice = make_sized(VOLUME_BYTES, options);
    let volume = open(Arc::clone(&made))?;
    prepare(&volume).map_err(text)?;
    volume.close().map_err(text)?;
    let recorded = Arc::new(RecordingDevice::new(made));
    let history = work(&recorded, seed)?;
    let recording = recorded.recording();
    let device: SharedDevice = recorded;
    check_records(&device)?;
    let cuts = PowerCuts::new(&recording, Atomicity::of(&superblock(&device)));
    for number in 0..CUTS {
        let cut = cuts.sample(seed * CUTS + number);
        let about = |reason| TrialError::Failed(format!("seed {seed}, cut {cut}: {reason}"));
        check_cut(&history, &cuts, cut).map_err(|error| match error {
            TrialError::Failed(reason) => about(reason),
            other => other,
        })?;
    }
    Ok(())
}

/// Checks that `xfs_logprint` reads all log records in the order of their blocks and recognises
/// their items. A log after a power cut cannot be checked like this: `xfs_logprint` complains about
/// lost blocks.
fn check_records(device: &SharedDevice) -> Result<(), TrialError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let image = save(&**device, &folder.path().join("whole"))?;
    image.printed_log(&["-d"])?;
    let printed = image.printed_log(&["-c"])?;
    match ITEMS.iter().find(|item| !printed.contains(**item)) {
        None => Ok(()),
        Some(item) => Err(text(format!("xfs_logprint finds no {item:?}"))),
    }
}

/// Checks that `xfs_logprint` recognises every kind of intent that ferroxfs writes, and its
/// completion. Items of other kinds are checked in every history.
fn check_every_item() -> Result<(), TrialError> {
    ready()?;
    let device: SharedDevice = make_sized(VOLUME_BYTES, EVERY_FEATURE);
    // The log must not be written while it is copied.
    let seldom = Upkeep::new(Upkeep::LONGEST, Upkeep::LONGEST);
    let options = OpenOptions::new().write(true).upkeep(seldom);
    let volume = options.open_device(device.clone()).map_err(text)?;
    let mut missing = INTENTS.to_vec();
    for _ in 0..MOST_ROUNDS {
        while_syncing(&volume, || every_kind(&volume))?;
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
        let image = save(&*device, &folder.path().join("whole"))?;
        let printed = image.printed_log(&["-c"])?;
        missing.retain(|item| !printed.contains(item));
        if missing.is_empty() {
            return Ok(());
        }
    }
    Err(text(format!("xfs_logprint finds no {missing:?}")))
}

fn open(device: SharedDevice) -> Result<Volume, TrialError> {
    OpenOptions::new().write(true).open_device(device).map_err(text)
}

/// Performs random operations on the volume, and sometimes syncs it, or closes and reopens it.
/// Returns the names that the volume has after each operation. For each sync and close, also
/// returns how many operations it made durable.
fn work(device: &Arc<RecordingDevice>, seed: u64) -> Result<ReplayHistory, TrialError> {
    let mut prng = Prng::new(seed);
    let mut volume = open(device.clone())?;
    let mut history = ReplayHistory { states: vec![show(&volume)?], durable: Vec::new() };
    for number in 1..=OPERATIONS {
        while_syncing(&volume, || step(&volume, &mut prng, number))?;
        history.states.push(show(&volume)?);
        let chance = prng.within(0..40);
        if chance == 0 {
            volume.close().map_err(text)?;
            volume = open(device.clone())?;
        } else if chance < 6 {
            volume.sync().map_err(text)?;
        }
        if chance < 6 {
            history.durable.push((device.position(), history.states.len() - 1));
        }
    }
    volume.sync().map_err(text)?;
    history.durable.push((device.position(), history.states.len() - 1));
    Ok(history)
}

/// Performs an operation while another thread forces the log without pause. Checkpoints then end in
/// the middle of transaction chains, so that intents are written: an intent is not written if its
/// completion is in the same checkpoint.
fn while_syncing(
    volume: &Volume,
    act: impl FnOnce() -> Result<(), ferroxfs::Error>,
) -> Result<(), TrialError> {
    let (running, stopped) = mpsc::sync_channel(0);
    std::thread::scope(|scope| {
        let syncing = scope.spawn(move || {
            let _ = stopped.recv();
            while stopped.try_recv() != Err(TryRecvError::Disconnected) {
                volume.sync()?;
            }
            Ok::<_, ferroxfs::Error>(())
        });
        let _ = running.send(());
        let acted = act();
        drop(running);
        let synced = syncing.join().map_err(|_| text("the syncing thread panicked"))?;
        acted.and(synced).map_err(text)
    })
}

fn show(volume: &Volume) -> Result<NamesState, TrialError> {
    Ok(names(&ours::walk(volume).map_err(text)?))
}

fn check_cut(history: &ReplayHistory, cuts: &PowerCuts<'_>, cut: Cut) -> Result<(), TrialError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    check_cut_in(folder.path(), history, cuts, cut).map_err(|error| match error {
        TrialError::Failed(reason) if std::env::var_os("FERROXFS_KEEP").is_some() => {
            let raw = save(&cuts.after(cut), &folder.path().join("raw"));
            let kept = folder.keep();
            text(format!("{reason}\nkept in {} ({})", kept.display(), raw.is_ok()))
        }
        other => other,
    })
}

fn check_cut_in(
    folder: &Path,
    history: &ReplayHistory,
    cuts: &PowerCuts<'_>,
    cut: Cut,
) -> Result<(), TrialError> {
    let crashed: SharedDevice = Arc::new(cuts.after(cut));
    let image = save(&*crashed, &folder.join("kernel"))?;
    let resumed = resumed(&crashed);
    image.printed_log(&["-t", "-i", "-b"])?;
    let kernel = recover_by_kernel(&image)?;
    let forced = history.durable.iter().filter(|(position, _)| *position <= cut.point());
    let least = forced.map(|(_, state)| *state).max().unwrap_or(0);
    check_prefix(history, least, &names(&kernel))?;
    let ours = recover_by_us(crashed, &folder.join("ours"))?;
    Ok(Differences::between_recovered(&kernel, &ours, &resumed).into_result()?)
}

fn recover_by_kernel(image: &Image) -> Result<Tree, TrialError> {
    image.mount(&[])?.unmount()?;
    check_repair(image, "the kernel's recovery")?;
    let mount = image.mount(&["ro"])?;
    let tree = Tree::walk(mount.path())?;
    mount.unmount()?;
    Ok(tree)
}

/// Recovers a device in memory with ferroxfs, and checks that xfs_repair finds nothing. For that,
/// the recovered volume is saved to a file at `path`. Returns the tree.
fn recover_by_us(device: SharedDevice, path: &Path) -> Result<Tree, TrialError> {
    open(Arc::clone(&device))?.close().map_err(text)?;
    check_repair(&save(&*device, path)?, "our recovery")?;
    let volume = OpenOptions::new().open_device(device).map_err(text)?;
    ours::walk(&volume).map_err(text)
}

fn check_repair(image: &Image, after: &str) -> Result<(), TrialError> {
    match image.findings()? {
        None => Ok(()),
        Some(findings) => Err(text(format!("after {after} xfs_repair -n says:\n{findings}"))),
    }
}

/// Checks that the names of a recovered volume are those after some operation of the history, whose
/// number must be at least `least`.
fn check_prefix(
    history: &ReplayHistory,
    least: usize,
    found: &NamesState,
) -> Result<(), TrialError> {
    let states = history.states.get(least..).unwrap_or_default();
    if states.contains(found) {
        return Ok(());
    }
    // The state with the fewest differences is the most useful.
    let differs = |state: &NamesState| -> Vec<String> {
        let paths = state.keys().chain(found.keys());
        let different = paths.filter(|path| state.get(*path) != found.get(*path));
        different.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
    };
    let nearest = states.iter().enumerate().min_by_key(|(_, state)| differs(state).len());
    let Some((number, state)) = nearest else { return Err(text("no states")) };
    let details: Vec<_> = differs(state)
        .into_iter()
        .map(|path| (state.get(path.as_bytes()), found.get(path.as_bytes())))
        .map(|(expected, found)| format!("{expected:?} is {found:?}"))
        .collect();
    let number = least + number;
    Err(text(format!(
        "expected a state from {least} on; the closest is {number}, except {}",
        details.join("; ")
    )))
}

/// Writes the contents of a device to a file. Blocks of zeros become holes.
fn save(device: &dyn ferroxfs::device::BlockDevice, path: &Path) -> Result<Image, TrialError> {
    const STEP: usize = 64 << 10;
    let file = Open::new().write(true).create_new(true).open(path).map_err(text)?;
    file.set_len(device.length_bytes()).map_err(text)?;
    let mut bytes = vec![0; STEP];
    for offset in (0..device.length_bytes()).step_by(STEP) {
        device.read_at(&mut bytes, offset).map_err(text)?;
        if bytes.iter().any(|byte| *byte != 0) {
            file.write_all_at(&bytes, offset).map_err(text)?;
        }
    }
    Ok(Image { data: path.to_owned(), log: None, realtime: None })
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
