//! Performs seeded histories of every operation, and compares each answer and each resulting tree
//! with the model.
//!
//! The model is checked first: the kernel's XFS must give the same answers as the model. Volumes
//! with a realtime section are mounted by the kernel of a guest ([`guest`]).
//!
//! `FERROXFS_SEED=N` runs the trials of one seed, and `FERROXFS_SEED=N..M` those of several. The
//! seed also selects one of the volumes, unless `FERROXFS_GEOMETRY=NAME` does. `cargo xtask test
//! --long`, or `FERROXFS_LONG=1`, runs longer histories of more seeds.

#[path = "../kernel/ours.rs"]
#[allow(dead_code, reason = "the comparison of whole volumes needs more of it")]
mod ours;

mod counters;
mod guest;
mod library;
mod volumes;

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use xfs_oracle::harness::{Trial, TrialError, patiently, run, seeds};
use xfs_oracle::model::{Features, Generator, Model, Operation, SLOTS};
use xfs_oracle::{
    AgreementRun, Differences, Disagreement, Geometry, Image, Kernel, Time, Tree, guarded,
    ready_with_programs, replay,
};

use ferroxfs::OpenOptions;
use library::Library;

/// Geometries of two volumes on which every seed runs its history. The seed also selects a third
/// geometry.
const ALWAYS: [&str; 2] = ["default", "parent-exchange"];

/// Number of stretches on a volume with a realtime section in a short run.
const SHORT_STRETCHES: usize = 2;

/// Number of operations in a stretch. The volume's tree is compared with the model after each
/// stretch.
const STRETCH: usize = 500;

fn main() -> ExitCode {
    if let Some(code) = guest::run_in_guest() {
        return code;
    }
    let (count, stretches) = if is_long() { (30, 40) } else { (1, 6) };
    let trials = seeds(count).flat_map(|seed| {
        let always = ALWAYS.map(volumes::named);
        let geometries = always.into_iter().chain([volumes::of_seed(seed)]).flatten();
        geometries.flat_map(move |geometry| {
            let volume = Volume { geometry, seed };
            let trial = move |what: &str, check: fn(&Volume, usize) -> Result<(), TrialError>| {
                let name = format!("{what}::{}::{seed}", geometry.name);
                Trial::new(name, move || check(&volume, stretches))
            };
            [
                trial("kernel_agrees_with_the_model", check_kernel),
                trial("library_agrees_with_the_model", check_library),
                trial("library_keeps_contents", check_contents),
                trial("library_and_kernel_take_turns", check_turns),
                trial("threads_of_the_library_agree_with_their_models", check_threads),
                trial("library_counts_what_the_kernel_counts", counters::check),
            ]
        })
    });
    let sections = seeds(count).flat_map(|seed| sections_of(seed, stretches));
    run(trials.chain(sections).chain(guest::trials()).collect())
}

/// Returns the trials of a seed on volumes with a realtime section. In a short run, the histories
/// are shorter, because there are several such volumes. The module `guest` compares a kernel with
/// the model.
fn sections_of(seed: u64, stretches: usize) -> Vec<Trial> {
    let trials = Geometry::ROOMY_SECTIONS.into_iter().flat_map(|geometry| {
        let volume = Volume { geometry, seed };
        let trial = move |what: &str, check: fn(&Volume, usize) -> Result<(), TrialError>| {
            let name = format!("{what}::{}::{seed}", geometry.name);
            let stretches = if is_long() { stretches } else { SHORT_STRETCHES };
            Trial::new(name, move || check(&volume, stretches))
        };
        [
            trial("library_agrees_with_the_model", check_library),
            trial("threads_of_the_library_agree_with_their_models", check_threads),
        ]
    });
    trials.collect()
}

/// A volume on which a history is performed.
#[derive(Clone, Copy)]
struct Volume {
    geometry: Geometry,
    seed: u64,
}

impl Volume {
    fn make(&self, folder: &Path) -> Result<(Image, Features), TrialError> {
        volumes::make(&self.geometry, folder)
    }

    fn failed(&self, what: impl std::fmt::Display) -> TrialError {
        TrialError::Failed(format!("seed {}: {what}", self.seed))
    }
}

fn is_long() -> bool {
    std::env::var_os("FERROXFS_LONG").is_some()
}

