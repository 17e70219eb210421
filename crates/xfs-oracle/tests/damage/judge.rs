//! Whether xfs_repair and our checker notice a damage.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use xfs_check::CheckOptions;
use xfs_device::{FileDevice, OpenOptions, SharedDevice};
use xfs_format::{DiskAddr, StructureAddress, Superblock};
use xfs_log::{LogDevice, find_head_and_tail};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{Xfsprogs, guarded};

use crate::text;

/// The most seconds for which xfs_repair may run.
const MOST_SECONDS: &str = "120";
/// The most lines of a report that are kept.
const MOST_LINES: usize = 12;

/// The findings of both programs for one image.
pub(crate) struct Verdict {
    /// The lines of `xfs_repair -n` that it does not print for the undamaged volume. Empty if it
    /// has noticed nothing.
    pub(crate) repair: Vec<String>,
    /// The findings of our checker above `preen`, and what it has not checked.
    pub(crate) check: Vec<String>,
}

/// Judges images of one volume.
pub(crate) struct Judge {
    /// The lines that xfs_repair prints for the undamaged volume. They speak of unlinked inodes,
    /// which xfs_repair would connect.
    usual: BTreeSet<String>,
    /// Whether xfs_repair succeeds on the undamaged volume.
    usually_clean: bool,
}

impl Judge {
    /// Creates the judge. Our checker must find the undamaged image clean.
    pub(crate) fn new(image: &Path) -> Result<Self, TrialError> {
        let (usually_clean, lines) = repair(image)?;
        let judge = Self { usual: lines.into_iter().collect(), usually_clean };
        match judge.verdict(image)?.check {
            findings if findings.is_empty() => Ok(judge),
            findings => Err(text(format!("the undamaged volume has findings: {findings:?}"))),
        }
    }

    /// Returns the findings for an image.
    pub(crate) fn verdict(&self, image: &Path) -> Result<Verdict, TrialError> {
        let (is_clean, lines) = repair(image)?;
        let mut said: Vec<String> =
            lines.into_iter().filter(|line| !self.usual.contains(line)).take(MOST_LINES).collect();
        if is_clean != self.usually_clean && said.is_empty() {
            said.push("it fails without a word of its own".to_owned());
        }
        let check = guarded(|| check(image)).map_err(|what| text(format!("a panic: {what}")))??;
        Ok(Verdict { repair: said, check })
    }
}

/// Runs `xfs_repair -n`. Returns whether it succeeds, and its lines.
fn repair(image: &Path) -> Result<(bool, Vec<String>), TrialError> {
    let repair = Xfsprogs::newer()?.command("xfs_repair");
    let mut command = Command::new("timeout");
    command.arg(MOST_SECONDS).arg(repair.get_program()).args(repair.get_args());
    let output = command.arg("-n").arg(image).output().map_err(text)?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines = said.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
    Ok((output.status.success(), lines.collect()))
}

/// Runs our checker. Returns its findings above `preen`, and what it has not checked. A volume that
/// is refused by name, or whose superblock or log cannot be read, is a finding too.
fn check(image: &Path) -> Result<Vec<String>, TrialError> {
    // Nothing is locked: the image is that of a test.
    let device = FileDevice::open(image, OpenOptions::read_only().live()).map_err(text)?;
    let device: SharedDevice = Arc::new(device);
    let mut sector = vec![0; 512];
    if device.read_at(0, &mut sector).is_err() {
        return Ok(vec!["no superblock".to_owned()]);
    }
    let place = StructureAddress::Disk(DiskAddr(0));
    let superblock = match Superblock::decode(&sector, place) {
        Ok(superblock) => superblock,
        Err(error) => return Ok(vec![format!("superblock: {error}")]),
    };
    let log =
        LogDevice::new(Arc::clone(&device), &superblock).and_then(|log| find_head_and_tail(&log));
    let state = match log {
        Ok(state) if state.clean => state,
        Ok(_) => return Ok(vec!["the log is dirty".to_owned()]),
        Err(error) => return Ok(vec![format!("log: {error}")]),
    };
    let options = CheckOptions::default().threads(1).log_head(state.head);
    let report = match xfs_check::check(&*device, &superblock, &options, &()) {
        Ok(report) => report,
        Err(reason) => return Ok(vec![reason.to_string()]),
    };
    let damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
    let findings = damage.map(ToString::to_string);
    let unchecked = report.unchecked.iter().map(|part| format!("unchecked: {}", part.what));
    Ok(findings.chain(unchecked).take(MOST_LINES).collect())
}
