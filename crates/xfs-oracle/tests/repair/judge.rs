//! Repairs damaged volumes with our repair and with xfs_repair, and records the names that each one
//! keeps. Also salvages each damaged volume.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_format::{Geometry, InodeNumber};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{CheckerVerdict, Xfsprogs, check_volume, guarded};
use xfs_repair::{LogOutcome, LogReplay, PlanOptions, plan_repair};

use crate::base::Base;
use crate::contents::Patch;
use crate::damage::Damage;
use crate::kernel;
use crate::kinds::Case;
use crate::salvage::{self, DamageFacts, SalvageOutcome};
use crate::text;
use crate::tree::{Kept, Names, Overwritten};

/// The most seconds for which xfs_repair may run.
const MOST_SECONDS: &str = "240";
/// The exit code of xfs_repair for a dirty log.
const DIRTY_LOG: i32 = 2;
/// The class of damages that put an older state in the place of a block.
const STALE: &str = "stale";
/// The greatest number of lines that are kept of a list of findings or differences.
const MOST_LINES: usize = 6;

/// The starts of the lines that `xfs_repair -n` prints for every image, even an undamaged one.
const USUAL: [&str; 6] = [
    "Phase",
    "- ",
    "No modify flag set",
    "Cannot get host",
    "Repair may fail",
    "the image and the host",
];

/// The state of a volume after a repair.
pub(crate) struct Outcome {
    pub(crate) kept: Kept,
    /// The names of the repaired volume.
    names: Names,
    /// For the first few names that lead to a file which has changed, or to no file: a description
    /// of the difference.
    differences: Vec<String>,
    /// The findings of our checker for the repaired volume. Empty for a clean volume.
    findings: Vec<String>,
    /// The lines that `xfs_repair -n` prints for the repaired volume, and the parts of the volume
    /// that the judge could not read. Empty if there are none.
    complaints: Vec<String>,
    /// The differences that the kernel's mount shows. Empty if there are none, or if the kernel has
    /// not mounted this volume.
    kernel: Vec<String>,
    /// The reason why the repair failed. `None` if it succeeded.
    failure: Option<String>,
    /// The number of repair actions that lose data. It is always 0 for xfs_repair.
    losses: usize,
    /// The names that are not in their place, although the inodes on their path are undamaged and
    /// have their parent pointers.
    pub(crate) displaced: Vec<String>,
    /// The names that are gone or have another type, although their entry is undamaged.
    unnamed: Vec<String>,
    /// The limits of quota that are lost or changed, although the dquots are undamaged.
    unlimited: Vec<String>,
}

impl Outcome {
    /// Returns whether the repair succeeded, and no judge finds anything in the repaired volume.
    pub(crate) fn is_clean(&self) -> bool {
        self.findings.is_empty()
            && self.complaints.is_empty()
            && self.kernel.is_empty()
            && self.failure.is_none()
    }
}

/// Returns the reasons why a trial fails, in words. A trial fails if our repair fails, keeps less
/// than xfs_repair, displaces a name whose inodes and parent pointers are undamaged, or leaves a
/// volume that is not clean.
pub(crate) fn failures(ours: &Outcome, theirs: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(failure) = &ours.failure {
        failures.push(failure.clone());
    }
    let (our, their) = (&ours.kept, &theirs.kept);
    if our.intact < their.intact || our.gone > their.gone {
        failures.push(format!(
            "ours {our:?} with {} losses, theirs {their:?}: {}",
            ours.losses,
            ours.differences.join("; ")
        ));
    }
    let mut list = |what: &str, lines: &[String]| {
        if !lines.is_empty() {
            let shown: Vec<&str> = lines.iter().take(MOST_LINES).map(String::as_str).collect();
            failures.push(format!("{} {what}: {}", lines.len(), shown.join("; ")));
        }
    };
    list("names are not in their place", &ours.displaced);
    list("undamaged entries are gone", &ours.unnamed);
    list("limits of quota are lost", &ours.unlimited);
    if !ours.findings.is_empty() {
        failures.push(format!("not clean by check: {}", ours.findings.join("; ")));
    }
    if !ours.complaints.is_empty() {
        failures.push(format!("not clean by xfs_repair -n: {}", ours.complaints.join("; ")));
    }
    if !ours.kernel.is_empty() {
        failures.push(format!("not clean by the kernel: {}", ours.kernel.join("; ")));
    }
    failures
}

/// The results of one trial: those of the repairs and of the salvage.
pub(crate) struct TrialOutcomes {
    /// `None` if only salvages are judged.
    pub(crate) repairs: Option<RepairOutcomes>,
    pub(crate) salvage: SalvageOutcome,
}

/// The results of our repair and of xfs_repair in one trial.
pub(crate) struct RepairOutcomes {
    pub(crate) ours: Outcome,
    pub(crate) theirs: Outcome,
}

/// Returns whether the environment variable `FERROXFS_SALVAGE` asks for salvages only, without
/// repairs. Such a trial takes a third of the time.
fn judges_salvages_only() -> bool {
    std::env::var_os("FERROXFS_SALVAGE").is_some()
}

