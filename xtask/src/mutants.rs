//! `cargo xtask mutants`: puts deliberate mistakes into the allocator, the btrees and the extent
//! maps. The checker must find each of them.
//!
//! Owns: the list of mistakes, building them, and docs/internals/check-mutants.md. Does **not**
//! own: the operations that each run performs (`crates/xfs-oracle/tests/work`).
//!
//! All mistakes are built at once, in a copy of the sources below target/mutants. The variable
//! `FERROXFS_MUTANT` selects one of them at run time, so that a mistake costs a run and no build.

mod list;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::command;
use crate::error::Error;
use crate::oracles;
use list::{HARMLESS, MUTANTS, Mutant};

/// The page that shows the result of each mistake.
const PAGE: &str = "docs/internals/check-mutants.md";
/// The folder in which cargo builds the sources with the mistakes.
const BUILD: &str = "target/mutants-build";
/// The crates that have mistakes.
const CRATES: [&str; 3] = ["xfs-alloc", "xfs-btree", "xfs-inode"];
/// The longest time of one run, in seconds.
const MOST_SECONDS: &str = "180";
/// The source of a module that is added to each crate with mistakes. Its function `is(n)` returns
/// whether mistake `n` is selected at run time.
const SWITCH: &str = "
pub(crate) mod mutant {
    pub(crate) fn is(number: u32) -> bool {
        static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let chosen = || std::env::var(\"FERROXFS_MUTANT\").ok().and_then(|n| n.parse().ok());
        *CHOSEN.get_or_init(|| chosen().unwrap_or(0)) == number
    }
}
";

/// The result of one run of the test program, with one mistake in the library.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunOutcome {
    /// The checker has findings with these codes.
    Found(Vec<String>),
    /// The library stopped with this message, and the checker has no finding.
    Stopped(String),
    /// The library did not stop, and the checker has no finding.
    Missed,
}

/// Builds the test program with all mistakes, runs it once for each mistake, and writes the page
/// with the results.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let source = root.join("target/mutants");
    copy(root, &source)?;
    let program = build(root, &source)?;
    let unchanged = work(root, &program, 0)?;
    if unchanged != RunOutcome::Missed {
        return Err(Error::Mutants(format!("a build without a mistake gives {unchanged:?}")));
    }
    let mut results = Vec::new();
    for (number, mutant) in (1..).zip(MUTANTS) {
        let outcome = work(root, &program, number)?;
        println!("{number}: {}: {outcome:?}", mutant.mistake);
        results.push((mutant, outcome));
    }
    let path = root.join(PAGE);
    fs::write(&path, page(&results)).map_err(Error::file(&path))?;
    println!("wrote {PAGE}");
    let missed: Vec<&str> = results
        .iter()
        .filter(|(mutant, outcome)| (*outcome == RunOutcome::Missed) != harmless(mutant).is_some())
        .map(|(mutant, _)| mutant.mistake)
        .collect();
    match missed.as_slice() {
        [] => Ok(()),
        missed => Err(Error::Mutants(format!("wrong result of: {}", missed.join("; ")))),
    }
}

/// Copies the sources of the workspace with all mistakes. Files that an earlier copy has left with
/// the same text keep their time, so that they are not compiled again.
fn copy(root: &Path, to: &Path) -> Result<(), Error> {
    let mut git = Command::new("git");
    let files = command::quiet_output(git.args(["ls-files"]).current_dir(root))?;
    for file in files.lines() {
        let from = root.join(file);
        let Ok(bytes) = fs::read(&from) else { continue };
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => mutated(file, text)?.into_bytes(),
            Err(error) => error.into_bytes(),
        };
        let path = to.join(file);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            continue;
        }
        let folder = path.parent().unwrap_or(to);
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
        fs::write(&path, bytes).map_err(Error::file(&path))?;
    }
    Ok(())
}

/// Returns the text of a file with every listed mistake for that file inserted.
fn mutated(file: &str, mut text: String) -> Result<String, Error> {
    for (number, mutant) in (1..).zip(MUTANTS) {
        if Path::new("crates").join(mutant.file) == Path::new(file) {
            text = with_mistake(&text, number, mutant)?;
        }
    }
    if CRATES.iter().any(|name| file == format!("crates/{name}/src/lib.rs")) {
        text.push_str(SWITCH);
    }
    Ok(text)
}

/// Returns the text of a file in which the right text of one mistake is replaced by a choice at run
/// time: the wrong text if `number` is selected, or else the right text.
fn with_mistake(text: &str, number: u32, mutant: &Mutant) -> Result<String, Error> {
    let Mutant { file, right, wrong, .. } = *mutant;
    if text.matches(right).count() != 1 {
        return Err(Error::Mutants(format!("{file} does not have this text once: {right}")));
    }
    let choice = format!("if crate::mutant::is({number}) {{ {wrong} }} else {{ {right} }}");
    let is_match_arm = right.contains("=>");
    let is_statement = right.ends_with(';') || right.ends_with('}');
    let new = match (is_match_arm, is_statement) {
        (true, _) => {
            let arm = |text: &str| text.split_once("=>").map(|(_, arm)| arm.trim().to_owned());
            let (name, _) = right.split_once("=>").expect("an arm");
            let (right, wrong) = (arm(right).expect("an arm"), arm(wrong).expect("an arm"));
            format!("{name}=> if crate::mutant::is({number}) {{ {wrong} }} else {{ {right} }}")
        }
        (false, true) => choice,
        (false, false) => format!("({choice})"),
    };
    Ok(text.replacen(right, &new, 1))
}

