//! `check`: reports what is wrong with a volume, without changing it.
//!
//! Owns: how findings are printed, and the exit code. Does **not** own: the checks
//! ([`ferroxfs::check`]). A dirty log is replayed in memory, and the result is checked.

use std::fs::File;
use std::io::{self, Read, Write};

use ferroxfs::check::{CheckError, CheckOptions, Code, Finding, Place, Progress, Report, Severity};
use ferroxfs::raw::Superblock;
use ferroxfs::raw::format::FormatVersion;
use ferroxfs::raw::log::{LogState, count_records_after_head};
use serde_json::Value;

use crate::cli::{CheckArguments, GlobalOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::interrupt;
use crate::json::{self, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names::{self, NameStyle};
use crate::terminal::plural::counted;
use crate::terminal::tally::{Tally, Work};

/// The name and version of the JSON output, printed under the key `schema`.
const SCHEMA: &str = "ferroxfs.check/1";
/// The largest number of findings with the same code that the text shows without `--all`.
const MOST_SHOWN: usize = 5;
const VERSION_4: &str = "version 4";

struct Check {
    /// The image, or the failure to open it. `run` reports this failure, so that the JSON output
    /// contains it too.
    image: Result<OpenImage, Failure>,
    arguments: CheckArguments,
    /// The open file `/proc/self/status`, for the memory that the check has used. The sandbox would
    /// not let it be opened later.
    process: Option<File>,
    /// The options that say where in the image the volume is, for commands in messages.
    place: String,
}

struct OpenImage {
    image: Image,
    /// The damage of the first superblock, if a copy of it is used in its place.
    damage: Option<Finding>,
}

/// The report of a check, and the facts about the volume that are printed with it.
struct Examined {
    report: Report,
    /// The state of the log before the check, as the JSON output has it: `clean`, `replayed` or
    /// `not_replayed`.
    log: &'static str,
    shown: String,
    /// The property because of which `repair` refuses the volume; `None` if `repair` accepts the
    /// volume.
    not_repaired: Option<&'static str>,
}

/// Opens the image and returns the command, ready to run.
pub(crate) fn open(
    arguments: CheckArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if options.live || options.no_recovery {
        return Err(Failure::usage(
            "check: takes neither --live nor --no-recovery: a volume without the changes in its log \
             looks damaged",
        ));
    }
    let image = match Image::open_for_check(&arguments.image, options) {
        Err(failure) if failure.exit() == Exit::Usage => return Err(failure),
        image => image.map(|(image, damage)| OpenImage { image, damage }),
    };
    interrupt::arm()?;
    let process = File::open("/proc/self/status").ok();
    Ok(Box::new(Check { image, arguments, process, place: options.place_words() }))
}

/// The progress bar of a check. It also stops the check after a signal.
pub(crate) struct Bar<'a>(pub(crate) &'a Tally);

impl Progress for Bar<'_> {
    fn advance(&self, done: u64, total: u64) {
        self.0.set(done, total);
    }

    fn is_stopped(&self) -> bool {
        interrupt::check().is_err()
    }
}

impl Run for Check {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { image, arguments, process, place } = *self;
        let examined = image.and_then(|image| image.examine(&arguments, console));
        let Examined { report, log, shown, not_repaired } = match examined {
            Ok(examined) => examined,
            Err(failure) => return Err(report_failure(failure, &arguments, console)?),
        };
        let exit = exit_of(&report);
        let shows_all = arguments.all;
        let process = Process { log, peak_bytes: process.and_then(peak_bytes) };
        if arguments.json.json {
            json::write_document(console.out(), document(&report, &process, shows_all))?;
        } else if arguments.ndjson {
            lines(&report, &process, shows_all, console)?;
        } else {
            let style = console.name_style(false);
            let place = &place;
            let text = Text { report: &report, shows_all, style, not_repaired, place };
            text.print(&shown, console)?;
        }
        match exit {
            Exit::Fine => Ok(()),
            exit => Err(Failure::silent(exit)),
        }
    }
}

