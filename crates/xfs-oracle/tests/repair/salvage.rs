//! Salvages damaged volumes without a repair, and compares the files with those of the undamaged
//! volume and with those that our repair leaves.
//!
//! A salvage must deliver each name that the repair leaves in its place with its contents. A file
//! that it reports as complete must have the contents of the undamaged volume. Damage that no
//! checksum can notice does not count against the report: contents have no checksums, and neither
//! a changed field with a right checksum nor an old block differs from a sound one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use xfs_device::{BlockDevice, Durability, FileDevice, FileOptions, OverlayDevice, SharedDevice};
use xfs_evidence::{SuperblockEvidence, complete_by_log, find_superblock};
use xfs_format::inode::FileType;
use xfs_format::superblock::seal;
use xfs_format::{IncompatFeatures, Superblock};
use xfs_log::{LogDevice, replay_before_damage, replay_past_damage};
use xfs_oracle::harness::TrialError;
use xfs_salvage::{FileReport, Node, NodeEntries, Salvage, SalvageOptions, Status};

use crate::contents::Patch;
use crate::kinds::NOISE;
use crate::text;
use crate::tree::{MOST_BYTES, Names, device_checksum};

/// The most bytes of memory for the blocks that a replay of the log changes.
const REPLAY_BYTES: u64 = 1 << 30;
/// The greatest number of lines that are kept of a list of names.
const MOST_LINES: usize = 4;
/// The kinds of damage that checksums cannot notice in every case.
const UNNOTICED: [&str; 2] = ["field", "stale"];

/// The result of one salvage, compared with the undamaged volume and with the repaired one.
#[derive(Default)]
pub(crate) struct SalvageOutcome {
    /// Number of names that were delivered in their place with their contents.
    pub(crate) delivered: u64,
    /// The names that our repair leaves in their place with their contents, but that the salvage
    /// does not deliver.
    pub(crate) fewer: Vec<String>,
    /// The files that the salvage reports as complete, although their contents differ from those of
    /// the undamaged volume.
    pub(crate) untrue: Vec<String>,
    /// The files that were delivered under no name, although their inode and contents survive.
    pub(crate) undelivered: Vec<String>,
    /// The reason why the salvage failed. `None` if it succeeded.
    pub(crate) failure: Option<String>,
}

impl SalvageOutcome {
    /// Returns the reasons why the trial fails, in words.
    pub(crate) fn failures(&self) -> Vec<String> {
        let list = |what: &str, lines: &[String]| {
            let shown: Vec<&str> = lines.iter().take(MOST_LINES).map(String::as_str).collect();
            let count = lines.len();
            (count > 0).then(|| format!("{what}: {count}: {}", shown.join("; ")))
        };
        let fewer = list("the salvage lacks what the repair leaves", &self.fewer);
        let untrue = list("reported as complete, with other contents", &self.untrue);
        let undelivered = list("survives and is not delivered", &self.undelivered);
        self.failure.iter().cloned().chain(fewer).chain(untrue).chain(undelivered).collect()
    }
}

/// A file that the salvage delivered: its inode number, and the checksum of its contents.
struct DeliveredFile {
    number: u64,
    contents: u32,
}

/// The damage of a trial: its class, and the bytes that it has overwritten.
pub(crate) struct DamageFacts<'a> {
    pub(crate) class: &'a str,
    pub(crate) patches: &'a [Patch],
    /// Whether the damage can destroy changes that only a dirty log has.
    pub(crate) is_log_hit: bool,
}

/// Salvages the damaged image, and compares the result with the names of the undamaged volume and
/// with those that the repair has left.
pub(crate) fn judge(
    image: &Path,
    before: &Names,
    repaired: &Names,
    damage: &DamageFacts<'_>,
    is_overwritten: &dyn Fn(u64) -> bool,
) -> Result<SalvageOutcome, TrialError> {
    let (files, reports) = deliver(image)?;
    let mut outcome = SalvageOutcome::default();
    if damage.class == NOISE {
        outcome.undelivered = undelivered(&files, before, damage, is_overwritten);
    }
    // A stale directory looks sound. Files that it lacks are delivered as orphans.
    let orphans: BTreeSet<(u64, u32)> = files
        .iter()
        .filter(|(path, _)| path.starts_with("/orphans"))
        .map(|(_, file)| (file.number, file.contents))
        .collect();
    let report_of: BTreeMap<&Path, (Status, &[String])> = reports
        .iter()
        .map(|(path, status, reasons)| (path.as_path(), (*status, reasons.as_slice())))
        .collect();
    for (path, file) in before.files() {
        let is_same =
            |number: u64, contents: u32| number == file.number() && contents == file.contents();
        let found = files.get(path).is_some_and(|found| is_same(found.number, found.contents));
        outcome.delivered += u64::from(found);
        let left = repaired.file(path);
        let report = report_of.get(path.as_path());
        let is_orphan = orphans.contains(&(file.number(), file.contents()));
        if !found && !is_orphan && left.is_some_and(|left| is_same(left.number(), left.contents()))
        {
            let status = report.map_or_else(
                || "no report".to_owned(),
                |(status, reasons)| format!("{} {}", status.word(), reasons.join(", ")),
            );
            outcome.fewer.push(format!("{}: {status}", path.display()));
        }
    }
    // Without the log, the older state of a file is complete in itself.
    if UNNOTICED.contains(&damage.class) || damage.is_log_hit {
        return Ok(outcome);
    }
    let originals: BTreeMap<u64, u32> =
        before.files().map(|(_, file)| (file.number(), file.contents())).collect();
    let hit: BTreeSet<u64> = before.files_in(damage.patches).collect();
    for (path, status, _) in &reports {
        let Some(file) = files.get(path).filter(|_| *status == Status::Complete) else { continue };
        let original = originals.get(&file.number);
        if original.is_some_and(|original| *original != file.contents)
            && !hit.contains(&file.number)
        {
            outcome.untrue.push(path.display().to_string());
        }
    }
    Ok(outcome)
}

