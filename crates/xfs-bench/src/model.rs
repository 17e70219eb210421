//! Predicts the rates of operations on more processors than this machine has, from reports of
//! `ferroxfs bench` and from counts.
//!
//! Owns: which figure of a report is which part of an operation, and the tables. Does **not** own:
//! the equations (`xfs_workload::predict`), and the measurements.
//!
//! | figure | from |
//! |---|---|
//! | processor time | the rate with one thread |
//! | time with the headers of a group | several threads in a volume with one group |
//! | time that commits take one after the other | several threads that commit to a log alone |
//! | writes to a shared cache line | a report of a build that counts, with its busiest place |
//! | bytes of the log | the counters of the volume |
//! | bytes from memory | callgrind's simulation of the caches of this machine |
//! | time in which a line goes to another processor | two threads that write one line |
//! | loss that is the machine's | threads with a volume each |

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfs_workload::{
    Caches, Demand, Measurement, Processors, Report, Scale, Variant, account, line_transfer_ns,
    predict, served_ns,
};

use crate::error::BenchError;

/// Arguments of the model.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Report of `ferroxfs bench create,walk,chmod,bulkstat,unlink,commit --json`, with one thread
    /// and with more
    report: PathBuf,
    /// A report of the same with `--groups 1`
    #[arg(long, value_name = "REPORT")]
    one_group: PathBuf,
    /// A report of the same from a build with the feature `count`
    #[arg(long, value_name = "REPORT")]
    counted: PathBuf,
    /// Count the bytes that come from memory, with this many files; without it, memory is no limit
    #[arg(long, value_name = "FILES")]
    memory: Option<u64>,
    /// Numbers of processors to predict
    #[arg(long, value_delimiter = ',', default_value = "4,16,64,256")]
    processors: Vec<usize>,
    /// Allocation groups of the predicted volume; by default one for each processor
    #[arg(long)]
    groups: Option<usize>,
    /// Time in which a cache line goes to another processor, in ns; by default as on this machine
    #[arg(long)]
    transfer_ns: Option<f64>,
    /// Bandwidth of the log's device, in GB/s
    #[arg(long, default_value_t = 6.0)]
    log_bandwidth: f64,
    /// Bandwidth of the memory for each processor, in GB/s
    #[arg(long, default_value_t = 3.2)]
    memory_bandwidth: f64,
}

const FILES: &str = "files";
const COMMIT: StepName<'_> = StepName { section: "commit", step: "private objects" };
const GB: f64 = 1e9;
const NS_PER_SECOND: f64 = 1e9;

/// The name of a step in a report.
#[derive(Clone, Copy)]
struct StepName<'a> {
    section: &'a str,
    step: &'a str,
}

impl<'a> StepName<'a> {
    /// Returns the name of a step over files.
    const fn of_files(step: &'a str) -> Self {
        Self { section: FILES, step }
    }
}

/// The reports, and what was measured beside them.
struct Calibration {
    report: Report,
    one_group: Report,
    counted: Report,
    /// The largest number of threads of the report.
    threads: usize,
    /// Bytes of an operation that come from memory, by the name of the operation.
    memory: BTreeMap<String, f64>,
    transfer_ns: f64,
}

/// The calibrated demand of one step.
struct Step {
    name: String,
    demand: Demand,
    /// The part of the rate that the machine gives to threads that share nothing.
    machine: f64,
    /// The measured rate with the most threads.
    measured: f64,
}

/// Prints what the model knows, how well it predicts this machine, and what it predicts for others.
pub(crate) fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let known = Calibration::read(arguments)?;
    let names = known.report.steps(FILES);
    let steps: Vec<_> = names.into_iter().map(|name| known.step(name)).collect::<Result<_, _>>()?;
    print!("{}", demands(&steps));
    print!("{}", check(&steps, &known, arguments));
    print!("{}", predictions(&steps, &known, arguments));
    Ok(())
}

impl Calibration {
    fn read(arguments: &Arguments) -> Result<Self, BenchError> {
        let report = read(&arguments.report)?;
        let threads = report.threads(FILES).into_iter().max().unwrap_or_default();
        if threads < 2 {
            let why = "the report has no steps with two threads or more".to_owned();
            return Err(BenchError::Unsuitable { path: arguments.report.clone(), why });
        }
        let transfer_ns = match arguments.transfer_ns {
            Some(given) => given,
            None => line_transfer_ns(&Processors::available()?)?,
        };
        Ok(Self {
            report,
            one_group: read(&arguments.one_group)?,
            counted: read(&arguments.counted)?,
            threads,
            memory: arguments.memory.map(memory_bytes).transpose()?.unwrap_or_default(),
            transfer_ns,
        })
    }

    fn step(&self, name: &str) -> Result<Step, BenchError> {
        let one = find(&self.report, StepName::of_files(name), Variant::Ours, 1)?;
        let all = find(&self.report, StepName::of_files(name), Variant::Ours, self.threads)?;
        let apart = find(&self.report, StepName::of_files(name), Variant::Apart, self.threads)?;
        let in_one_group =
            find(&self.one_group, StepName::of_files(name), Variant::Ours, self.threads)?;
        let alone_ns = NS_PER_SECOND / one.rate();
        let machine = (apart.rate() / one.rate() / self.threads as f64).min(1.0);
        let each = |bytes: Option<u64>| bytes.unwrap_or(0) as f64 / one.operations.max(1) as f64;
        let commit_ns = self.commit_ns()?;
        let demand = Demand {
            processor_ns: alone_ns,
            group_ns: served_ns(alone_ns, self.threads, in_one_group.rate(), machine),
            log_ns: (each(one.counted.transactions) * commit_ns).min(alone_ns / 2.0),
            volume_writes: self.volume_writes(name)?,
            log_bytes: each(one.counted.log_bytes),
            memory_bytes: self.memory.get(name).copied().unwrap_or(0.0),
        };
        Ok(Step { name: name.to_owned(), demand, machine, measured: all.rate() })
    }