/// If the output is JSON, prints a document that says that nothing was checked. Returns the failure
/// with its exit code. Damage that prevents the whole check is not a finding, so the code is not
/// that of findings.
fn report_failure(
    failure: Failure,
    arguments: &CheckArguments,
    console: &mut Console,
) -> Result<Failure, Failure> {
    let failure = match failure.exit() {
        Exit::Corrupt => failure.with_exit(Exit::Failed),
        _ => failure,
    };
    let is_interrupted = failure.is_silent();
    if is_interrupted || !(arguments.json.json || arguments.ndjson) {
        return Ok(failure);
    }
    let mut object = Object::new();
    let mut insert = |key: &str, value: Value| object.insert(key.to_owned(), value);
    insert("schema", SCHEMA.into());
    insert("clean", false.into());
    insert("complete", false.into());
    insert("error", failure.message().into());
    insert("unchecked", vec![Value::from("the volume")].into());
    for severity in Severity::ALL {
        insert(severity.name(), 0.into());
    }
    for key in ["consequences", "dropped", "groups", "inodes", "directories", "bytes", "seconds"] {
        insert(key, 0.into());
    }
    if arguments.json.json {
        insert("findings", Vec::<Value>::new().into());
        json::write_document(console.out(), object)?;
    } else {
        serde_json::to_writer(console.out().json(), &object).map_err(io::Error::from)?;
        console.out().write_all(b"\n")?;
    }
    Ok(failure)
}

/// The facts about a run that the totals contain in addition to the report.
struct Process {
    log: &'static str,
    /// The largest amount of memory that the process has used, in bytes. `None` if it is unknown.
    peak_bytes: Option<u64>,
}

