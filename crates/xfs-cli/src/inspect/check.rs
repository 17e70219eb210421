//! `check`: reports what is wrong with a volume, without changing it.
//!
//! Owns: how findings are printed, and the exit code. Does **not** own: the checks
//! ([`ferroxfs::check`]). A dirty log is replayed in memory, and the result is checked.

use std::io::{self, Write};

use ferroxfs::check::{CheckError, CheckOptions, Code, Finding, Place, Progress, Report, Severity};
use serde_json::Value;

use crate::cli::{CheckArguments, GlobalOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Image, ImageVolume};
use crate::interrupt;
use crate::json::{self, Object};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::tally::{Tally, Work};

/// The name and version of the JSON output, printed under the key `schema`.
const SCHEMA: &str = "ferroxfs.check/1";
/// The largest number of findings with the same code that the text shows without `--all`.
const MOST_SHOWN: usize = 5;

struct Check {
    image: Image,
    arguments: CheckArguments,
}

/// Opens the image.
pub(crate) fn open(
    arguments: CheckArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if options.live || options.no_recovery {
        return Err(Failure::usage(
            "check: --live and --no-recovery would show damage that is none",
        ));
    }
    let image = Image::open(&arguments.image, options)?;
    interrupt::arm()?;
    Ok(Box::new(Check { image, arguments }))
}

/// The progress bar of a check. It also tells the check to stop after a signal.
struct Bar<'a>(&'a Tally);

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
        let was_dirty = matches!(self.image.describe()?.log, Some(Ok(state)) if !state.clean);
        let volume = self.image.read()?;
        let tally = console.begin(Work::check());
        let mut report = self.check(&volume, &tally)?;
        console.end();
        interrupt::check()?;
        if was_dirty {
            let place = Place::default();
            let found = "the log was dirty and has been replayed in memory";
            report.findings.push(Finding::new(Code::LogReplayed, place, found));
        }
        let exit = exit_of(&report);
        if self.arguments.json.json {
            json::write_document(console.out(), document(&report))?;
        } else if self.arguments.ndjson {
            lines(&report, console)?;
        } else {
            let shown =
                names::in_message(volume.path().as_os_str().as_encoded_bytes()).into_owned();
            Text { shown, shows_all: self.arguments.all }.print(&report, console)?;
        }
        match exit {
            Exit::Fine => Ok(()),
            exit => Err(Failure::silent(exit)),
        }
    }
}

impl Check {
    fn check(&self, volume: &ImageVolume, tally: &Tally) -> Result<Report, Failure> {
        let options = CheckOptions::default().threads(self.arguments.threads);
        volume.inner().check(options, &Bar(tally)).map_err(|error| match error {
            CheckError::Refused(error) => volume.whole_failure(Failure::from(error)),
            refused => volume.whole_failure(Failure::new(Exit::Refused, refused.to_string())),
        })
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

/// Returns a finding as JSON.
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
    insert("consequence", finding.code.area().consequence().into());
    insert("repair", finding.code.area().repair().into());
    object
}

/// Returns the totals as JSON.
fn totals(report: &Report) -> Object {
    let mut object = Object::new();
    let mut insert = |key: &str, value: Value| object.insert(key.to_owned(), value);
    insert("schema", SCHEMA.into());
    insert("clean", report.is_clean().into());
    insert("complete", report.is_complete().into());
    let unchecked = report.unchecked.iter().map(|part| Value::from(part.what.as_str()));
    insert("unchecked", unchecked.collect());
    for severity in Severity::ALL {
        insert(severity.name(), report.count(severity).into());
    }
    insert("dropped", report.dropped.into());
    insert("groups", report.coverage.groups.into());
    insert("inodes", report.coverage.inodes.into());
    insert("directories", report.coverage.directories.into());
    insert("bytes", report.coverage.bytes.into());
    insert("seconds", report.elapsed.as_secs_f64().into());
    object
}

fn document(report: &Report) -> Object {
    let mut object = totals(report);
    let findings = report.findings.iter().enumerate();
    let findings = findings.map(|(id, finding)| Value::from(describe(id, finding)));
    object.insert("findings".to_owned(), findings.collect());
    object
}

/// Writes each finding as a line, and the totals as the last one.
fn lines(report: &Report, console: &mut Console) -> io::Result<()> {
    for (id, finding) in report.findings.iter().enumerate() {
        let mut object = Object::new();
        object.insert("schema".to_owned(), SCHEMA.into());
        object.extend(describe(id, finding));
        serde_json::to_writer(console.out().json(), &object)?;
        console.out().write_all(b"\n")?;
    }
    serde_json::to_writer(console.out().json(), &totals(report))?;
    console.out().write_all(b"\n")
}

/// The report as text.
struct Text {
    shown: String,
    shows_all: bool,
}

impl Text {
    fn print(&self, report: &Report, console: &mut Console) -> io::Result<()> {
        let is_quiet = console.is_quiet();
        let style = console.name_style(false);
        let out = console.out();
        for findings in report.findings.chunk_by(|a, b| a.code == b.code) {
            let Some(first) = findings.first() else { continue };
            let (severity, code, count) = (first.severity(), first.code, findings.len());
            writeln!(out, "{severity}: {code}: {} ({count})", code.meaning())?;
            let most = if self.shows_all { count } else { MOST_SHOWN };
            for finding in findings.iter().take(most) {
                write!(out, "  {}", finding.place)?;
                if let Some(path) = &finding.path {
                    out.write_all(b", ")?;
                    out.write_all(&style.show(path))?;
                }
                write!(out, ": {}", finding.found)?;
                if !finding.expected.is_empty() {
                    write!(out, ", expected {}", finding.expected)?;
                }
                writeln!(out)?;
            }
            if count > most {
                writeln!(out, "  and {} more: --all shows them", count - most)?;
            }
            if severity.is_damage() {
                writeln!(out, "  it means: {}", code.area().consequence())?;
                writeln!(out, "  a repair would {}", code.area().repair())?;
            }
        }
        for part in &report.unchecked {
            writeln!(out, "not checked: {}", part.what)?;
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
            "{}: {verdict}: {} groups, {} inodes, {} directories, {:.2} s",
            self.shown,
            coverage.groups,
            coverage.inodes,
            coverage.directories,
            report.elapsed.as_secs_f64()
        )
    }
}