/// Returns the files whose inode and contents survive the damage, and that were delivered under no
/// name with these contents.
fn undelivered(
    files: &BTreeMap<PathBuf, DeliveredFile>,
    before: &Names,
    damage: &DamageFacts<'_>,
    is_overwritten: &dyn Fn(u64) -> bool,
) -> Vec<String> {
    let hit: BTreeSet<u64> = before.files_in(damage.patches).collect();
    let delivered: BTreeSet<(u64, u32)> =
        files.values().map(|file| (file.number, file.contents)).collect();
    let survives = |number: u64| !hit.contains(&number) && !is_overwritten(number);
    before
        .files()
        .filter(|(_, file)| survives(file.number()))
        .filter(|(_, file)| !delivered.contains(&(file.number(), file.contents())))
        .map(|(path, file)| format!("{} of inode {}", path.display(), file.number()))
        .collect()
}

type Reports = Vec<(PathBuf, Status, Vec<String>)>;

/// Reads everything that a salvage delivers. Returns the files and the reports.
fn deliver(image: &Path) -> Result<(BTreeMap<PathBuf, DeliveredFile>, Reports), TrialError> {
    let device = FileDevice::open(image, FileOptions::read_only().live()).map_err(text)?;
    let device: SharedDevice = Arc::new(device);
    let found = find_superblock(&*device).map_err(text)?;
    let found = found.ok_or_else(|| text("no superblock is found"))?;
    let found = complete_by_log(&device, found);
    // The volume has an internal log. Like the command, the salvage reads the log before a replay.
    let options = SalvageOptions { log: Some(Arc::clone(&device)), ..SalvageOptions::default() };
    let (device, superblock) = match replay(&device, &found) {
        Ok(replayed) => replayed,
        Err(_) => (device, found.superblock),
    };
    let survey = Salvage::survey(&*device, &superblock, options, &());
    let survey = survey.map_err(text)?;
    let reports: Rc<RefCell<Reports>> = Rc::default();
    let sink = Rc::clone(&reports);
    survey.report_to(move |report: &FileReport| {
        let path = path_of(&report.path);
        sink.borrow_mut().push((path, report.status, report.reasons.clone()));
    });
    let mut files = BTreeMap::new();
    let mut levels: Vec<NodeEntries<'_>> = Vec::new();
    take(&survey.top(), &mut files, &mut levels);
    while let Some(entries) = levels.last_mut() {
        match entries.next() {
            Some((_, node)) => take(&node, &mut files, &mut levels),
            None => _ = levels.pop(),
        }
    }
    Ok((files, reports.take()))
}

/// Delivers one node, as a copy would: reads a file and adds it to `files`, or adds the entries of
/// a directory to `levels`.
fn take<'a>(
    node: &Node<'a>,
    files: &mut BTreeMap<PathBuf, DeliveredFile>,
    levels: &mut Vec<NodeEntries<'a>>,
) {
    let facts = node.facts();
    let contents = match FileType::from_mode(facts.mode) {
        Some(FileType::Directory) => {
            levels.push(node.entries());
            0
        }
        Some(FileType::Regular) => {
            let length = usize::try_from(facts.size.min(MOST_BYTES)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; length];
            let read = node.read_at(&mut bytes, 0);
            bytes.truncate(read);
            crc32c::crc32c(&bytes)
        }
        Some(FileType::Symlink) => crc32c::crc32c(&node.target()),
        _ => facts.device.map_or(0, device_checksum),
    };
    // A copy reads the attributes too, which may be damaged.
    drop(node.attributes());
    node.set_copied();
    files.insert(path_of(&node.path()), DeliveredFile { number: facts.inode, contents });
}

fn path_of(below: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec([b"/", below].concat()))
}

/// Replays the log in memory, with the superblock that the salvage has found and by the steps of
/// the command `salvage`. Returns the device with the replayed changes, and the superblock.
fn replay(
    device: &SharedDevice,
    found: &SuperblockEvidence,
) -> Result<(SharedDevice, Superblock), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let overlay = OverlayDevice::new(Arc::clone(device), REPLAY_BYTES);
    let mut superblock = found.superblock.clone();
    // The mark forbids opening. Here nothing is written but memory.
    superblock.incompat.remove(IncompatFeatures::NEEDSREPAIR);
    let mut sector = found.sector.clone();
    superblock.encode(&mut sector);
    seal(&mut sector);
    overlay.write_at(&sector, 0, Durability::Cached).map_err(|error| failed(&error))?;
    let open = ferroxfs::OpenOptions::new().with_devices(Arc::new(overlay), None).open();
    if let Ok(volume) = open {
        return Ok((Arc::clone(volume.cache().device()), volume.superblock().clone()));
    }
    let log = LogDevice::new(Arc::clone(device), &superblock).map_err(|error| failed(&error))?;
    if let Ok(replayed) = replay_past_damage(Arc::clone(device), &log, &superblock) {
        return Ok((replayed.device(), replayed.superblock().clone()));
    }
    let cut = replay_before_damage(Arc::clone(device), &log, &superblock);
    let cut = cut.map_err(|error| failed(&error))?.ok_or("nothing can be replayed")?;
    Ok((cut.replayed.device(), cut.replayed.superblock().clone()))
}