/// Returns the largest amount of memory that the process has used, in bytes. `status` is the open
/// file `/proc/self/status`. Returns `None` if that file does not have the number.
fn peak_bytes(mut status: File) -> Option<u64> {
    let mut text = String::new();
    status.read_to_string(&mut text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

impl OpenImage {
    /// Opens the volume and checks it.
    fn examine(
        self,
        arguments: &CheckArguments,
        console: &mut Console,
    ) -> Result<Examined, Failure> {
        let notes = self.notes_of_log()?;
        self.image.note_torn_log(console);
        let opened = self.image.read_for_check()?;
        let has_replayed = notes.iter().any(|note| note.code == Code::LogReplayed);
        let log = match (opened.has_whole_log(), has_replayed) {
            (false, _) => "not_replayed",
            (true, true) => "replayed",
            (true, false) => "clean",
        };
        let tally = console.begin(Work::check());
        let options = CheckOptions::default().threads(arguments.threads);
        let options = self.damage.iter().cloned().fold(options, CheckOptions::earlier_finding);
        let checked = opened.volume().check(opened.options(options), &Bar(&tally));
        let mut report = checked.map_err(|error| match error {
            CheckError::Refused(error) => self.image.failure(Failure::from(error)),
            refused => self.image.failure(Failure::new(Exit::Refused, refused.to_string())),
        })?;
        console.end();
        interrupt::check()?;
        // A log that was not replayed has a finding of its own.
        let is_true = |note: &Finding| opened.has_whole_log() || note.code != Code::LogReplayed;
        report.findings.extend(notes.into_iter().filter(is_true));
        let shown = names::in_message(self.image.path().as_os_str().as_encoded_bytes());
        let not_repaired = not_repaired(opened.volume().superblock());
        Ok(Examined { report, log, shown: shown.into_owned(), not_repaired })
    }

    /// Returns the notes about the log: that it was dirty, and that it has whole records after its
    /// head.
    fn notes_of_log(&self) -> Result<Vec<Finding>, Failure> {
        let Some(Ok(state)) = self.image.describe()?.log else { return Ok(Vec::new()) };
        let mut notes = Vec::from_iter(self.cut_log(&state)?);
        if !state.clean {
            let found = "the log was dirty and has been replayed in memory";
            notes.push(Finding::new(Code::LogReplayed, Place::default(), found));
        }
        Ok(notes)
    }

    /// Returns the note about whole records after the head of the log, where the replay ends;
    /// `None` if there are none. Such records need not be damage: a power failure can leave them
    /// too.
    fn cut_log(&self, state: &LogState) -> Result<Option<Finding>, Failure> {
        let records = count_records_after_head(&self.image.log()?, state);
        let records = records.map_err(|error| self.image.failure(error))?;
        let verb = if records == 1 { "is" } else { "are" };
        let found = format!(
            "the log ends at block {}, and {} after it {verb} not replayed: records in flight at a \
             power failure, or changes that were synced before the log was damaged",
            state.head.block(),
            counted(records.into(), "whole record"),
        );
        Ok((records > 0).then(|| Finding::new(Code::LogCut, Place::default(), found)))
    }
}

/// Returns the property because of which `repair` refuses a volume; `None` if `repair` accepts it.
fn not_repaired(superblock: &Superblock) -> Option<&'static str> {
    if superblock.geometry.version == FormatVersion::V4 {
        Some(VERSION_4)
    } else if superblock.has_external_log() {
        Some("an external log")
    } else {
        None
    }
}

/// Returns the exit code of a check for this report. If fsck(8) has called the program, `main`
/// converts the code to one of fsck(8).
fn exit_of(report: &Report) -> Exit {
    match report.worst() {
        Some(worst) if worst.is_damage() => Exit::Corrupt,
        _ if !report.is_complete() => Exit::Failed,
        _ => Exit::Fine,
    }
}

/// Returns a finding as JSON; `id` is its number in the output.
fn describe(id: usize, finding: &Finding) -> Object {
    let mut place = Object::new();
    let mut at = |key: &str, value: Option<u64>| {
        if let Some(value) = value {
            place.insert(key.to_owned(), value.into());
        }
    };
    at("ag", finding.place.group.map(|group| group.0.into()));
    at("agbno", finding.place.block.map(|block| block.0.into()));
    at("daddr", finding.place.disk_addr.map(|at| at.0));
    at("byte", finding.place.byte_offset());
    at("rgno", finding.place.realtime_group.map(Into::into));
    at("rtblock", finding.place.realtime_block.map(|block| block.0));
    at("ino", finding.place.inode.map(|inode| inode.0));
    at("file_block", finding.place.file_block.map(|block| block.0));
    if finding.place.file_block.is_some() {
        let fork = if finding.place.is_attribute_fork { "attr" } else { "data" };
        place.insert("fork".to_owned(), fork.into());
    }
    if let Some(path) = &finding.path {
        json::insert_name(&mut place, "path", path);
    }
    let mut object = Object::new();
    let mut insert = |key: &str, value: Value| object.insert(key.to_owned(), value);
    insert("id", id.into());
    insert("code", finding.code.word().into());
    insert("severity", finding.severity().name().into());
    insert("meaning", finding.code.meaning().into());
    insert("place", place.into());
    insert("found", finding.found.as_str().into());
    if !finding.expected.is_empty() {
        insert("expected", finding.expected.as_str().into());
    }
    if !finding.evidence.is_empty() {
        let evidence = finding.evidence.iter().map(|witness| {
            let mut statement = Object::new();
            statement.insert("says".to_owned(), witness.says.as_str().into());
            statement.insert("by".to_owned(), witness.by.as_str().into());
            Value::from(statement)
        });
        insert("evidence", evidence.collect());
    }
    if let Some(cause) = finding.cause {
        insert("cause", cause.into());
    }
    if finding.consequences > 0 {
        insert("consequences", finding.consequences.into());
    }
    insert("consequence", finding.code.area().consequence().into());
    insert("repair", finding.code.repair().unwrap_or("none").into());
    object
}

/// Returns the totals as JSON.
fn totals(report: &Report, process: &Process) -> Object {
    let mut object = Object::new();
    let mut insert = |key: &str, value: Value| object.insert(key.to_owned(), value);
    insert("schema", SCHEMA.into());
    insert("clean", report.is_clean().into());
    insert("complete", report.is_complete().into());
    let unchecked = report.unchecked.iter().map(|part| Value::from(part.what.as_str()));
    insert("unchecked", unchecked.collect());
    let parts = report.unchecked.iter().map(|part| {
        let mut object = Object::new();
        object.insert("what".to_owned(), part.what.as_str().into());
        if let Some(cause) = part.cause {
            object.insert("cause".to_owned(), cause.into());
        }
        Value::from(object)
    });
    insert("unchecked_parts", parts.collect());
    insert("log", process.log.into());
    for severity in Severity::ALL {
        insert(severity.name(), report.count(severity).into());
    }
    let consequences = report.findings.iter().map(|finding| finding.consequences);
    insert("consequences", consequences.sum::<u64>().into());
    insert("dropped", report.dropped.into());
    insert("groups", report.coverage.groups.into());
    insert("inodes", report.coverage.inodes.into());
    insert("directories", report.coverage.directories.into());
    insert("bytes", report.coverage.bytes.into());
    insert("seconds", report.elapsed.as_secs_f64().into());
    if let Some(bytes) = process.peak_bytes {
        insert("peak_memory_bytes", bytes.into());
    }
    object
}

/// Returns the findings to list, each with its number. With `shows_all` (`--all`), the consequences
/// of these findings follow at the end.
fn listed(report: &Report, shows_all: bool) -> impl Iterator<Item = (usize, &Finding)> {
    let consequences = report.consequences.iter().filter(move |_| shows_all);
    report.findings.iter().chain(consequences).enumerate()
}

fn document(report: &Report, process: &Process, shows_all: bool) -> Object {
    let mut object = totals(report, process);
    let findings = listed(report, shows_all);
    let findings = findings.map(|(id, finding)| Value::from(describe(id, finding)));
    object.insert("findings".to_owned(), findings.collect());
    object
}

/// Writes one JSON line for each finding, and the totals as the last line.
fn lines(
    report: &Report,
    process: &Process,
    shows_all: bool,
    console: &mut Console,
) -> io::Result<()> {
    for (id, finding) in listed(report, shows_all) {
        let mut object = Object::new();
        object.insert("schema".to_owned(), SCHEMA.into());
        object.extend(describe(id, finding));
        serde_json::to_writer(console.out().json(), &object)?;
        console.out().write_all(b"\n")?;
    }
    serde_json::to_writer(console.out().json(), &totals(report, process))?;
    console.out().write_all(b"\n")
}

/// The report as text: each finding, and under it the findings that are only its consequences.
struct Text<'a> {
    report: &'a Report,
    shows_all: bool,
    style: NameStyle,
    /// The property of the volume for which `repair` refuses it.
    not_repaired: Option<&'static str>,
    /// The options that say where in the image the volume is.
    place: &'a str,
}