/// Builds the test program (`crates/xfs-oracle/tests/work`) with all mistakes of the list. Returns
/// the path of the program.
fn build(root: &Path, source: &Path) -> Result<PathBuf, Error> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--no-run", "--package", "xfs-oracle", "--test", "work"]);
    cargo.arg("--message-format=json-render-diagnostics");
    // A folder of its own: the builds of the copy would replace those of the workspace.
    cargo.env("CARGO_TARGET_DIR", root.join(BUILD)).current_dir(source);
    let messages = command::output(&mut cargo)?;
    let program = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        message.get("executable")?.as_str().map(PathBuf::from)
    });
    program.ok_or_else(|| Error::Mutants("cargo names no program".to_owned()))
}

/// Runs the test program with mistake number `number`, or without a mistake if `number` is 0.
fn work(root: &Path, program: &Path, number: u32) -> Result<RunOutcome, Error> {
    let mut timed = Command::new("timeout");
    timed.arg(MOST_SECONDS).arg(program);
    timed.env("FERROXFS_MUTANT", number.to_string());
    timed.env("FERROXFS_ORACLES", oracles::folder(root));
    timed.stderr(Stdio::null());
    let mut lines = Vec::new();
    let status = command::run_lines(&mut timed, |line| lines.push(line.to_owned()))?;
    Ok(outcome(&lines, status.success()))
}

fn outcome(lines: &[String], is_success: bool) -> RunOutcome {
    // found: churn: check: bno.differs: group 1: …
    let code = |line: &String| {
        let (_, finding) = line.strip_prefix("found: ")?.split_once("check: ")?;
        finding.split_once(':').map(|(code, _)| code.to_owned())
    };
    let mut codes: Vec<String> = lines.iter().filter_map(code).collect();
    codes.sort();
    codes.dedup();
    let stop = |line: &String| {
        let is_stop = line.starts_with("stopped: ") || line.starts_with("skipped: ");
        is_stop.then(|| line.clone())
    };
    let stop = lines.iter().find_map(stop);
    match (codes.is_empty(), stop) {
        (false, _) => RunOutcome::Found(codes),
        (true, Some(stop)) => RunOutcome::Stopped(stop),
        (true, None) if is_success => RunOutcome::Missed,
        (true, None) => RunOutcome::Stopped("the run has no result".to_owned()),
    }
}

/// Returns the reason why a mistake does not damage the volume, or `None` if it does.
fn harmless(mutant: &Mutant) -> Option<&'static str> {
    HARMLESS.iter().find(|(mistake, _)| *mistake == mutant.mistake).map(|(_, reason)| *reason)
}

/// Returns the page with the results.
fn page(results: &[(&Mutant, RunOutcome)]) -> String {
    let count =
        |is: fn(&RunOutcome) -> bool| results.iter().filter(|(_, outcome)| is(outcome)).count();
    let mut text = format!(
        "# Mistakes that the checker finds\n\n\
         `cargo xtask mutants` makes one mistake at a time in the allocator, the btrees or the extent\n\
         maps. It performs seeded operations (`crates/xfs-oracle/tests/work`) and asks the checker\n\
         alone, after each stage of the work.\n\n\
         Of {} mistakes {} give a finding. With {} the library itself notices the mistake in memory\n\
         and stops before the volume is damaged. {} leave the volume right.\n\n\
         | number | file | mistake | findings |\n|---:|---|---|---|\n",
        results.len(),
        count(|outcome| matches!(outcome, RunOutcome::Found(_))),
        count(|outcome| matches!(outcome, RunOutcome::Stopped(_))),
        count(|outcome| *outcome == RunOutcome::Missed),
    );
    for (number, (mutant, outcome)) in (1..).zip(results) {
        let shown = match outcome {
            RunOutcome::Found(codes) => {
                codes.iter().map(|code| format!("`{code}`")).collect::<Vec<_>>().join(", ")
            }
            RunOutcome::Stopped(why) => format!("none; {}", plain(why)),
            RunOutcome::Missed => match harmless(mutant) {
                Some(reason) => format!("none: {reason}"),
                None => "**none**".to_owned(),
            },
        };
        writeln!(text, "| {number} | `{}` | {} | {shown} |", mutant.file, mutant.mistake)
            .expect("a string takes all text");
    }
    text
}

/// Returns the start of an error message for a cell of a Markdown table, without characters that
/// have a meaning there.
fn plain(message: &str) -> String {
    message.chars().filter(|c| !"|`\n".contains(*c)).take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::{MUTANTS, RunOutcome, mutated, outcome};

    #[test]
    fn each_mistake_finds_its_text() {
        let root = crate::workspace_root();
        for mutant in MUTANTS {
            let file = format!("crates/{}", mutant.file);
            let text = std::fs::read_to_string(root.join(&file)).expect("the file exists");
            let new = mutated(&file, text.clone()).expect("each text is there once");
            assert_ne!(new, text, "{file}");
        }
        assert!(MUTANTS.len() >= 40, "{}", MUTANTS.len());
    }

    #[test]
    fn findings_are_told_from_stops() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let found =
            lines("found: churn: check: agf.freeblks: group 1: 5, expected 6\nstopped: x: y");
        assert_eq!(outcome(&found, false), RunOutcome::Found(vec!["agf.freeblks".to_owned()]));
        let stopped = lines("stopped: churn: shut down");
        assert_eq!(outcome(&stopped, false), RunOutcome::Stopped(stopped.concat()));
        assert_eq!(outcome(&[], true), RunOutcome::Missed);
    }
}
