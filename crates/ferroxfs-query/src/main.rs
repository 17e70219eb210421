//! `ferroxfs-query`: queries and reports on the datasets of `ferroxfs scan --dataset`.
//!
//! Owns: the order of a run, and what a signal does to it. [`engine`] runs SQL, [`report`] has the
//! named reports, [`format`] and [`html`] write answers, and [`setup`] serves other engines.

mod cli;
mod dataset;
mod engine;
mod failure;
mod format;
mod html;
mod output;
mod report;
mod rows;
mod setup;
mod size;
mod tables;

use std::fs;
use std::io::{IsTerminal, stdout};
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{Arguments, Format, LimitArguments};
use crate::dataset::Dataset;
use crate::engine::{Limits, Session};
use crate::failure::{Exit, Failure};
use crate::html::overview;
use crate::output::Output;
use crate::report::{Literals, OVERVIEW, REPORTS, Report};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The memory of the engine where that of the machine is unknown.
const MEMORY_BYTES: u64 = 4 << 30;

/// The end of a run that did not fail.
enum End {
    Complete,
    /// A signal has stopped the run.
    Signal(i32),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = runtime(&arguments.limits).and_then(|runtime| {
        let outcome = runtime.block_on(async {
            tokio::select! {
                biased;
                number = stopped() => number.map(End::Signal),
                result = run(&arguments) => result.map(|()| End::Complete),
            }
        });
        // The engine may be in the middle of a batch. Its results go nowhere.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(End::Complete) => ExitCode::SUCCESS,
        Ok(End::Signal(number)) => {
            // The program ends by the same signal. This returns only if that failed.
            _ = signal_hook::low_level::emulate_default_handler(number);
            ExitCode::FAILURE
        }
        Err(failure) => {
            failure.report();
            failure.exit.into()
        }
    }
}

fn runtime(limits: &LimitArguments) -> Result<Runtime, Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(threads(limits)).enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Failed, format!("threads: {error}")))
}

/// Waits for a signal that stops the run. Returns its number.
async fn stopped() -> Result<i32, Failure> {
    let open = |kind: SignalKind| {
        signal(kind).map_err(|error| Failure::new(Exit::Failed, format!("signals: {error}")))
    };
    let kinds = (SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup());
    let (mut first, mut second, mut third) = (open(kinds.0)?, open(kinds.1)?, open(kinds.2)?);
    let kind = tokio::select! {
        _ = first.recv() => kinds.0,
        _ = second.recv() => kinds.1,
        _ = third.recv() => kinds.2,
    };
    Ok(kind.as_raw_value())
}

async fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(directory) = &arguments.dataset else { return list() };
    let set = Dataset::open(directory)?;
    if let Some(engine) = arguments.setup {
        return print(&engine.statements(&set), arguments, &set);
    }
    let task = Task::new(arguments, &set)?;
    if arguments.print_sql {
        return match task {
            Task::Report(report, literals) => {
                print(&(report.sql(&literals) + "\n"), arguments, &set)
            }
            _ => Err(Failure::usage(format!("{OVERVIEW}: has no SQL of its own"))
                .hint("it runs the reports that `ferroxfs-query --list` names")),
        };
    }
    let format = format(arguments, &task)?;
    let mut output = Output::open(arguments.output.as_deref(), set.directory())?;
    let limits = Limits {
        memory_bytes: arguments.limits.memory.unwrap_or_else(memory_bytes),
        threads: threads(&arguments.limits),
        scratch: arguments.limits.scratch.as_deref(),
    };
    let session = Session::open(&set, limits).await?;
    session.check_version().await?;
    match task {
        Task::Sql(sql) => {
            let answer = session.query(sql).await?;
            format::write(answer, format, "Answer", &mut output).await?;
        }
        Task::Report(report, literals) => {
            warn(&set, &literals);
            let answer = session.query(&report.sql(&literals)).await?;
            format::write(answer, format, report.title(), &mut output).await?;
        }
        Task::Overview(literals) => {
            warn(&set, &literals);
            let page = overview::page(&session, &set, &literals).await?;
            output.write(page.as_bytes())?;
        }
    }
    output.finish()
}

