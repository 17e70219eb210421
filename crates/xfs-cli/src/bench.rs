//! `bench`: measures the speed of volumes on this machine.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use xfs_workload::{Machine, Plan, Report, Watcher, WorkloadError};

use crate::cli::BenchArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::{self, Cancel};
use crate::output::{Output, is_same_file};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;

const TICK: Duration = Duration::from_millis(100);

struct Bench {
    plan: Plan,
    details: bool,
    json: Option<Document>,
    html: Option<Document>,
}

/// The destination of a JSON or HTML report.
enum Document {
    /// Standard output. The report as text is then not printed.
    Stdout,
    File(Box<Output>),
}

/// The command `bench --worker`, in a child process that a run of `bench` has started.
struct Worker;

/// Opens the outputs and catches signals. Returns the command, ready to run.
pub(crate) fn open(arguments: BenchArguments) -> Result<Box<dyn Run>, Failure> {
    if arguments.worker {
        return Ok(Box::new(Worker));
    }
    let machine = Machine::this().map_err(|error| failure(&error))?;
    let usual = Plan::usual(machine.processors);
    let BenchArguments { files, directories, runs, kernel, folder, .. } = arguments;
    let plan = Plan {
        workloads: if_any(arguments.workloads, usual.workloads),
        threads: if_any(arguments.threads.into_iter().map(usize::from).collect(), usual.threads),
        files,
        runs,
        before: !arguments.no_before,
        directories,
        inodes: arguments.inodes,
        groups: arguments.groups.unwrap_or(usual.groups),
        log_bytes: arguments.log_size,
        folder,
        kernel,
    };
    let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    if is_stdout(&arguments.json) && is_stdout(&arguments.html) {
        return Err(Failure::usage("bench: --json and --html cannot both be standard output"));
    }
    if let (Some(json), Some(html)) = (&arguments.json, &arguments.html)
        && is_same_file(json, html)
    {
        return Err(Failure::usage("bench: --json and --html name one file"));
    }
    // A run makes volumes and memory cgroups, which it has to remove.
    interrupt::arm()?;
    let json = arguments.json.map(Document::open).transpose()?;
    let html = arguments.html.map(Document::open).transpose()?;
    Ok(Box::new(Bench { plan, details: arguments.details, json, html }))
}

/// Returns the values that the user gave. If the user gave none, returns the defaults `usual`.
fn if_any<T>(given: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given }
}

impl Document {
    fn open(path: PathBuf) -> Result<Self, Failure> {
        match path == Path::new("-") {
            true => Ok(Self::Stdout),
            false => Ok(Self::File(Box::new(Output::open(&path, [])?))),
        }
    }

    fn write(self, bytes: &[u8], console: &mut Console) -> Result<(), Failure> {
        match self {
            Self::Stdout => Ok(console.out().write_all(bytes)?),
            Self::File(output) => {
                output.writer()?.write_all(bytes).map_err(|error| output.failure(&error))?;
                output.commit()
            }
        }
    }
}

impl Run for Bench {
    /// Returns the rights that a run keeps: all of them. A run works in directories of the host,
    /// and reads only images that it has made.
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let bar = progress_bar(console.is_quiet());
        let mut shown = StepDisplay { bar, cancel: interrupt::cancel() };
        let report = xfs_workload::run(&self.plan, &mut shown);
        shown.bar.finish_and_clear();
        let report = report.map_err(|error| failure(&error))?;
        let documents = [&self.json, &self.html];
        if !documents.iter().any(|document| matches!(document, Some(Document::Stdout))) {
            write!(console.out(), "{}", xfs_workload::text(&report, self.details))?;
        }
        if let Some(document) = self.json {
            document.write(&json(&report)?, console)?;
        }
        if let Some(document) = self.html {
            document.write(xfs_workload::html(&report).as_bytes(), console)?;
        }
        Ok(())
    }
}

impl Run for Worker {
    /// Returns the rights that a worker keeps: all of them, because it reads no image.
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        Ok(xfs_workload::serve(io::stdin().lock(), console.out())?)
    }
}

fn json(report: &Report) -> Result<Vec<u8>, Failure> {
    let mut text = serde_json::to_vec_pretty(report).map_err(io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}

/// Shows the current step of a run on a terminal.
struct StepDisplay {
    bar: ProgressBar,
    cancel: Cancel,
}

impl Watcher for StepDisplay {
    fn begin(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    fn is_over(&self) -> bool {
        (self.cancel)()
    }

    fn worker(&self) -> Option<Command> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.args(["bench", "--worker"]);
        Some(command)
    }
}

fn progress_bar(is_quiet: bool) -> ProgressBar {
    if is_quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    // The template is a constant. If it were invalid, the bar would have indicatif's default form.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}

fn failure(error: &WorkloadError) -> Failure {
    let failed = || Failure::new(Exit::Failed, format!("bench: {error}"));
    interrupt::stopped("bench").unwrap_or_else(failed)
}
