//! Threads that change the same directories and files, with power cuts at any request.
//!
//! All changes of one thread to a log item go through one per-CPU slot of the log. If several
//! threads change the item, it moves from slot to slot, while other threads close the checkpoint.
//! Histories of one thread do not test that. So here four threads change shared directories and
//! files ([`shared`]), and a fifth thread syncs.
//!
//! No model predicts the final shared names. ferroxfs's recovery and the kernel's must show the
//! same names, and xfs_repair must find nothing in either. Every promise is judged ([`life`]) for
//! files that only one thread changes in the shared directories ([`own`]).
//!
//! A seed always gives the same operations of each thread, but the order between threads differs.

mod life;
mod own;
mod shared;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use ferroxfs::raw::Superblock;
use ferroxfs::{CreateOptions, NewKind, Node, OpenOptions, SetAttributes, Volume};
use xfs_oracle::harness::TrialError;
use xfs_oracle::model::{Features, Operation};
use xfs_oracle::{Geometry, Subject, Tree, guarded, ready_with_programs};
use xfs_testkit::{CowDevice, PowerCuts, Prng, Recording, RecordingDevice};

use crate::disks::{VolumeDisks, atomicity};
use crate::history::{keep, open, prepare, recover, writable_by};
use crate::judge::Witnesses;
use crate::library::Library;
use crate::volumes::make;
use crate::{is_long, ours, text};
use life::{ThreadLife, VolumeSync};
use own::OwnFiles;

const THREADS: u64 = 4;
/// Number of per-CPU slots of the log, for any number of processors. There are more slots than
/// threads, so that each thread usually has a slot of its own.
const LOG_SLOTS: usize = 8;
/// Number of operations per thread.
const OPERATIONS: u64 = 600;
/// The share of a thread's operations that change the thread's own files: one in this number.
const OWN_SHARE: usize = 3;
/// Number of operations of one thread between two syncs.
const SYNC_EVERY: u64 = 150;
/// Number of files of a thread that the thread uses only to change their modes. Before each
/// operation, the thread changes the modes of the next `TOUCHED_AT_ONCE` of these files. Closing a
/// checkpoint with many of these files takes a while, during which other threads continue.
const TOUCHED_FILES: usize = 500;
const TOUCHED_AT_ONCE: usize = 8;
/// Number of histories of a short run.
const SHORT_HISTORIES: u64 = 2;
/// Number of power cuts per history of a short run.
const SHORT_CUTS: u64 = 32;
const CUTS: u64 = 64;
/// The share of power cuts after which xfs_repair and the kernel check the volume too: one in this
/// number.
const WITNESSED_SHARE: u64 = 8;
/// The shared directories in which few names are used. In the directories of `WIDE`, and in the
/// root, many names are used.
const NARROW: [&str; 2] = ["d0", "d1"];
const WIDE: [&str; 2] = ["d2", "d3"];

pub(crate) fn check(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let (image, features) = make(geometry, folder.path())?;
    let folders = NARROW.into_iter().chain(WIDE);
    let make_folder = |path: &str| Operation::MakeDirectory { path: path.to_owned(), mode: 0o755 };
    let folders: Vec<_> = folders.map(make_folder).collect();
    let (start, _) = prepare((geometry, &image), features, &folders)?;
    let (histories, cuts) = if is_long() { (1, CUTS) } else { (SHORT_HISTORIES, SHORT_CUTS) };
    let witnesses = Witnesses { image: &image, folder: folder.path() };
    for number in 0..histories {
        let check = |seed| {
            let history = ThreadHistory::perform(start.fork(), features, seed)?;
            history.check_judge()?;
            history.check_cuts(&witnesses, (seed, cuts))
        };
        check(seed << 8 | number)
            .map_err(|what: String| text(format!("seed {seed}, history {number}: {what}")))?;
    }
    Ok(())
}

/// The volume, its device and the clock, which all threads use.
struct SharedVolume {
    volume: Volume,
    device: Arc<RecordingDevice>,
    /// A counter that orders the operations of threads and the syncs in time.
    clock: AtomicU64,
}

impl SharedVolume {
    /// Advances the clock. Returns a time that is later than all times returned before.
    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Syncs the volume. Returns the time at which the sync began, and the number of requests that
    /// the device had recorded when the sync returned.
    fn sync(&self) -> Result<VolumeSync, String> {
        let began = self.tick();
        self.volume.sync().map_err(|error| format!("sync: {error}"))?;
        Ok(VolumeSync { began, position: self.device.position() })
    }
}

/// The performed operations of all threads, and the requests of the device.
struct ThreadHistory {
    /// For each thread, the changes that it made to its own files, and the promises of its syncs.
    lives: Vec<ThreadLife>,
    syncs: Vec<VolumeSync>,
    recording: Recording,
    superblock: Superblock,
}

