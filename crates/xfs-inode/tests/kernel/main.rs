//! Simulated power cuts at random moments while ferroxfs changes files that have no names. After
//! each cut the kernel replays the log, finishes the open intents and frees the files. Then
//! `xfs_repair -n` must find nothing.
//!
//! With `FERROXFS_LONG=1` there are thirty times as many cuts.

#[path = "../../src/check.rs"]
mod check;
mod conversions;

use std::fs::OpenOptions as HostOptions;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::Arc;

use tempfile::TempDir;
use xfs_alloc::{InodePurpose, add_unlinked, allocate_inode, inode_blocks, open_journal};
use xfs_buffer::{BufferCache, Error, PosixError, Result};
use xfs_device::{BlockDevice, FileDevice, FileOptions, SharedDevice};
use xfs_format::inode::{FileType, InodeFlags, InodeFlags2};
use xfs_format::reservation::TransactionKind;
use xfs_format::timestamp::Timestamp;
use xfs_inode::{ExchangedRange, Fork, InitialInode, Inode, KeepSize, LiveInode, SharedRange};
use xfs_oracle::harness::{Trial, TrialError, run};
use xfs_oracle::{Geometry, Image, ready_with_programs};
use xfs_testkit::{Atomicity, PowerCuts, Prng, RecordingDevice};
use xfs_trans::Journal;
use xfs_trans::testing::{JournalParts, parts, superblock};

use conversions::Becomes;

const STEPS: usize = 120;
const CUTS: u64 = 4;
const CHUNK_BYTES: u64 = 1 << 20;

fn main() -> ExitCode {
    let names = ["default", "block-1k", "block-64k", "rmapbt", "no-reflink", "parent-exchange"];
    let geometries = Geometry::ALL.into_iter().filter(|geometry| names.contains(&geometry.name));
    let trials = geometries.zip(71..).map(|(geometry, seed)| {
        Trial::new(format!("files::{}", geometry.name), move || check(&geometry, seed))
    });
    run(trials.chain(conversions()).collect())
}

fn conversions() -> impl Iterator<Item = Trial> {
    let mapped = |geometry: &Geometry| ["rmapbt", "block-2k"].contains(&geometry.name);
    Geometry::ALL.into_iter().filter(mapped).flat_map(|geometry| {
        [Becomes::Written, Becomes::Unwritten].map(|becomes| {
            let name = format!("a_promised_conversion::{}::{becomes:?}", geometry.name);
            Trial::new(name, move || conversions::check(&geometry, becomes))
        })
    })
}

fn failed(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}

fn folder() -> Result<TempDir, TrialError> {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(failed)
}

fn cuts() -> u64 {
    if std::env::var_os("FERROXFS_LONG").is_some() { 30 * CUTS } else { CUTS }
}

fn check(geometry: &Geometry, seed: u64) -> Result<(), TrialError> {
    ready_with_programs()?;
    let place = folder()?;
    let image = geometry.make(place.path())?;
    let copies = folder()?;
    let copy = image.copy(copies.path())?;
    let base: SharedDevice =
        Arc::new(FileDevice::open(&copy.data, FileOptions::read_write()).map_err(failed)?);
    let recorded = Arc::new(RecordingDevice::new(base));
    let device: SharedDevice = recorded.clone();
    let JournalParts { cache, log, superblock: _ } = parts(&device, 0);
    let sound = superblock(&device);
    let journal = open_journal(cache, log, &sound).map_err(failed)?;
    let mut work = RandomWork::new(&journal, sound.root_inode, seed).map_err(failed)?;
    for _ in 0..STEPS {
        work.step().map_err(failed)?;
    }
    let recording = recorded.recording();
    let power = PowerCuts::new(&recording, Atomicity::of(&sound));
    for index in 0..cuts() {
        let cut = power.sample(seed << 20 | index);
        write_image(&power.after(cut), &image)?;
        judge(&image).map_err(|error| failed(format!("seed {seed}, cut {cut}: {error:?}")))?;
    }
    Ok(())
}

