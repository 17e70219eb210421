//! The printed text of a repair's plan and of its outcome.

use std::io::{self, Write};

use xfs_repair::{LogOutcome, Plan};

use super::wording::{WithLoss, Wording};
use crate::terminal::console::Console;
use crate::terminal::plural::counted;

/// The largest number of findings to print of those that remain after the repair.
const MOST_LEFT: usize = 20;

/// Prints what a repair would change.
pub(super) fn print_plan(
    plan: &Plan,
    wording: &Wording,
    with_loss: Option<WithLoss>,
    console: &mut Console,
) -> io::Result<()> {
    let is_quiet = console.is_quiet();
    let out = console.out();
    print_body(plan, out)?;
    if is_quiet {
        return Ok(());
    }
    let image = &wording.image;
    if plan.is_empty() && plan.leaves_clean() {
        return writeln!(out, "{image}: clean, there is nothing to repair");
    }
    writeln!(out, "{image}: {}", totals(plan))?;
    if plan.is_empty() {
        return print_no_rule(plan, wording, with_loss, out);
    }
    if loses(plan) {
        writeln!(out, "something would be lost: run {} first", wording.salvage())?;
    }
    let command = wording.apply(!plan.leaves_clean());
    writeln!(out, "nothing was written; {command} does it")?;
    print_with_loss(wording, with_loss, out)
}

/// Prints what a repair has changed, and the command that undoes it with the undo file `file`.
pub(super) fn print_applied(
    plan: &Plan,
    wording: &Wording,
    file: &str,
    console: &mut Console,
) -> io::Result<()> {
    let is_quiet = console.is_quiet();
    let out = console.out();
    print_body(plan, out)?;
    if is_quiet {
        return Ok(());
    }
    let undo = wording.undo(file);
    writeln!(out, "{}: {}", wording.image, totals(plan))?;
    if loses(plan) {
        writeln!(
            out,
            "something was lost: if no salvage was made before, undo the repair and run {} first",
            wording.salvage()
        )?;
    }
    writeln!(out, "{undo} takes it back")
}

/// Prints why a repair has written nothing: the volume is clean, no rule repairs its damage, or the
/// plan would leave damage.
pub(super) fn print_nothing_applied(
    plan: &Plan,
    wording: &Wording,
    with_loss: Option<WithLoss>,
    console: &mut Console,
) -> io::Result<()> {
    let is_quiet = console.is_quiet();
    let out = console.out();
    print_body(plan, out)?;
    let image = &wording.image;
    match (is_quiet, plan.leaves_clean(), plan.is_empty()) {
        (true, ..) => return Ok(()),
        (false, true, _) => return writeln!(out, "{image}: clean, nothing was written"),
        (false, false, _) => writeln!(out, "{image}: {}", totals(plan))?,
    }
    if plan.is_empty() {
        return print_no_rule(plan, wording, with_loss, out);
    }
    writeln!(out, "nothing was written; --partial applies such a plan")?;
    print_with_loss(wording, with_loss, out)
}

/// Prints that nothing was written because no rule repairs the damage. Also prints the command that
/// the user can run instead.
fn print_no_rule(
    plan: &Plan,
    wording: &Wording,
    with_loss: Option<WithLoss>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let salvage = wording.salvage();
    match with_loss {
        Some(WithLoss::All | WithLoss::More) => {
            writeln!(out, "nothing was written; no rule repairs this damage without a loss")?;
            print_with_loss(wording, with_loss, out)
        }
        _ if !plan.unreadable.is_empty() => writeln!(
            out,
            "nothing was written; copy the device with ddrescue first, and repair the copy"
        ),
        Some(WithLoss::NoMore) | None => writeln!(
            out,
            "nothing was written; no rule repairs this damage: {salvage} copies what can be read"
        ),
    }
}

/// Prints how much of the remaining damage the repair would fix if losses were allowed. Prints
/// nothing if allowing losses would not help.
fn print_with_loss(
    wording: &Wording,
    with_loss: Option<WithLoss>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let what = match with_loss {
        Some(WithLoss::All) => "it",
        Some(WithLoss::More) => "more of it",
        Some(WithLoss::NoMore) | None => return Ok(()),
    };
    let (plan, salvage) = (wording.lossy_plan(), wording.salvage());
    writeln!(
        out,
        "rules that lose something would repair {what}: {plan} shows them; run {salvage} first"
    )
}

fn loses(plan: &Plan) -> bool {
    plan.actions.iter().any(|action| !action.loses.is_empty())
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
        writeln!(
            out,
            "not done: {rounds} of changes were tried in memory and taken back, because the volume \
             was damaged in new places after them, or in as many as before"
        )?;
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
