//! The parts of `cargo xtask test`. Most of them run at the same time as the tests.
//!
//! Owns: the list of parts, running parts as processes of their own, and their output. Does **not**
//! own: the work of a part, which is in `test.rs`.
//!
//! The tests of the workspace keep about half of two processors busy: a binary ends with one long
//! test, or waits for a guest, a mount or the disk. The other parts mostly compile, and the last
//! one has the tests that ask other programs. They run at the same time as the tests, one after
//! another, each with its own target folder or after the build of the tests. They have a lower
//! priority, so that a test with a time limit hardly notices them. The shortest such limit is 10 s.
//! When the tests have ended, their thread takes the last of the waiting parts.
//!
//! The output of such a part goes to a file, `target/parts/NAME.log`, and is printed when the part
//! ends, in one piece. Its last line is the part's report, for this program.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::Instant;

use clap::ValueEnum;

use crate::command;
use crate::error::Error;
use crate::report::Report;

/// A part of the run of all tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The tests of the workspace
    Tests,
    /// tidy, rustfmt, clippy, rustdoc, and licences of dependencies
    Style,
    /// The package that users install, and the demo
    Program,
    /// The packages of the published crates
    Package,
    /// The tests that count atomic writes and lock acquisitions
    Counted,
    /// The tests that run under a schedule explorer
    Models,
    /// The tests that ask the kernel, guests and xfsprogs
    Oracles,
}

/// The parts that run beside the tests, in order. Those that build in the target folder of the
/// tests are the last ones: cargo lets them wait until the tests are built. [`Part::Oracles`] is
/// built with the tests.
pub(crate) const BESIDE_TESTS: [Part; 6] =
    [Part::Style, Part::Program, Part::Package, Part::Counted, Part::Models, Part::Oracles];

/// The start of the last line of a part's output. The report of the part follows on the same line,
/// as JSON.
const REPORT: &str = "report: ";

/// The niceness, as for nice(1), of the parts that run at the same time as the tests.
const NICENESS: &str = "10";

impl Part {
    /// Returns the name of the part on the command line.
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no part is hidden");
        value.get_name().to_owned()
    }

    /// Returns the command that runs this part, with these flags of `cargo xtask test`, with the
    /// program that is running now.
    fn command(self, flags: &[&str]) -> Command {
        // This path stays valid if the tests' build replaces the program in the target folder.
        let ours = format!("/proc/{}/exe", std::process::id());
        let mut nice = Command::new("nice");
        nice.args(["-n", NICENESS, &ours, "test", "--part", &self.name(), "--json"]);
        nice.args(flags);
        nice
    }
}

/// Prints the report of a part as the last line of its output.
pub(crate) fn print_report(report: &Report) {
    let json = serde_json::to_string(report).expect("a report has only text and numbers");
    println!("{REPORT}{json}");
}

/// The parts that wait to be run beside the tests.
pub(crate) struct Beside<'a> {
    root: &'a Path,
    flags: &'a [&'a str],
    waiting: Mutex<VecDeque<Part>>,
}

impl Beside<'_> {
    fn take(&self, take: fn(&mut VecDeque<Part>) -> Option<Part>) -> Option<Part> {
        take(&mut self.waiting.lock().expect("a thread that holds the lock does not panic"))
    }

    /// Takes the last waiting part. The caller runs it.
    pub(crate) fn take_last(&self) -> Option<Part> {
        self.take(VecDeque::pop_back)
    }

    /// Runs a part as a process, and returns its report.
    pub(crate) fn run(&self, part: Part) -> Report {
        let name = part.name();
        let log = format!("target/parts/{name}.log");
        println!("beside the tests: cargo xtask test --part {name} > {log}");
        run_logged(&name, part.command(self.flags), &self.root.join(log))
    }
}

/// Runs `tests`, and at the same time the parts with these flags, one after another. Adds the
/// results of both to `report`. `tests` drops the sender when everything is built and installed
/// that [`Part::Oracles`] runs, and may take waiting parts.
pub(crate) fn run_beside(
    root: &Path,
    report: &mut Report,
    parts: &[Part],
    flags: &[&str],
    tests: impl FnOnce(&mut Report, &Beside<'_>, Sender<()>),
) {
    let beside = Beside { root, flags, waiting: Mutex::new(parts.iter().copied().collect()) };
    let (is_built, built) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = &beside;
        let others = scope.spawn(move || {
            let mut others = Report::default();
            while let Some(part) = waiting.take(VecDeque::pop_front) {
                if part == Part::Oracles {
                    // If the build has failed, the part says so too.
                    _ = built.recv();
                }
                others.add(waiting.run(part));
            }
            others
        });
        tests(report, &beside, is_built);
        report.add(others.join().expect("the parts beside the tests do not panic"));
    });
}

/// Runs the command of a part with its output in the file `log`. Then prints the output and returns
/// the report of the part. A part that printed no report has failed, and so has a part whose exit
/// status is not 0.
fn run_logged(name: &str, command: Command, log: &Path) -> Report {
    let began = Instant::now();
    let mut report = Report::default();
    match output(command, log) {
        Err(error) => report.check(name, Err(error)),
        Ok((text, mut ended)) => {
            let (text, found) = split(&text);
            print_block(name, text);
            match found {
                Some(found) => report.add(found),
                None => ended = ended.and(Err(Error::NoReport)),
            }
            // If the report names a failure, that failure explains the exit status.
            if report.failed() == 0 && ended.is_err() {
                report.check(name, ended);
            }
        }
    }
    report.took(&format!("{name}, beside the tests"), began.elapsed());
    report
}

/// Runs a command with its output in a file. Returns the output, and whether the command succeeded.
fn output(mut command: Command, log: &Path) -> Result<(String, Result<(), Error>), Error> {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    let file = File::create(log).map_err(Error::file(log))?;
    let errors = file.try_clone().map_err(Error::file(log))?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let ended = command::run_unannounced(&mut command);
    let bytes = fs::read(log).map_err(Error::file(log))?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), ended))
}

/// Splits the output of a part into the text before its report, and the report.
fn split(output: &str) -> (&str, Option<Report>) {
    let lines = output.trim_end();
    let (text, last) = lines.rsplit_once('\n').unwrap_or(("", lines));
    match last.strip_prefix(REPORT).map(serde_json::from_str) {
        Some(Ok(report)) => (text, Some(report)),
        _ => (lines, None),
    }
}

/// Prints the output of a part in one piece, so that no line of the tests comes between.
fn print_block(name: &str, text: &str) {
    print!("---- {name}, beside the tests ----\n{text}\n---- end of {name} ----\n");
}

#[cfg(test)]
mod tests;