/// Damages and repairs copies of one volume with our repair and with xfs_repair, and compares the
/// results with the undamaged volume.
pub(crate) struct Judge<'a> {
    base: &'a Base,
    ours: PathBuf,
    theirs: PathBuf,
}

impl<'a> Judge<'a> {
    /// Creates a judge, whose copies lie in `folder`.
    pub(crate) fn new(base: &'a Base, folder: &Path) -> Self {
        println!("repairs: the volume {} has {} names", base.state.name(), base.names.count());
        let [ours, theirs] = ["ours.xfs", "theirs.xfs"].map(|name| folder.join(name));
        Self { base, ours, theirs }
    }

    /// Makes the same damage on two copies of the volume. Repairs one copy with our repair.
    /// Salvages the other copy, and then repairs it with xfs_repair. Returns `None` if the damage
    /// changes nothing, because the field already has the new value.
    pub(crate) fn judge(&self, case: &Case) -> Result<Option<TrialOutcomes>, TrialError> {
        copy(&self.base.image.data, &self.ours)?;
        let patches = case.damage.apply(self.base, &self.ours)?;
        if patches.is_empty() && matches!(case.damage, Damage::Field { .. }) {
            return Ok(None);
        }
        copy(&self.ours, &self.theirs)?;
        let repaired = guarded(|| repair(&self.ours));
        let (failure, losses) = match repaired {
            Ok(Ok(losses)) => (None, losses),
            Ok(Err(error)) => (Some(format!("the repair fails: {error}")), 0),
            Err(panic) => (Some(format!("the repair panics: {panic}")), 0),
        };
        let is_log_hit = self.base.hits_dirty_log(&patches);
        let damage = DamageFacts { class: &case.class, patches: &patches, is_log_hit };
        if judges_salvages_only() {
            // The names that a failed repair leaves are no measure.
            let names = failure.is_none().then(|| Names::read(&self.ours)).transpose()?;
            let salvage = self.salvage(&names.unwrap_or_default(), &damage);
            return Ok(Some(TrialOutcomes { repairs: None, salvage }));
        }
        let mut ours = Outcome { failure, losses, ..self.look_at(&self.ours, &patches)? };
        // An older inode with a right checksum contradicts the entry, and one of them must go. An
        // older superblock has no quota.
        if case.class == STALE {
            ours.unnamed.clear();
            ours.unlimited.clear();
        }
        if ours.is_clean() {
            ours.kernel = kernel::complaints(&self.ours, &ours.names)?;
        }
        let salvage = self.salvage(&ours.names, &damage);
        let failure = xfs_repair(&self.theirs)?;
        let theirs = Outcome { failure, ..self.look_at(&self.theirs, &patches)? };
        Ok(Some(TrialOutcomes { repairs: Some(RepairOutcomes { ours, theirs }), salvage }))
    }

    /// Salvages the damaged copy, and compares the result with the names that our repair has left
    /// on the other copy.
    fn salvage(&self, repaired: &Names, damage: &DamageFacts<'_>) -> SalvageOutcome {
        let is_overwritten = |inode| match self.base.superblock() {
            Ok(superblock) => Self::is_overwritten(&superblock.geometry, damage.patches, inode),
            Err(_) => true,
        };
        let judged =
            || salvage::judge(&self.theirs, &self.base.names, repaired, damage, &is_overwritten);
        match guarded(judged) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => failed_salvage(format!("the salvage fails: {error:?}")),
            Err(panic) => failed_salvage(format!("the salvage panics: {panic}")),
        }
    }

    /// Returns whether any of the patches overwrites a byte of the inode.
    fn is_overwritten(geometry: &Geometry, patches: &[Patch], inode: u64) -> bool {
        let location = geometry.inode_location(InodeNumber(inode));
        let location = location.expect("the undamaged volume has the inode");
        let start = location.cluster.0 * 512 + u64::from(location.offset_bytes);
        let end = start + u64::from(geometry.inode_size);
        let overlaps = |patch: &Patch| {
            let patch_end = patch.offset + patch.bytes.len() as u64;
            patch.offset < end && start < patch_end
        };
        patches.iter().any(overlaps)
    }

    /// Reads the names of a repaired volume, and checks the volume with our checker and with
    /// `xfs_repair -n`. `patches` are the bytes that the damage has overwritten.
    fn look_at(&self, image: &Path, patches: &[Patch]) -> Result<Outcome, TrialError> {
        let geometry = self.base.superblock()?.geometry;
        let found = Names::read(image);
        let (found, unreadable) = match found {
            Ok(found) => (found, None),
            Err(error) => (Names::default(), Some(format!("it cannot be read: {error}"))),
        };
        let mut complaints = complaints(image)?;
        complaints.extend(unreadable);
        complaints.extend(found.unreadable.iter().take(MOST_LINES).cloned());
        let is_inode = |inode| Self::is_overwritten(&geometry, patches, inode);
        let damage = Overwritten { patches, is_inode: &is_inode };
        // A damaged log can lose the changes that only the log has.
        let is_log_hit = self.base.hits_dirty_log(patches);
        let is_excused = |path: &Path| is_log_hit && self.base.is_late(path);
        let names = &self.base.names;
        Ok(Outcome {
            kept: names.kept_in(&found),
            differences: names.differences(&found, MOST_LINES),
            findings: findings(image)?,
            complaints,
            kernel: Vec::new(),
            failure: None,
            losses: 0,
            displaced: names.displaced(&found, &damage, is_excused),
            unnamed: names.unnamed(&found, &damage, is_excused),
            unlimited: names.unlimited(&found, &damage),
            names: found,
        })
    }
}