impl Text<'_> {
    fn print(&self, shown: &str, console: &mut Console) -> io::Result<()> {
        let report = self.report;
        let is_quiet = console.is_quiet();
        let out = console.out();
        let mut first = 0;
        for findings in report.findings.chunk_by(|a, b| a.code == b.code) {
            self.code(out, findings, first)?;
            first += findings.len();
        }
        for part in &report.unchecked {
            write!(out, "not checked: {}", part.what)?;
            let cause = part.cause.and_then(|cause| report.findings.get(cause));
            let because = cause.map(|cause| format!(", because of {}", cause.code));
            writeln!(out, "{}", because.unwrap_or_default())?;
        }
        if is_quiet && report.is_clean() {
            return Ok(());
        }
        let coverage = report.coverage;
        let verdict = match (report.is_clean(), report.is_complete()) {
            (true, _) => "clean",
            (false, true) => "damaged",
            (false, false) => "damaged or unread",
        };
        writeln!(
            out,
            "{shown}: {verdict}: {}, {}, {}, {:.2} s",
            counted(coverage.groups.into(), "group"),
            counted(coverage.inodes, "inode"),
            counted(coverage.directories, "directory"),
            report.elapsed.as_secs_f64()
        )?;
        match is_quiet || !report.findings.iter().any(|finding| finding.severity().is_damage()) {
            true => Ok(()),
            false => self.advice(shown, out),
        }
    }

    /// Prints which command a user with a damaged volume should run next: `repair --plan`,
    /// `salvage` or `cp`. If parts of the volume were not checked, the repair may need rules that
    /// lose something, so the text says to run `salvage` first.
    fn advice(&self, shown: &str, out: &mut dyn Write) -> io::Result<()> {
        let Self { report, place, .. } = self;
        let salvage = format!("'ferroxfs salvage{place} {shown} DIR'");
        match self.not_repaired {
            Some(VERSION_4) => {
                return writeln!(
                    out,
                    "volumes of {VERSION_4} are not repaired: 'ferroxfs cp -a{place} {shown}:/ DIR' \
                     copies what can be read"
                );
            }
            Some(property) => {
                return writeln!(
                    out,
                    "volumes with {property} are not repaired yet: {salvage} copies what can be read"
                );
            }
            None => {}
        }
        let mut damage = report.findings.iter().filter(|finding| finding.severity().is_damage());
        if damage.any(|finding| finding.code.repair().is_none()) {
            return writeln!(
                out,
                "no repair brings everything back: {salvage} copies what can be read"
            );
        }
        let plan = format!("'ferroxfs repair --plan{place} {shown}'");
        match report.is_complete() {
            true => writeln!(out, "{plan} shows the repair"),
            false => writeln!(
                out,
                "{plan} shows the repair; parts were not checked, so it may need --allow-loss: run \
                 {salvage} first"
            ),
        }
    }

    /// Prints a group of findings that all have the same code. `first` is the number of the first
    /// of these findings.
    fn code(&self, out: &mut dyn Write, findings: &[Finding], first: usize) -> io::Result<()> {
        let Some(one) = findings.first() else { return Ok(()) };
        let (severity, code, count) = (one.severity(), one.code, findings.len());
        writeln!(out, "{severity}: {code}: {} ({count})", code.meaning())?;
        let most = if self.shows_all { count } else { MOST_SHOWN };
        for (id, finding) in (first..).zip(findings).take(most) {
            write!(out, "  ")?;
            self.finding(out, finding)?;
            self.consequences(out, finding, id)?;
        }
        if count > most {
            writeln!(out, "  and {} more: --all shows them", count - most)?;
        }
        if severity.is_damage() {
            writeln!(out, "  it means: {}", code.area().consequence())?;
            match code.repair().filter(|_| self.not_repaired.is_none()) {
                Some(repair) => writeln!(out, "  a repair would {repair}")?,
                None => writeln!(out, "  there is no repair for it")?,
            }
        }
        Ok(())
    }

    fn finding(&self, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
        // A finding about the whole volume has no place.
        let place = finding.place.to_string();
        let path = finding.path.as_ref().map(|path| self.style.show(path).into_owned());
        let parts = [Some(place.into_bytes()), path];
        let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        if !parts.is_empty() {
            out.write_all(&parts.join(&b", "[..]))?;
            out.write_all(b": ")?;
        }
        write!(out, "{}", finding.found)?;
        if !finding.expected.is_empty() {
            write!(out, ", expected {}", finding.expected)?;
        }
        writeln!(out)
    }

    /// Prints, for each code, how many findings with this code are consequences of the finding
    /// `id`. With `--all`, also prints each consequence.
    fn consequences(&self, out: &mut dyn Write, cause: &Finding, id: usize) -> io::Result<()> {
        if cause.consequences == 0 {
            return Ok(());
        }
        // The consequences are in the order of their causes; those without one are last.
        let key = |finding: &Finding| finding.cause.unwrap_or(usize::MAX);
        let all = &self.report.consequences;
        let start = all.partition_point(|finding| key(finding) < id);
        let from_start = all.get(start..).unwrap_or_default();
        let count = from_start.partition_point(|finding| key(finding) == id);
        let own = from_start.get(..count).unwrap_or_default();
        let codes = own.chunk_by(|a, b| a.code == b.code).filter_map(|same| {
            let first = same.first()?;
            Some(format!("{} {}", same.len(), first.code))
        });
        let codes: Vec<String> = codes.collect();
        let consequences = counted(cause.consequences, "consequence");
        writeln!(out, "    and {consequences}: {}", codes.join(", "))?;
        for finding in own.iter().filter(|_| self.shows_all) {
            write!(out, "    {}: ", finding.code)?;
            self.finding(out, finding)?;
        }
        Ok(())
    }
}
