//! Fixed scripts of calls on volumes with quota of users, groups and projects.
//!
//! A transcript has the calls of a script, and below each call its result in the guest: the error,
//! and the quota of each owner whose counts, limits or timers the call changed. A guest runs the
//! scripts again, in a long run, and must give the same text. The program of this test is also the
//! program that runs in the guest, so that the calls are system calls.
//!
//! `FERROXFS_RECORD=1` writes the results of the guest to the transcripts.
//!
//! Changes settle before the quota is read: all contents are written, and the space of removed
//! files is free. Time is the script's own. A timer is shown as the number of seconds from now,
//! rounded down to a multiple of 4. So a slow guest gives the same text.

mod kernel;
mod ours;
mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use xfs_format::dquot::QuotaKind;
use xfs_oracle::guest::{Guest, GuestKernel};
use xfs_oracle::harness::{Trial, TrialError};
use xfs_oracle::model::Operation;
use xfs_oracle::{Image, QuotaRecord, QuotaSetting, QuotaUsage, Xfsprogs};

use kernel::MountedVolume;
use ours::OpenVolume;
use step::{Actor, BASIC_BLOCKS, Call, Step};

/// A script, in the file with its results.
struct Script {
    file: &'static str,
    /// The option of mkfs.xfs that decides about parent pointers.
    parents: &'static str,
}

/// The general script, and a script about names on volumes without and with parent pointers.
const SCRIPTS: [Script; 3] = [
    Script { file: "transcript.txt", parents: "parent=0" },
    Script { file: "names.txt", parents: "parent=0" },
    Script { file: "names-parents.txt", parents: "parent=1" },
];
/// The option with which this program runs the script in the guest. Its arguments are the file of
/// the script, the device and the folder of the mount.
const OPTION: &str = "--quota-script";
/// Mount options at the beginning of the script.
const MOUNT_OPTIONS: &str = "uquota,gquota,pquota";
/// The time after which the guest is ended. The script needs less than a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(600);
/// The most seconds by which the clock of a slow guest may advance during a call.
const SLOWNESS: u64 = 40;
/// Time at the beginning of the script, in seconds since 1970.
const START: u64 = 2_000_000_000;
/// A line between the results of two scripts.
const BORDER: &str = "== next script ==\n";
/// The IDs whose quota the transcripts show.
const USERS: [u32; 5] = [0, 1001, 1002, 1003, 1005];
const PROJECTS: [u32; 4] = [0, 6, 7, 8];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        Trial::new("quota_script_has_calls_and_refusals", check_transcript),
        Trial::new("ferroxfs_gives_the_results_of_the_quota_script", check_ours),
    ];
    if std::env::var_os("FERROXFS_LONG").is_some() {
        trials.push(Trial::new("guest_gives_the_results_of_the_quota_script", check_guest));
    }
    trials
}

/// Runs the script on the kernel if the arguments ask for that. Returns `None` for the arguments of
/// a test.
pub(crate) fn run_in_guest() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1).skip_while(|argument| argument != OPTION).skip(1);
    let (script, device, folder) = (arguments.next()?, arguments.next()?, arguments.next()?);
    let script = fs::read_to_string(script).expect("the guest has the script");
    let volume = MountedVolume::mount(Path::new(&device), Path::new(&folder), MOUNT_OPTIONS);
    match volume.and_then(|mut volume| transcript(&mut volume, &script)) {
        Ok(transcript) => print!("{transcript}"),
        Err(error) => {
            println!("the script stopped: {error}");
            return Some(ExitCode::FAILURE);
        }
    }
    Some(ExitCode::SUCCESS)
}

/// A filesystem that runs the script.
trait QuotaSubject {
    /// Performs an operation on behalf of a user.
    fn perform(&mut self, actor: &Actor, operation: &Operation) -> Result<(), Errno>;

    /// Returns the quota of an owner, or `None` if the owner has neither usage nor limits.
    fn record(&mut self, kind: QuotaKind, id: u32) -> Result<Option<QuotaRecord>, Errno>;

    /// Sets limits and timers of an owner, in one call.
    fn set(&mut self, kind: QuotaKind, id: u32, settings: &[QuotaSetting]) -> Result<(), Errno>;

    /// Returns the sizes that programs see for a directory.
    fn space(&mut self, path: &str) -> Result<DirectorySpace, Errno>;

    /// Returns the types of quota that are on, each with the word `accounted` or `enforced`. A type
    /// that is both occurs twice.
    fn state(&mut self) -> Result<BTreeSet<(QuotaKind, &'static str)>, Errno>;

    /// Unmounts the volume, and mounts it with these options.
    fn remount(&mut self, options: &str) -> Result<(), Errno>;

    /// Sets the time, in seconds since 1970.
    fn set_clock(&mut self, seconds: u64) -> Result<(), Errno>;

    /// Writes all changes, and frees the space of the files that have lost their last name.
    fn settle(&mut self) -> Result<(), Errno>;
}

/// The sizes of a volume or a project, as statfs returns them for a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DirectorySpace {
    blocks: u64,
    free_blocks: u64,
    files: u64,
    free_files: u64,
}

