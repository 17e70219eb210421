//! A fixed script of calls on a volume with quota of users, groups and projects.
//!
//! `transcript.txt` has the script, and below each call its result in the guest: the error, and the
//! quota of each owner whose counts, limits or timers the call changed. A guest runs the script
//! again, in a long run, and must give the same text. The program of this test is also the program
//! that runs in the guest, so that the calls are system calls.
//!
//! `FERROXFS_RECORD=1` writes the result of the guest to the transcript.
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
use std::path::Path;
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

/// The file with the script and its results.
const TRANSCRIPT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/quota_script/transcript.txt");
/// The option with which this program runs the script in the guest. The file of the script, the
/// device and the folder of the mount follow.
const OPTION: &str = "--quota-script";
/// Mount options at the beginning of the script.
const MOUNT_OPTIONS: &str = "uquota,gquota,pquota";
/// The time after which the guest is ended. The script needs less than a minute on an idle machine.
const LIMIT: Duration = Duration::from_secs(600);
/// Time at the beginning of the script, in seconds since 1970.
const START: u64 = 2_000_000_000;
/// The first section of the script with calls whose results ferroxfs does not give yet.
const UNSUPPORTED: &str = "# Other mount options.";
/// The IDs whose quota the transcript shows.
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

    /// Returns the types of quota that are accounted or enforced, each with one of these words.
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

/// Adds the quota of each owner whose quota is not as in `shown`.
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
            if shown.insert((kind, *id), record).unwrap_or(None) == record {
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

/// Returns the line of an error.
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

/// Checks that each line of the script is a call, and that there are enough of them.
fn check_transcript() -> Result<(), TrialError> {
    let transcript = fs::read_to_string(TRANSCRIPT).map_err(text)?;
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

/// Runs the script on ferroxfs up to [`UNSUPPORTED`], and compares the result with the transcript.
fn check_ours() -> Result<(), TrialError> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let image = folder.path().join("image");
    make(&image)?;
    let script = fs::read_to_string(TRANSCRIPT).map_err(text)?;
    let (script, _) = script.split_once(UNSUPPORTED).ok_or_else(|| text("no such section"))?;
    let mut volume = OpenVolume::open(&image).map_err(text)?;
    let output = transcript(&mut volume, script).map_err(text)?;
    volume.close().map_err(text)?;
    compare(script, &output)?;
    let image = Image { data: image, log: None };
    image.findings()?.map_or(Ok(()), |findings| Err(text(findings)))
}

/// Runs the script in the guest, and compares the result with the transcript.
fn check_guest() -> Result<(), TrialError> {
    let guest = Guest::new(GuestKernel::New)?;
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).map_err(text)?;
    let image = folder.path().join("image");
    make(&image)?;
    let program = std::env::current_exe().map_err(text)?;
    let script = fs::read_to_string(TRANSCRIPT).map_err(text)?;
    let guest = guest.image(&image).program("program", &program).memory_mib(768).limit(LIMIT);
    let guest = guest.file("transcript", script.as_bytes());
    let command = format!("/in/program {OPTION} /in/transcript /dev/vda /mnt");
    let output = guest.script(&command).run()?.checked()?;
    if std::env::var_os("FERROXFS_RECORD").is_some() {
        return fs::write(TRANSCRIPT, output).map_err(text);
    }
    compare(&script, &output)
}

/// Makes the volume of the script.
fn make(image: &Path) -> Result<(), TrialError> {
    fs::File::create(image).and_then(|file| file.set_len(64 << 20)).map_err(text)?;
    let mut mkfs = Xfsprogs::newer()?.command("mkfs.xfs");
    mkfs.args(["-q", "--unsupported", "-n", "parent=0", "-i", "exchange=1"]).arg(image);
    let output = mkfs.output().map_err(text)?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(text(messages)) }
}

/// Returns an error with the first difference between the result of a run and the transcript.
fn compare(transcript: &str, result: &str) -> Result<(), TrialError> {
    let mut call = "";
    for (number, (expected, found)) in transcript.lines().zip(result.lines()).enumerate() {
        if !expected.starts_with(' ') {
            call = expected;
        }
        if expected != found {
            let line = number + 1;
            return Err(text(format!(
                "line {line}: {call}\nexpected {expected}\nfound    {found}"
            )));
        }
    }
    if transcript.lines().count() == result.lines().count() {
        Ok(())
    } else {
        Err(text("the result ends at another call"))
    }
}

fn text(error: impl std::fmt::Display) -> TrialError {
    TrialError::Failed(error.to_string())
}