impl ThreadHistory {
    fn perform(start: CowDevice, features: Features, seed: u64) -> Result<Self, String> {
        let device = Arc::new(RecordingDevice::of(start));
        let options = OpenOptions::new().log_slots(LOG_SLOTS);
        let volume = writable_by(options, VolumeDisks::of_recorder(&device))
            .map_err(|error| error.to_string())?;
        let superblock = volume.superblock().clone();
        let stage = SharedVolume { volume, device, clock: AtomicU64::new(0) };
        let (lives, syncs) = std::thread::scope(|scope| {
            let (due, dues) = channel();
            let start = |thread| {
                let (due, stage) = (due.clone(), &stage);
                scope.spawn(move || guarded(|| work(stage, features, (thread, seed), &due)))
            };
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            drop(due);
            let syncs = sync_when_due(&stage, &dues);
            let lives = threads.into_iter().map(|thread| {
                let life = thread.join().map_err(|_| "a thread is gone".to_owned())?;
                life.map_err(|what| format!("panicked: {what}"))?
            });
            (lives.collect::<Result<Vec<_>, String>>(), syncs)
        });
        let recording = stage.device.recording();
        Ok(Self { lives: lives?, syncs: syncs?, recording, superblock })
    }

    fn check_cuts(
        &self,
        witnesses: &Witnesses<'_>,
        (seed, cuts): (u64, u64),
    ) -> Result<(), String> {
        let power = PowerCuts::new(&self.recording, atomicity(&self.superblock));
        for number in 0..cuts {
            let cut = power.sample(seed << 16 | number);
            let crashed = power.after(cut);
            let asked = (number % WITNESSED_SHARE == 0).then_some(witnesses);
            self.recovers(&crashed, cut.point(), asked).map_err(|what| {
                let name = format!("crash-threads-{seed}-{cut}");
                let kept = keep((witnesses.image, &crashed), &name, &self.operations_text());
                format!("cut {cut}, {kept}: {what}")
            })?;
        }
        Ok(())
    }

    /// Recovers a device after a power cut at `point` requests, and judges the result. If
    /// `witnesses` is given, xfs_repair and the kernel judge it too.
    fn recovers(
        &self,
        crashed: &CowDevice,
        point: usize,
        witnesses: Option<&Witnesses<'_>>,
    ) -> Result<(), String> {
        let recovered = recover(crashed.fork())?.replay(usize::MAX);
        let tree = walk(recovered.fork())?;
        life::check_links(&tree)?;
        self.lives.iter().try_for_each(|life| life.judge(&tree, point, &self.syncs))?;
        let Some(witnesses) = witnesses else { return Ok(()) };
        witnesses.repair(&recovered)?;
        witnesses.compare(crashed, &tree)
    }

    /// Checks that the judge rejects a volume that has lost synced changes. The device gets only
    /// the first half of the requests, but the judge must assume that all of them are durable.
    fn check_judge(&self) -> Result<(), String> {
        let position = self.recording.requests().len() / 2;
        let recovered = recover(self.recording.replay(position))?.replay(usize::MAX);
        let tree = walk(recovered)?;
        let judge = |life: &ThreadLife| life.judge(&tree, usize::MAX, &self.syncs);
        match self.lives.iter().try_for_each(judge) {
            Ok(()) => {
                Err(format!("the device before request {position} is accepted as the final one"))
            }
            Err(_) => Ok(()),
        }
    }

    /// Returns the operations of all threads on their own files, and the syncs, as text.
    fn operations_text(&self) -> String {
        let mut told = String::new();
        for life in &self.lives {
            let _ = writeln!(told, "{life:#?}");
        }
        let _ = writeln!(told, "{:#?}", self.syncs);
        told
    }
}

fn walk(recovered: CowDevice) -> Result<Tree, String> {
    ours::walk(&open(recovered)?).map_err(|error| format!("our tree: {error}"))
}

fn sync_when_due(stage: &SharedVolume, dues: &Receiver<()>) -> Result<Vec<VolumeSync>, String> {
    dues.iter().map(|()| stage.sync()).collect()
}

/// Performs the operations of one thread. Sends a message on `due` each time the volume should be
/// synced, which another thread does.
fn work(
    stage: &SharedVolume,
    features: Features,
    (thread, seed): (u64, u64),
    due: &Sender<()>,
) -> Result<ThreadLife, String> {
    let mut prng = Prng::new(seed << 8 | thread);
    let mut library = Library::new(stage.volume.clone());
    let mut owner = OwnFiles::new(stage, thread);
    let touched = touched_files(stage, thread).map_err(|error| format!("files: {error}"))?;
    let mut touched = touched.iter().cycle();
    for number in 1..=OPERATIONS {
        let change = SetAttributes::new().mode(number as u16 & 0o777);
        for node in touched.by_ref().take(TOUCHED_AT_ONCE) {
            node.set_attributes(&change).map_err(|error| format!("a change of mode: {error}"))?;
        }
        if prng.within(0..OWN_SHARE) == 0 {
            owner.step(&mut prng)?;
        } else {
            let operation = shared::operation(&mut prng, features);
            let answer = library.perform(&operation);
            if let Err(errno) = answer
                && shared::is_fatal(errno)
            {
                return Err(format!("thread {thread}: {operation:?} gave {errno}"));
            }
        }
        if number % SYNC_EVERY == thread * SYNC_EVERY / THREADS {
            // A missing receiver means that a sync has failed, which the syncing thread reports.
            let _ = due.send(());
        }
    }
    Ok(owner.into_life())
}

/// Creates the files whose modes a thread changes.
fn touched_files(stage: &SharedVolume, thread: u64) -> ferroxfs::Result<Vec<Node>> {
    let creation = CreateOptions::new(0o700);
    let root = stage.volume.root()?;
    let folder = root.create(format!("touched-{thread}"), &NewKind::Directory, &creation)?;
    let file = |number| folder.create(format!("{number}"), &NewKind::Regular, &creation);
    (0..TOUCHED_FILES).map(file).collect()
}
