//! Runs xfs_repair and our checker on a damaged image, to see which of them notices the damage.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use xfs_device::{FileDevice, FileOptions, SharedDevice};
use xfs_oracle::harness::TrialError;
use xfs_oracle::{CheckerVerdict, Xfsprogs, check_volume, guarded};

use crate::text;

/// The most seconds for which xfs_repair may run.
const MOST_SECONDS: &str = "120";
/// The greatest number of lines that are kept of the report of a program.
const MOST_LINES: usize = 12;

/// The findings of both programs for one image.
pub(crate) struct Verdict {
    /// The lines that `xfs_repair -n` prints for this image but not for the undamaged volume. Empty
    /// if xfs_repair has not noticed the damage.
    pub(crate) repair: Vec<String>,
    /// The findings of our checker that are damage (more severe than `preen`), and the parts that
    /// it has not checked.
    pub(crate) check: Vec<String>,
}

/// Runs xfs_repair and the checker of ferroxfs on damaged images of one volume.
pub(crate) struct Judge {
    /// The lines that xfs_repair prints for the undamaged volume. They are about unlinked inodes,
    /// which xfs_repair would connect to lost+found.
    usual: BTreeSet<String>,
    /// Whether xfs_repair ends with success on the undamaged volume.
    usually_clean: bool,
}

impl Judge {
    /// Creates a judge for damaged copies of `image`. Our checker must find `image` itself clean.
    pub(crate) fn new(image: &Path) -> Result<Self, TrialError> {
        let (usually_clean, lines) = repair(image)?;
        let judge = Self { usual: lines.into_iter().collect(), usually_clean };
        match judge.verdict(image)?.check {
            findings if findings.is_empty() => Ok(judge),
            findings => Err(text(format!("the undamaged volume has findings: {findings:?}"))),
        }
    }

    /// Returns the findings of xfs_repair and of our checker for an image.
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

/// Runs `xfs_repair -n`. Returns whether it ends with success, and the lines that it prints.
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

/// Runs our checker. Returns its findings that are damage (more severe than `preen`), and the parts
/// that it has not checked. If our checker refuses the volume, or cannot read the superblock or the
/// log, that is a finding too.
fn check(image: &Path) -> Result<Vec<String>, TrialError> {
    // Nothing is locked: the image is that of a test.
    let device = FileDevice::open(image, FileOptions::read_only().live()).map_err(text)?;
    let device: SharedDevice = Arc::new(device);
    Ok(match check_volume(&device, &device) {
        CheckerVerdict::Findings(findings) => findings,
        CheckerVerdict::DirtyLog => vec!["the log is dirty".to_owned()],
        CheckerVerdict::Unreadable(what) | CheckerVerdict::Refused(what) => vec![what],
    })
}