/// Runs a script, and returns it with the results of each call. Old results in the script are
/// replaced.
fn transcript(subject: &mut impl QuotaSubject, script: &str) -> Result<String, Errno> {
    let mut clock = START;
    let mut shown = BTreeMap::new();
    let mut text = String::new();
    for line in script.lines().filter(|line| !line.starts_with("  ")) {
        writeln!(text, "{line}").expect("a string takes any text");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let step = Step::parse(line);
        if let Call::Clock(seconds) = step.call {
            clock += seconds;
        }
        subject.set_clock(clock)?;
        let answer = match call(subject, &step, clock) {
            Ok(answer) => answer,
            Err(error) => name(error),
        };
        text.push_str(&answer);
        subject.settle()?;
        show_changes(subject, &mut shown, clock, &mut text)?;
    }
    Ok(text)
}

/// Makes one call. Returns the lines of its answer, which are empty for a call that only succeeds.
fn call(subject: &mut impl QuotaSubject, step: &Step, clock: u64) -> Result<String, Errno> {
    match &step.call {
        Call::File(operation) => subject.perform(&step.actor, operation)?,
        Call::Limit { kind, id, settings } => subject.set(*kind, *id, settings)?,
        Call::Timer { kind, id, is_blocks, seconds } => {
            let at = clock + seconds;
            let timer = if *is_blocks {
                QuotaSetting::BlockTimer(at)
            } else {
                QuotaSetting::InodeTimer(at)
            };
            subject.set(*kind, *id, &[timer])?;
        }
        Call::Clock(_) => {}
        Call::Space(path) => {
            let DirectorySpace { blocks, free_blocks, files, free_files } = subject.space(path)?;
            return Ok(format!(
                "  {free_blocks} of {blocks} blocks and {free_files} of {files} files are free\n"
            ));
        }
        Call::State => {
            let line = |(kind, word): (QuotaKind, &str)| format!("  {} {word}\n", kind.name());
            return Ok(subject.state()?.into_iter().map(line).collect());
        }
        Call::Remount(options) => subject.remount(options)?,
    }
    Ok(String::new())
}

/// Adds to `text` a line for each owner whose quota differs from that in `shown`, and updates
/// `shown`.
fn show_changes(
    subject: &mut impl QuotaSubject,
    shown: &mut BTreeMap<(QuotaKind, u32), Option<QuotaRecord>>,
    clock: u64,
    text: &mut String,
) -> Result<(), Errno> {
    let owners = |kind| if kind == QuotaKind::Project { PROJECTS.as_slice() } else { &USERS };
    for kind in QuotaKind::ALL {
        for id in owners(kind) {
            let record = match subject.record(kind, *id) {
                // Quota of the type is off.
                Err(Errno::SRCH | Errno::NOSYS | Errno::INVAL) => continue,
                other => other?,
            };
            if is_same(shown.insert((kind, *id), record).unwrap_or(None), record) {
                continue;
            }
            let line = record.map_or("none".to_owned(), |QuotaRecord { blocks, inodes }| {
                let blocks = usage(blocks, BASIC_BLOCKS, *id, clock);
                format!("blocks {blocks}, inodes {}", usage(inodes, 1, *id, clock))
            });
            writeln!(text, "  {} {id}: {line}", kind.name()).expect("a string takes any text");
        }
    }
    Ok(())
}

/// Returns whether two records are equal, except that timers may differ by [`SLOWNESS`] seconds. A
/// timer that the kernel starts again, as it does when it counts all inodes, is not a change.
fn is_same(left: Option<QuotaRecord>, right: Option<QuotaRecord>) -> bool {
    let is_near = |left: QuotaUsage, right: QuotaUsage| {
        let timers = (left.timer == 0) == (right.timer == 0);
        timers
            && left.timer.abs_diff(right.timer) <= SLOWNESS
            && left == QuotaUsage { timer: left.timer, ..right }
    };
    match (left, right) {
        (Some(left), Some(right)) => {
            is_near(left.blocks, right.blocks) && is_near(left.inodes, right.inodes)
        }
        (left, right) => left == right,
    }
}

/// Returns a usage as text: the count, the soft and the hard limit, and the timer if it runs. The
/// timer of the ID 0 is a grace period.
fn usage(usage: QuotaUsage, unit: u64, id: u32, clock: u64) -> String {
    let [used, soft, hard] = [usage.used, usage.soft, usage.hard].map(|count| count / unit);
    let timer = match usage.timer {
        0 => String::new(),
        grace if id == 0 => format!(" grace {grace}"),
        end => {
            let seconds = end.cast_signed() - clock.cast_signed();
            format!(" timer {:+}", seconds.div_euclid(4) * 4)
        }
    };
    format!("{used}/{soft}/{hard}{timer}")
}