fn check_kernel(volume: &Volume, stretches: usize) -> Result<(), TrialError> {
    ready_with_programs()?;
    let seed = volume.seed;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = volume.make(folder.path())?;
    let mount = image.mount(&["noatime"])?;
    let since = now();
    let place = |name: &str| {
        let path = mount.path().join(name);
        std::fs::create_dir(&path).map(|()| path).map_err(text)
    };
    let root = place("judged")?;
    let (mut kernel, mut run) = (Kernel::new(&root), AgreementRun::new(seed, features));
    let inspect = |model: &Model, folder: &str| -> Result<(), String> {
        let tree = Tree::walk(mount.path()).map_err(|error| error.to_string())?;
        model.differences(&tree, folder, since).into_result()
    };
    for _ in 0..stretches {
        let outcome = match run.perform(STRETCH, &mut kernel) {
            Ok(()) => inspect(run.model(), "judged")
                .map_err(|what| Disagreement::of_trees(run.history(), what)),
            Err(disagreement) => Err(*disagreement),
        };
        let Err(disagreement) = outcome else { continue };
        drop(kernel);
        let mut count = 0;
        let shortened = disagreement.shortened(|history| {
            count += 1;
            let name = format!("trial-{count}");
            let mut kernel = Kernel::new(&place(&name).ok()?);
            let is_wrong = match replay(history, features, &mut kernel) {
                Ok(model) => inspect(&model, &name),
                Err(other) if other.history.len() == history.len() => Err(other.what().to_owned()),
                Err(_) => Ok(()),
            };
            is_wrong.err()
        });
        return Err(TrialError::Failed(format!("seed {seed}: {shortened}")));
    }
    drop(kernel);
    mount.unmount()?;
    match image.findings()? {
        Some(findings) => Err(TrialError::Failed(format!("seed {seed}: {findings}"))),
        None => Ok(()),
    }
}

fn check_library(volume: &Volume, stretches: usize) -> Result<(), TrialError> {
    ready_with_programs()?;
    let seed = volume.seed;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = volume.make(folder.path())?;
    let fresh = folder.path().join("fresh");
    std::fs::create_dir(&fresh).map_err(text)?;
    let empty = image.copy(&fresh)?;
    let since = now();
    let mut run = AgreementRun::new(seed, features);
    for _ in 0..stretches {
        let mut library = open(&image)?;
        let outcome = match run.perform(STRETCH, &mut library) {
            Ok(()) => {
                run.close(&mut library).map_err(|disagreement| disagreement.to_string())?;
                inspect_library(library, &image, run.model(), since)
                    .map_err(|what| Disagreement::of_trees(run.history(), what))
            }
            Err(disagreement) => Err(*disagreement),
        };
        let Err(disagreement) = outcome else { continue };
        let trials = folder.path().join("trial");
        std::fs::create_dir(&trials).map_err(text)?;
        let shortened = disagreement.shortened(|history| {
            let image = empty.copy(&trials).ok()?;
            let mut library = open(&image).ok()?;
            match replay(history, features, &mut library) {
                Ok(mut model) => {
                    for slot in 0..SLOTS {
                        let _ = model.perform(&Operation::Close { slot });
                    }
                    inspect_library(library, &image, &model, since).err()
                }
                Err(other) if other.history.len() == history.len() => Some(other.what().to_owned()),
                Err(_) => None,
            }
        });
        return Err(TrialError::Failed(format!("seed {seed}: {shortened}")));
    }
    Ok(())
}

/// Performs `stretches` times 6,000 operations on the contents of a few files. Compares each
/// answer, and the resulting volume, with the model.
fn check_contents(volume: &Volume, stretches: usize) -> Result<(), TrialError> {
    const OPERATIONS_PER_STRETCH: usize = 6_000;
    ready_with_programs()?;
    let seed = volume.seed;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = volume.make(folder.path())?;
    let (since, mut library) = (now(), open(&image)?);
    let mut run = AgreementRun::with(Generator::of_contents(seed, features), features);
    let outcome = run.perform(stretches * OPERATIONS_PER_STRETCH, &mut library);
    outcome.and_then(|()| run.close(&mut library)).map_err(|disagreement| {
        let (count, last) = (run.history().len(), run.history().last());
        volume.failed(format!("{} (operation {count}: {last:?})", disagreement.what()))
    })?;
    inspect_library(library, &image, run.model(), since).map_err(|what| volume.failed(what))
}

/// Lets the library and the kernel change a volume in turns, 150 operations at a time. Compares
/// each answer with the model, and the volume with the model after each turn of the library.
fn check_turns(volume: &Volume, stretches: usize) -> Result<(), TrialError> {
    const ROUNDS_PER_STRETCH: usize = 2;
    const OPERATIONS: usize = 150;
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (mut image, features) = volume.make(folder.path())?;
    let mut run = AgreementRun::new(volume.seed, features);
    let since = now();
    for round in 0..stretches * ROUNDS_PER_STRETCH {
        let about = |what: String| volume.failed(format!("round {round}: {what}"));
        let mut library = open(&image)?;
        run.perform(OPERATIONS, &mut library).map_err(|other| about(other.what().to_owned()))?;
        run.close(&mut library).map_err(|other| about(other.what().to_owned()))?;
        inspect_library(library, &image, run.model(), since).map_err(about)?;
        // A new copy each time, because the kernel may release a mounted image with a delay.
        let next = folder.path().join(format!("round-{round}"));
        std::fs::create_dir(&next).map_err(text)?;
        let copy = image.copy(&next)?;
        std::fs::remove_file(&image.data).map_err(text)?;
        let mount = copy.mount(&["noatime"])?;
        let mut kernel = Kernel::new(mount.path());
        run.perform(OPERATIONS, &mut kernel).map_err(|other| about(other.what().to_owned()))?;
        run.close(&mut kernel).map_err(|other| about(other.what().to_owned()))?;
        drop(kernel);
        mount.unmount()?;
        let last = next.join("back");
        std::fs::create_dir(&last).map_err(text)?;
        image = copy.copy(&last)?;
        std::fs::remove_file(&copy.data).map_err(text)?;
    }
    Ok(())
}

