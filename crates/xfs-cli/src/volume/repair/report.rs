//! The printed text of a repair's plan and of its outcome.

use std::io::{self, Write};

use xfs_repair::{LogOutcome, Plan};

use crate::terminal::console::Console;
use crate::terminal::plural::counted;

/// The largest number of findings to print of those that remain after the repair.
const MOST_LEFT: usize = 20;

/// Prints what a repair would change.
pub(super) fn print_plan(plan: &Plan, image: &str, console: &mut Console) -> io::Result<()> {
    let is_quiet = console.is_quiet();
    let out = console.out();
    print_body(plan, out)?;
    if is_quiet {
        return Ok(());
    }
    if plan.is_empty() && plan.leaves_clean() {
        return writeln!(out, "{image}: clean, there is nothing to repair");
    }
    writeln!(out, "{image}: {}", totals(plan))?;
    if plan.is_empty() {
        return writeln!(out, "nothing was written; no rule repairs this damage");
    }
    let partial = if plan.leaves_clean() { "" } else { " --partial" };
    writeln!(out, "nothing was written; 'ferroxfs repair --yes{partial} {image}' does it")
}

/// Prints what a repair has changed.
pub(super) fn print_applied(plan: &Plan, image: &str, console: &mut Console) -> io::Result<()> {
    let is_quiet = console.is_quiet();
    let out = console.out();
    print_body(plan, out)?;
    if is_quiet {
        return Ok(());
    }
    writeln!(out, "{image}: {}", totals(plan))
}

/// Prints why a repair has written nothing: the volume is clean, no rule repairs its damage, or the
/// plan would leave damage.
pub(super) fn print_nothing_applied(
    plan: &Plan,
    image: &str,
    console: &mut Console,
) -> io::Result<()> {
    let is_quiet = console.is_quiet();
    let out = console.out();
    print_body(plan, out)?;
    match (is_quiet, plan.leaves_clean(), plan.is_empty()) {
        (true, ..) => return Ok(()),
        (false, true, _) => return writeln!(out, "{image}: clean, nothing was written"),
        (false, false, _) => writeln!(out, "{image}: {}", totals(plan))?,
    }
    match plan.is_empty() {
        true => writeln!(out, "nothing was written; no rule repairs this damage"),
        false => writeln!(out, "nothing was written; --partial applies such a plan"),
    }
}

/// Prints the command that undoes the repair.
pub(super) fn print_undo(file: &str, image: &str, console: &mut Console) -> io::Result<()> {
    if console.is_quiet() {
        return Ok(());
    }
    writeln!(console.out(), "'ferroxfs repair --undo {file} {image}' takes it back")
}

fn totals(plan: &Plan) -> String {
    let left = match (plan.left.len(), plan.leaves_clean()) {
        (_, true) => "clean after the repair".to_owned(),
        (0, false) => "parts cannot be checked after the repair".to_owned(),
        (left, false) => format!("{} left after the repair", counted(left as u64, "finding")),
    };
    format!(
        "{}, {}, {} in {}; {left}",
        counted(plan.findings, "finding"),
        counted(plan.actions.len() as u64, "action"),
        counted(plan.changed_bytes(), "byte"),
        counted(plan.runs.len() as u64, "run")
    )
}

/// Prints the actions of a plan, and the damage that would remain after them.
fn print_body(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    match plan.log {
        LogOutcome::Clean | LogOutcome::Formatted => {}
        LogOutcome::Replayed => writeln!(out, "the log is replayed")?,
        LogOutcome::ReplayedInPart => {
            writeln!(out, "the log is replayed; open work in it is dropped")?;
        }
    }
    for action in &plan.actions {
        write!(out, "{}", action.rule)?;
        let place = action.place.to_string();
        // An action on the whole volume has no place.
        if !place.is_empty() {
            write!(out, ": {place}")?;
        }
        let codes: Vec<&str> = action.codes.iter().map(|code| code.word()).collect();
        if !codes.is_empty() {
            write!(out, " ({})", codes.join(", "))?;
        }
        writeln!(out, "\n  keeps {}", action.keeps)?;
        for loss in &action.loses {
            writeln!(out, "  LOSES {}", loss.what)?;
        }
    }
    if plan.withdrawn > 0 {
        let rounds = counted(plan.withdrawn.into(), "round");
        writeln!(out, "refused: {rounds} of changes that leave new damage or repair nothing")?;
    }
    for left in plan.left.iter().take(MOST_LEFT) {
        let place = left.place.to_string();
        // A finding about the whole volume has no place.
        let place = if place.is_empty() { place } else { format!("{place}: ") };
        writeln!(out, "left: {}: {place}{}", left.code.word(), left.found)?;
    }
    if let Some(more) = plan.left.len().checked_sub(MOST_LEFT).filter(|more| *more > 0) {
        writeln!(out, "left: {more} more; --json shows them")?;
    }
    for what in &plan.unchecked {
        writeln!(out, "not checked: {what}")?;
    }
    for (range, error) in plan.unreadable.iter().take(MOST_LEFT) {
        writeln!(out, "unreadable: bytes {} to {}: {error}", range.start, range.end)?;
    }
    Ok(())
}