/// Returns the line of a transcript that reports an error, such as `EDQUOT`.
fn name(error: Errno) -> String {
    let name = match error {
        Errno::DQUOT => "EDQUOT",
        Errno::NOSPC => "ENOSPC",
        Errno::XDEV => "EXDEV",
        Errno::PERM => "EPERM",
        Errno::ACCESS => "EACCES",
        Errno::BADF => "EBADF",
        Errno::EXIST => "EEXIST",
        Errno::NOENT => "ENOENT",
        Errno::INVAL => "EINVAL",
        Errno::SRCH => "ESRCH",
        Errno::NOSYS => "ENOSYS",
        other => return format!("  {other:?}\n"),
    };
    format!("  {name}\n")
}

impl Script {
    fn path(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guest/quota_script").join(self.file)
    }

    /// Reads the script with its results.
    fn read(&self) -> Result<String, TrialError> {
        fs::read_to_string(self.path()).map_err(text)
    }

    /// Makes the volume of the script, and returns its image.
    fn make(&self, folder: &Path) -> Result<PathBuf, TrialError> {
        let image = folder.join(self.file);
        fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).map_err(text)?;
        let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
        mkfs.args(["-q", "--unsupported", "-n", self.parents, "-i", "exchange=1"]).arg(&image);
        let output = mkfs.output().map_err(text)?;
        let messages = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(image) } else { Err(text(messages)) }
    }
}

/// Checks that each line of the scripts is a call, and that there are enough calls.
fn check_transcript() -> Result<(), TrialError> {
    let read = SCRIPTS.iter().map(Script::read).collect::<Result<Vec<_>, _>>()?;
    let transcript = read.concat();
    let lines = transcript.lines().filter(|line| !line.starts_with(['#', ' ']));
    let steps = lines.filter(|line| !line.is_empty()).map(Step::parse).count();
    if steps < 60 {
        return Err(format!("the script has {steps} calls").into());
    }
    let errors = ["  EDQUOT\n", "  ENOSPC\n", "  EXDEV\n", "timer +", "timer -"];
    match errors.into_iter().find(|error| !transcript.contains(error)) {
        Some(missing) => Err(format!("the transcript has no {missing:?}").into()),
        None => Ok(()),
    }
}

/// Runs the scripts on ferroxfs, and compares the results with the transcripts.
fn check_ours() -> Result<(), TrialError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    for script in &SCRIPTS {
        let (image, expected) = (script.make(folder.path())?, script.read()?);
        let mut volume = OpenVolume::open(&image).map_err(text)?;
        let output = transcript(&mut volume, &expected).map_err(text)?;
        volume.close().map_err(text)?;
        compare(script, &expected, &output)?;
        if let Some(findings) = (Image { data: image, log: None, realtime: None }).findings()? {
            return Err(text(findings));
        }
    }
    Ok(())
}

/// Runs the scripts in one guest, and compares the results with the transcripts.
fn check_guest() -> Result<(), TrialError> {
    let mut guest = Guest::new(GuestKernel::New)?.memory_mib(768).limit(LIMIT);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    guest = guest.program("program", &std::env::current_exe().map_err(text)?);
    let mut commands = String::new();
    for (script, letter) in SCRIPTS.iter().zip('a'..) {
        guest = guest.image(&script.make(folder.path())?);
        guest = guest.file(script.file, script.read()?.as_bytes());
        let file = script.file;
        let run = format!("/in/program {OPTION} /in/{file} /dev/vd{letter} /mnt && umount /mnt");
        writeln!(commands, "{run} || exit 1; printf '{}\\n'", BORDER.trim_end())
            .expect("a string takes any text");
    }
    let output = guest.script(&commands).run()?.checked()?;
    for (script, output) in SCRIPTS.iter().zip(output.split(BORDER)) {
        if std::env::var_os("FERROXFS_RECORD").is_some() {
            fs::write(script.path(), output).map_err(text)?;
        }
        compare(script, &script.read()?, output)?;
    }
    Ok(())
}

/// Returns an error with the first difference between the result of a run and the transcript.
fn compare(script: &Script, transcript: &str, result: &str) -> Result<(), TrialError> {
    let mut call = "";
    for (number, (expected, found)) in transcript.lines().zip(result.lines()).enumerate() {
        if !expected.starts_with(' ') {
            call = expected;
        }
        if expected != found {
            let line = number + 1;
            return Err(text(format!(
                "{}:{line}: {call}\nexpected {expected}\nfound    {found}",
                script.file
            )));
        }
    }
    if transcript.lines().count() == result.lines().count() {
        Ok(())
    } else {
        Err(text(format!("{}: the result ends at another call", script.file)))
    }
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
