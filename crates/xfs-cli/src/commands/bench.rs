//! `bench`: how fast volumes are on this machine.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use xfs_scan::OutputFile;
use xfs_workload::{Machine, Plan, Report, Watcher, WorkloadError};

use super::Run;
use crate::cli::BenchArguments;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt::{Cancel, interrupt};
use crate::sandbox::Reach;

const TICK: Duration = Duration::from_millis(100);

struct Bench {
    plan: Plan,
    details: bool,
    json: Option<(PathBuf, OutputFile)>,
    html: Option<(PathBuf, OutputFile)>,
    cancel: Cancel,
}

/// A process that a run has started.
struct Worker;

/// Opens the outputs, and asks to be told of interrupts.
pub(super) fn open(arguments: BenchArguments) -> Result<Box<dyn Run>, Failure> {
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
    let json = arguments.json.map(output).transpose()?;
    let html = arguments.html.map(output).transpose()?;
    Ok(Box::new(Bench { plan, details: arguments.details, json, html, cancel: interrupt()? }))
}

/// What was given, or else what is usual.
fn if_any<T>(given: Vec<T>, usual: Vec<T>) -> Vec<T> {
    if given.is_empty() { usual } else { given }
}

fn output(path: PathBuf) -> Result<(PathBuf, OutputFile), Failure> {
    match OutputFile::create(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(Failure::host(path.as_os_str(), &error)),
    }
}

impl Run for Bench {
    /// It reads no image but those that it makes, and works in directories of the host.
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut shown = Shown { bar: progress_bar(console.is_quiet()), cancel: self.cancel };
        let report = xfs_workload::run(&self.plan, &mut shown);
        shown.bar.finish_and_clear();
        let report = report.map_err(|error| failure(&error))?;
        write!(console.out(), "{}", xfs_workload::text(&report, self.details))?;
        if let Some(output) = self.json {
            write_file(output, &json(&report)?)?;
        }
        if let Some(output) = self.html {
            write_file(output, xfs_workload::html(&report).as_bytes())?;
        }
        Ok(())
    }
}

impl Run for Worker {
    /// It looks at no image.
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

fn write_file((path, file): (PathBuf, OutputFile), bytes: &[u8]) -> Result<(), Failure> {
    let written = file.writer().and_then(|mut writer| {
        writer.write_all(bytes)?;
        writer.flush()
    });
    written.and_then(|()| file.commit()).map_err(|error| Failure::host(path.as_os_str(), &error))
}

/// What goes on, on a terminal.
struct Shown {
    bar: ProgressBar,
    cancel: Cancel,
}

impl Watcher for Shown {
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
    // The template is a constant; without it the bar has indicatif's own form.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    bar
}

fn failure(error: &WorkloadError) -> Failure {
    Failure::new(Exit::Failed, format!("bench: {error}"))
}