    /// Returns the time of a commit that no other commit shares.
    fn commit_ns(&self) -> Result<f64, BenchError> {
        let one = find(&self.report, COMMIT, Variant::Ours, 1)?;
        let all = find(&self.report, COMMIT, Variant::Ours, self.threads)?;
        Ok(served_ns(NS_PER_SECOND / one.rate(), self.threads, all.rate(), 1.0))
    }

    /// Returns how often an operation writes the volume-wide place that it writes most.
    fn volume_writes(&self, step: &str) -> Result<f64, BenchError> {
        let counted = find(&self.counted, StepName::of_files(step), Variant::Ours, self.threads)?;
        let shared = counted.counted.shared.as_ref();
        let busiest = shared.and_then(|shared| shared.volume_places.values().max());
        Ok(busiest.copied().unwrap_or(0) as f64 / counted.operations.max(1) as f64)
    }

    fn scale(&self, arguments: &Arguments, processors: usize, groups: usize) -> Scale {
        Scale {
            processors,
            groups,
            transfer_ns: self.transfer_ns,
            log_bandwidth: arguments.log_bandwidth * GB,
            memory_bandwidth: arguments.memory_bandwidth * GB * processors as f64,
        }
    }
}

/// Returns the table of what each step demands.
fn demands(steps: &[Step]) -> String {
    let mut out = String::from(
        "| step | processor, ns | group, ns | commits, ns | shared line, writes | log, bytes | \
         memory, bytes |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for Step { name, demand, .. } in steps {
        // Writing to a string does not fail.
        _ = writeln!(
            out,
            "| {name} | {:.0} | {:.0} | {:.0} | {:.4} | {:.0} | {:.0} |",
            demand.processor_ns,
            demand.group_ns,
            demand.log_ns,
            demand.volume_writes,
            demand.log_bytes,
            demand.memory_bytes,
        );
    }
    out
}

/// Returns the table that compares the model with the most threads of the report.
fn check(steps: &[Step], known: &Calibration, arguments: &Arguments) -> String {
    let threads = known.threads;
    let mut out = format!(
        "\n| step | measured with {threads} threads, k/s | predicted, k/s | of it | the machine \
         gives |\n|---|---:|---:|---:|---:|\n"
    );
    for Step { name, demand, machine, measured } in steps {
        let groups = known.report.plan.groups as usize;
        let predicted = predict(demand, &known.scale(arguments, threads, groups)).rate * machine;
        _ = writeln!(
            out,
            "| {name} | {:.0} | {:.0} | {:.2} | {machine:.2} |",
            measured / 1e3,
            predicted / 1e3,
            predicted / measured,
        );
    }
    out
}

/// Returns the table of predictions.
fn predictions(steps: &[Step], known: &Calibration, arguments: &Arguments) -> String {
    let mut out =
        "\n| step | processors | groups | k/s | of perfect | first limit | removed by |\n\
                   |---|---:|---:|---:|---:|---|---|\n"
            .to_owned();
    for Step { name, demand, .. } in steps {
        for processors in &arguments.processors {
            let groups = arguments.groups.unwrap_or(*processors);
            let predicted = predict(demand, &known.scale(arguments, *processors, groups));
            _ = writeln!(
                out,
                "| {name} | {processors} | {groups} | {:.0} | {:.2} | {} | {} |",
                predicted.rate / 1e3,
                predicted.efficiency,
                predicted.limit.name(),
                predicted.limit.remedy(),
            );
        }
    }
    out
}

fn find<'a>(
    report: &'a Report,
    StepName { section, step }: StepName<'_>,
    variant: Variant,
    threads: usize,
) -> Result<&'a Measurement, BenchError> {
    report.find(section, step, variant, threads).ok_or_else(|| {
        BenchError::NotInReport(format!("{section}: {step}, {threads} threads, {}", variant.name()))
    })
}

fn read(path: &Path) -> Result<Report, BenchError> {
    let bytes = std::fs::read(path).map_err(BenchError::file(path))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| BenchError::Unsuitable { path: path.to_owned(), why: error.to_string() })
}

/// Counts the bytes of each operation that come from memory, in a run of this program under
/// callgrind.
fn memory_bytes(files: u64) -> Result<BTreeMap<String, f64>, BenchError> {
    let program = std::env::current_exe().map_err(BenchError::file("xfs-bench".as_ref()))?;
    let folder = tempfile::tempdir().map_err(BenchError::file(&program))?;
    let mut command = Command::new(program);
    command.args(["operations-run", "--files", &files.to_string()]);
    let counted = account(&command, folder.path(), Caches::Simulated)?;
    Ok(counted.iter().map(|one| (one.operation.name().to_owned(), one.memory_bytes())).collect())
}