/// The work of a run.
enum Task<'a> {
    Sql(&'a str),
    Report(Report, Literals),
    Overview(Literals),
}

impl<'a> Task<'a> {
    fn new(arguments: &'a Arguments, set: &Dataset) -> Result<Self, Failure> {
        if let Some(sql) = &arguments.sql {
            return match arguments.choices.is_empty() {
                true => Ok(Self::Sql(sql)),
                false => Err(Failure::usage("parameters are for reports, not for SQL")),
            };
        }
        let name = arguments.report.as_deref().unwrap_or("volumes");
        if name == OVERVIEW {
            return Literals::new(&arguments.choices, set, false).map(Self::Overview);
        }
        let report = Report::find(name)?;
        Ok(Self::Report(report, report.literals(&arguments.choices, set)?))
    }
}

/// Reports scans that a reader of the report would miss.
fn warn(set: &Dataset, literals: &Literals) {
    for gap in set.gaps(literals.date) {
        eprintln!("ferroxfs-query: {gap}");
    }
}

fn list() -> Result<(), Failure> {
    let width = REPORTS.iter().map(|report| report.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for report in REPORTS {
        let names: Vec<String> = report.parameters().map(|name| format!("--{name}")).collect();
        text += &format!("{:<width$}  {}\n", report.name, report.title());
        text += &format!("{:<width$}  {}\n", "", names.join(" "));
    }
    text += &format!("{OVERVIEW:<width$}  A page with charts, from the reports above\n");
    let mut output = Output::open(None, Path::new(""))?;
    output.write(text.as_bytes())?;
    output.finish()
}

/// Prints text to the output that the user chose.
fn print(text: &str, arguments: &Arguments, set: &Dataset) -> Result<(), Failure> {
    let mut output = Output::open(arguments.output.as_deref(), set.directory())?;
    output.write(text.as_bytes())?;
    output.finish()
}

/// Returns the format of the answer.
fn format(arguments: &Arguments, task: &Task<'_>) -> Result<Format, Failure> {
    let file = arguments.output.as_deref().filter(|path| *path != Path::new("-"));
    let ending = file.and_then(Path::extension).and_then(|it| it.to_str());
    let format = match (arguments.format, ending) {
        (Some(format), _) => format,
        (None, Some("html")) => Format::Html,
        (None, Some("json")) => Format::Json,
        (None, Some("ndjson" | "jsonl")) => Format::Ndjson,
        (None, Some("csv")) => Format::Csv,
        (None, Some("parquet")) => Format::Parquet,
        (None, _) if file.is_some() => {
            return Err(Failure::usage("--output: the ending of the file names no format")
                .hint("add --format"));
        }
        (None, _) if matches!(task, Task::Overview(_)) => Format::Html,
        (None, _) if stdout().is_terminal() => Format::Table,
        (None, _) => Format::Ndjson,
    };
    match (task, format) {
        (Task::Overview(_), Format::Html) => Ok(format),
        (Task::Overview(_), _) => {
            Err(Failure::usage(format!("{OVERVIEW}: is a page, with --format html only")))
        }
        _ if format == Format::Parquet && file.is_none() && stdout().is_terminal() => {
            Err(Failure::usage("parquet: not to a terminal").hint("name a file with -o"))
        }
        _ => Ok(format),
    }
}

fn threads(limits: &LimitArguments) -> usize {
    let present = || thread::available_parallelism().map_or(1, NonZero::get);
    limits.threads.map_or_else(present, usize::from)
}

/// Returns half of the memory of the machine.
fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(MEMORY_BYTES, |kib| kib.saturating_mul(512))
}
