//! `cargo xtask conformance`: writes the test results in docs/conformance.md, from records of
//! earlier test runs.
//!
//! Owns: the kinds of runs, and the tables of the page. Each kind has a file of records in
//! docs/internals/conformance. `--run KIND` runs one kind here and adds a record; without it only
//! the page is written. Records of suites that this chore cannot run are added by hand. Does
//! **not** own: the text around the tables.

mod counted;
mod pjdfstest;
mod record;
mod suites;

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::error::Error;
use record::Record;

/// The page with the results of the recorded runs.
const PAGE: &str = "docs/conformance.md";
/// The folder with the files of records, one file for each kind of run.
const RECORDS: &str = "docs/internals/conformance";
/// The line of the page before the tables, as `END` is the line after them. Writing the page
/// replaces the text between these lines.
const BEGIN: &str = "<!-- begin of the results: `cargo xtask conformance` writes them -->";
const END: &str = "<!-- end of the results -->";

/// Options of a run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Run one kind of tests on this machine, and record the result
    #[arg(long, value_name = "KIND", value_enum)]
    run: Option<Kind>,
    /// The seeds of tests against the kernel or xfs_repair, such as 0..300
    #[arg(long, value_name = "N..M", requires = "run")]
    seeds: Option<String>,
    /// Executions of each fuzz target
    #[arg(long, value_name = "N", default_value_t = 100_000, requires = "run")]
    rounds: u64,
    /// Mount with this program instead of one that is built now, for pjdfstest
    #[arg(long, value_name = "FILE", requires = "run")]
    program: Option<PathBuf>,
}

/// A kind of test run that has results on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// pjdfstest on a mount; needs root
    Pjdfstest,
    /// xfstests on a mount; recorded by hand
    Xfstests,
    /// Tests of file locks on a mount; recorded by hand
    Locks,
    /// Power cuts and failing devices, judged by the kernel and xfs_repair; needs root
    Crash,
    /// The same operations by ferroxfs, the kernel and a model; needs root
    Agreement,
    /// The log of ferroxfs, replayed by the kernel; needs root
    Replay,
    /// The kernel's log, replayed by ferroxfs; needs root
    Recovery,
    /// Volumes of all geometries, read by the kernel and by ferroxfs; needs root
    Matrix,
    /// Volumes of every kind, filled and recovered by other kernels in a virtual machine
    Guest,
    /// Executions of all fuzz targets
    Fuzz,
    /// Damaged volumes, judged by `ferroxfs check` and by xfs_repair; needs root
    Damage,
    /// Damaged volumes, repaired by `ferroxfs repair` and by xfs_repair; needs root
    Repair,
    /// Recovered power cuts, judged by `ferroxfs check` alone; needs root
    CrashStates,
}