/// Writes the contents of a device to an image file.
fn write_image(device: &dyn BlockDevice, image: &Image) -> Result<(), TrialError> {
    let file = HostOptions::new().write(true).open(&image.data).map_err(failed)?;
    file.set_len(0).and_then(|()| file.set_len(device.length_bytes())).map_err(failed)?;
    let mut at = 0;
    while at < device.length_bytes() {
        let mut chunk = vec![0; (device.length_bytes() - at).min(CHUNK_BYTES) as usize];
        device.read_at(&mut chunk, at).map_err(failed)?;
        if chunk.iter().any(|byte| *byte != 0) {
            file.write_all_at(&chunk, at).map_err(failed)?;
        }
        at += chunk.len() as u64;
    }
    Ok(())
}

/// Lets the kernel recover the image, then checks the volume with `xfs_repair` and with the
/// consistency check of this crate's tests.
fn judge(image: &Image) -> Result<(), TrialError> {
    image.mount(&[])?.unmount()?;
    if let Some(findings) = image.findings()? {
        return Err(failed(format!("xfs_repair -n: {findings}")));
    }
    let device: SharedDevice =
        Arc::new(FileDevice::open(&image.data, FileOptions::read_write()).map_err(failed)?);
    let sound = superblock(&device);
    let cache = BufferCache::new(device, Arc::new(sound.geometry), 8 << 20);
    check::check_volume(&cache);
    Inode::read(&cache, sound.root_inode).map(|_| ()).map_err(failed)
}

/// Files that have no names, and that are changed at random.
struct RandomWork<'a> {
    journal: &'a Arc<Journal>,
    random: Prng,
    files: Vec<Arc<LiveInode>>,
    block: u64,
}

impl<'a> RandomWork<'a> {
    fn new(journal: &'a Arc<Journal>, root: xfs_format::InodeNumber, seed: u64) -> Result<Self> {
        let block = journal.geometry().block_size.into();
        let files = (0..3).map(|_| create(journal, root)).collect::<Result<_>>()?;
        Ok(Self { journal, random: Prng::new(seed), files, block })
    }

    fn step(&mut self) -> Result<()> {
        let now = Timestamp::default();
        let journal = self.journal;
        let [Some(left), Some(right)] =
            [0; 2].map(|_| self.random.choose(&self.files).map(Arc::clone))
        else {
            return Ok(());
        };
        let blocks = 64;
        let start = self.random.within(0..blocks) as u64 * self.block;
        let to = self.random.within(0..blocks) as u64 * self.block;
        let length_bytes = self.random.within(1..9) as u64 * self.block;
        let range = start..start + length_bytes;
        let done = match self.random.within(0..12) {
            0..=3 => {
                let bytes = vec![self.random.number() as u8; length_bytes as usize + 7];
                left.write_at(journal, start + 3, &bytes, now).map(|_| ())
            }
            4 => left.punch(journal, range, now),
            5 => left.zero(journal, range, KeepSize::No, now),
            6 => left.truncate(journal, start, now),
            7 => left.unshare(journal, range, now),
            8 => left.collapse(journal, range, now),
            9 => left.insert(journal, range, now),
            10 => {
                let shared = SharedRange { from: start, to, length_bytes };
                LiveInode::reflink(journal, &left, &right, shared, now)
            }
            _ => {
                let range = ExchangedRange { starts: [start, to], length_bytes: None };
                LiveInode::exchange(journal, [&left, &right], range, now)
            }
        };
        match done {
            Ok(()) | Err(Error::Posix(PosixError::InvalidArgument | PosixError::NotSupported)) => {}
            Err(error) => return Err(error),
        }
        if self.random.within(0..8) == 0 {
            journal.force_all()?;
        }
        Ok(())
    }
}

fn create(journal: &Arc<Journal>, root: xfs_format::InodeNumber) -> Result<Arc<LiveInode>> {
    let blocks = inode_blocks(journal.geometry());
    let mut tx = journal.begin(TransactionKind::CreateUnnamed, blocks)?;
    let allocated = allocate_inode(&mut tx, root, InodePurpose::File)?;
    let made = InitialInode {
        inode: allocated,
        mode: FileType::Regular.mode_bits() | 0o600,
        uid: 0,
        gid: 0,
        project_id: 0,
        nlink: 0,
        now: Timestamp::default(),
        flags: InodeFlags::empty(),
        flags2: InodeFlags2::empty(),
        extent_size_hint_blocks: 0,
        cow_extent_size_hint_blocks: 0,
        rdev: None,
        attr_room: false,
        attributes: None,
    };
    let live = LiveInode::create(&mut tx, made)?;
    add_unlinked(&mut tx, live.log_item())?;
    tx.commit()?;
    Ok(Arc::new(live))
}