fn failed_salvage(failure: String) -> SalvageOutcome {
    SalvageOutcome { failure: Some(failure), ..SalvageOutcome::default() }
}

/// Copies an image. Holes stay holes.
fn copy(from: &Path, to: &Path) -> Result<(), TrialError> {
    if to.exists() {
        fs::remove_file(to).map_err(text)?;
    }
    let mut command = Command::new("cp");
    let status = command.arg("--sparse=always").arg(from).arg(to).status().map_err(text)?;
    if status.success() { Ok(()) } else { Err(text("cp fails")) }
}

/// The recovery of a dirty log, by the same steps as in the command `repair`.
struct Recovery;

impl LogReplay for Recovery {
    fn replay(&self, device: SharedDevice) -> Result<LogOutcome, String> {
        let open = ferroxfs::OpenOptions::new().write(true);
        let open = open.fixed_time(ferroxfs::Timestamp::default());
        let recovered = open.with_devices(device, None).recover();
        let summary = recovered.map_err(|error| error.to_string())?;
        Ok(summary.map_or(LogOutcome::Clean, |_| LogOutcome::Replayed))
    }
}

/// Repairs an image with our repair. Returns the number of repair actions that lose data.
fn repair(image: &Path) -> Result<usize, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let device = FileDevice::open(image, FileOptions::read_write()).map_err(|e| failed(&e))?;
    let device: SharedDevice = Arc::new(device);
    let mut options = PlanOptions::new(&Recovery);
    options.allow_loss = true;
    let rehearsal = plan_repair(device.clone(), options, &()).map_err(|e| failed(&e))?;
    let plan = rehearsal.plan();
    if std::env::var_os("FERROXFS_SHOW").is_some() {
        for action in &plan.actions {
            println!(
                "  {}: {}: keeps {}: {:?}",
                action.rule, action.place, action.keeps, action.loses
            );
        }
    }
    if !plan.is_empty() {
        let file = tempfile::tempfile().map_err(|e| failed(&e))?;
        let undo = rehearsal.write_undo(file).map_err(|e| failed(&e))?;
        xfs_repair::resume(&undo, &*device, &()).map_err(|e| failed(&e))?;
    }
    Ok(plan.actions.iter().filter(|action| !action.loses.is_empty()).count())
}

fn program(arguments: &[&str], image: &Path) -> Result<std::process::Output, TrialError> {
    let repair = Xfsprogs::newer()?.command("xfs_repair");
    let mut command = Command::new("timeout");
    command.arg(MOST_SECONDS).arg(repair.get_program()).args(repair.get_args());
    command.args(arguments).arg(image).output().map_err(text)
}

/// Repairs an image with xfs_repair. If xfs_repair refuses the dirty log, the log is discarded
/// (option `-L`). Returns the reason if the repair failed, and otherwise `None`.
fn xfs_repair(image: &Path) -> Result<Option<String>, TrialError> {
    let mut output = program(&[], image)?;
    if output.status.code() == Some(DIRTY_LOG) {
        output = program(&["-L"], image)?;
    }
    let code = output.status.code();
    Ok((code != Some(0)).then(|| format!("xfs_repair ends with {code:?}")))
}

/// Returns the lines of `xfs_repair -n` that report problems. Empty if it finds no problem.
fn complaints(image: &Path) -> Result<Vec<String>, TrialError> {
    let output = program(&["-n"], image)?;
    if output.status.success() {
        return Ok(Vec::new());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    let says_more = |line: &&str| {
        !USUAL.iter().any(|usual| line.trim().starts_with(usual)) && !line.trim().is_empty()
    };
    let lines = said.lines().filter(says_more).take(MOST_LINES).map(|line| line.trim().to_owned());
    Ok(lines.chain([format!("code {:?}", output.status.code())]).collect())
}

/// Returns the findings of our checker that are damage (more severe than `preen`), and the parts
/// that it has not checked.
fn findings(image: &Path) -> Result<Vec<String>, TrialError> {
    let device = FileDevice::open(image, FileOptions::read_only().live()).map_err(text)?;
    let device: SharedDevice = Arc::new(device);
    let verdict = guarded(|| check_volume(&device, &device));
    Ok(match verdict {
        Ok(CheckerVerdict::Findings(findings)) => findings.into_iter().take(MOST_LINES).collect(),
        Ok(CheckerVerdict::DirtyLog) => vec!["the log is dirty".to_owned()],
        Ok(CheckerVerdict::Unreadable(what) | CheckerVerdict::Refused(what)) => vec![what],
        Err(panic) => vec![format!("the checker panics: {panic}")],
    })
}