impl Kind {
    /// Returns the heading of the kind on the page.
    const fn title(self) -> &'static str {
        match self {
            Self::Pjdfstest => "pjdfstest",
            Self::Xfstests => "xfstests",
            Self::Locks => "Tests of file locks",
            Self::Crash => "Crash histories",
            Self::Agreement => "Agreement with the kernel",
            Self::Replay => "Replay by the kernel",
            Self::Recovery => "Recovery of the kernel's log",
            Self::Matrix => "Reading over a matrix of geometries",
            Self::Guest => "Volumes of every kind",
            Self::Fuzz => "Fuzzing",
            Self::Damage => "Damaged volumes",
            Self::Repair => "Repairs",
            Self::CrashStates => "Silence of the checker after power cuts",
        }
    }

    /// Returns the sentence that stands below the heading of this kind on the page.
    const fn text(self) -> &'static str {
        match self {
            Self::Pjdfstest => "System calls of POSIX, on a mount.",
            Self::Xfstests => "The generic group `quick`, on a mount.",
            Self::Locks => "Linux's own tests and those of LTP, on a mount.",
            Self::Crash => {
                "A cut at any point keeps the promise of each sync, after our recovery and after \
                 the kernel's."
            }
            Self::Agreement => {
                "Operations end as on the kernel's XFS, and xfs_repair accepts the result."
            }
            Self::Replay => "The kernel replays our log to the volume that we have.",
            Self::Recovery => "Our recovery gives the volume of the kernel's recovery.",
            Self::Matrix => "Inodes, contents and attributes are those that the kernel shows.",
            Self::Guest => {
                "Volumes of [every kind](matrix.md) are those that the kernel of a guest shows, \
                 inode by inode."
            }
            Self::Fuzz => "No input of any target causes a panic or a hang.",
            Self::Damage => {
                "Whatever `xfs_repair -n` notices on a damaged volume, `ferroxfs check` notices, \
                 apart from the differences in [the checker](internals/check.md)."
            }
            Self::Repair => {
                "In no trial does `ferroxfs repair` keep less than xfs_repair, and each volume is\n\
                 clean after one run, by `ferroxfs check` and by `xfs_repair -n`. A salvage of the\n\
                 damaged volume delivers at least the names and contents that `ferroxfs repair`\n\
                 leaves in their place, and files that it reports as complete are."
            }
            Self::CrashStates => {
                "After the recovery of any power cut, `ferroxfs check` finds nothing above `preen`."
            }
        }
    }

    /// Returns the name of the kind, as on the command line.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the path of the records, relative to the project.
    fn records(self) -> String {
        format!("{RECORDS}/{}.json", self.name())
    }
}

/// Runs the tests of a kind if the options name one, and writes the page.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    if let Some(kind) = options.run {
        let results = match kind {
            Kind::Xfstests | Kind::Locks => return Err(Error::ByHand(kind.records())),
            Kind::Pjdfstest => pjdfstest::run(root, options.program.as_deref())?,
            Kind::Fuzz => vec![suites::fuzz(root, options.rounds)?],
            Kind::Damage => vec![counted::damage(options.seeds.as_deref())?],
            Kind::Repair => counted::repairs(options.seeds.as_deref())?,
            Kind::CrashStates => vec![counted::crash_states(options.seeds.as_deref())?],
            kind => vec![suites::tests(kind, options.seeds.as_deref())?],
        };
        let mut records = record::load(root, &kind.records())?;
        for result in results {
            println!("{}", result.line());
            records.push(Record::here(root, result)?);
        }
        record::store(root, &kind.records(), &records)?;
    }
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).map_err(Error::file(&path))?;
    let page = with_results(&page, &results(root)?)?;
    fs::write(&path, page).map_err(Error::file(&path))?;
    println!("wrote {PAGE}");
    Ok(())
}

/// Returns the tables of all kinds that have a record.
fn results(root: &Path) -> Result<String, Error> {
    let mut text = String::new();
    for kind in Kind::value_variants() {
        let records = record::load(root, &kind.records())?;
        if !records.is_empty() {
            text.push_str(&format!("### {}\n\n{}\n\n", kind.title(), kind.text()));
            text.push_str(&table(&records));
            text.push('\n');
        }
    }
    Ok(text)
}

/// Returns the table of a kind, the newest record first.
fn table(records: &[Record]) -> String {
    let mut text =
        "| date | commit | machine | run | passed | skipped | failed | note |\n".to_owned();
    text.push_str("|---|---|---|---|---:|---:|---:|---|\n");
    let mut newest: Vec<_> = records.iter().collect();
    // A stable sort: records of one day stay in their order.
    newest.sort_by(|a, b| b.date.cmp(&a.date));
    newest.iter().for_each(|record| text.push_str(&record.row()));
    text
}

/// Returns the page with `results` between its marks, in place of the old tables.
fn with_results(page: &str, results: &str) -> Result<String, Error> {
    let parts = page
        .split_once(BEGIN)
        .and_then(|(before, rest)| rest.split_once(END).map(|(_, after)| (before, after)));
    let (before, after) = parts.ok_or(Error::NoMarks(PAGE))?;
    Ok(format!("{before}{BEGIN}\n\n{results}{END}{after}"))
}

#[cfg(test)]
mod tests;