/// Lets four threads change a volume, each in a directory of its own, with `stretches` times 100
/// operations per thread. Compares each answer, and each resulting directory, with the thread's
/// model.
fn check_threads(volume: &Volume, stretches: usize) -> Result<(), TrialError> {
    const THREADS: u64 = 4;
    const OPERATIONS_PER_STRETCH: usize = 100;
    ready_with_programs()?;
    let seed = volume.seed;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = volume.make(folder.path())?;
    let since = now();
    let opened = open_writable(&image)?;
    let work = |thread: u64| -> Result<Model, String> {
        let name = format!("thread-{thread}");
        let mut library = Library::below(opened.clone(), &name).map_err(|e| e.to_string())?;
        let mut run = AgreementRun::new(seed << 8 | thread, features);
        run.perform(stretches * OPERATIONS_PER_STRETCH, &mut library)
            .and_then(|()| run.close(&mut library))
            .map_err(|other| format!("thread {thread}: {}", other.what()))?;
        Ok(run.into_model())
    };
    let models: Result<Vec<Model>, String> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|model| model.map_err(|_| "a thread panicked".to_owned())?).collect()
    });
    let models = models.map_err(|what| volume.failed(format!("{what}; {:?}", opened.space())))?;
    opened.close().map_err(text)?;
    let tree = judged_tree(&image).map_err(|what| volume.failed(what))?;
    for (thread, model) in models.iter().enumerate() {
        let differences = model.differences(&tree, &format!("thread-{thread}"), since);
        differences.into_result().map_err(|what| volume.failed(what))?;
    }
    Ok(())
}

/// Closes the volume. Then checks that xfs_repair finds nothing, and that the kernel and the
/// library show the state of `model`. `since` is the time before the first operation.
fn inspect_library(
    library: Library,
    image: &Image,
    model: &Model,
    since: Time,
) -> Result<(), String> {
    guarded(|| library.close())?.map_err(|error| format!("closing: {error}"))?;
    model.differences(&judged_tree(image)?, "", since).into_result()
}

/// Returns the tree that the kernel shows of a closed volume. Returns an error if xfs_repair finds
/// anything, or if ferroxfs shows a tree that differs from the kernel's. This machine's kernel need
/// not know realtime sections, so the tree of such a volume is that of ferroxfs.
fn judged_tree(image: &Image) -> Result<Tree, String> {
    let words = |error: xfs_oracle::OracleError| error.to_string();
    if let Some(findings) = image.findings().map_err(words)? {
        return Err(format!("xfs_repair -n says:\n{findings}"));
    }
    let volume = patiently(|| options(image).open(&image.data));
    let volume = volume.map_err(|error| error.to_string())?;
    let shown = ours::walk(&volume).map_err(|error| error.to_string())?;
    if volume.superblock().has_realtime() {
        return Ok(shown);
    }
    drop(volume);
    // A copy, because the kernel may release a mounted image with a delay.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(|e| e.to_string())?;
    let mount = image.copy(folder.path()).and_then(|copy| copy.mount(&["ro"])).map_err(words)?;
    let tree = Tree::walk(mount.path()).map_err(words)?;
    mount.unmount().map_err(words)?;
    Differences::between(&tree, &shown).into_result()?;
    Ok(tree)
}

fn open(image: &Image) -> Result<Library, TrialError> {
    Ok(Library::new(open_writable(image)?))
}

fn open_writable(image: &Image) -> Result<ferroxfs::Volume, TrialError> {
    patiently(|| options(image).write(true).open(&image.data)).map_err(text)
}

/// Returns the options with which ferroxfs opens an image.
fn options(image: &Image) -> OpenOptions {
    let options = OpenOptions::new();
    match &image.realtime {
        Some(path) => options.realtime_device(path),
        None => options,
    }
}

fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // The clock of inode times is coarser than this one.
    Time { seconds: now.as_secs() as i64 - 1, nanoseconds: 0 }
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
