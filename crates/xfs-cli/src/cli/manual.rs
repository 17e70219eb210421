//! Examples, exit codes and related programs: they are at the end of each help text, man page and
//! reference page.
//!
//! Owns: the table of examples, and its form in help texts and pages. Does **not** own: the
//! arguments of commands. Tests parse each example, and run those that need no mount, in a
//! directory with `disk.img`, `disk.map`, `tree/`, `root.tar` and `notes.txt`.

mod examples;
mod markdown;

use std::io::{self, Write};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use examples::EXAMPLES;
pub(crate) use markdown::reference;

/// A command line, and a text that says what the command line does.
type Example = (&'static str, &'static str);

/// Examples and related programs of a command.
struct ManualEntry {
    /// The name of the command; for a subcommand both words, such as `dump agf`.
    name: &'static str,
    examples: &'static [Example],
    /// Related man pages: of other programs, such as `mkfs.xfs(8)`, and of ferroxfs.
    see_also: &'static [&'static str],
}

/// Exit codes and their meanings, as in docs/exit-codes.md.
const EXIT_CODES: [(&str, &str); 10] = [
    ("0", "everything succeeded"),
    ("1", "something failed: no such file, no permission, no space"),
    ("2", "the command line is invalid, or not possible for this image"),
    ("3", "no XFS volume of version 4 or 5, or a feature that is refused by name"),
    ("4", "the log holds changes that this command does not replay"),
    ("5", "a structure of the image is corrupt, or past the end of the image"),
    ("129", "stopped by SIGHUP, after everything was closed"),
    ("130", "stopped by SIGINT, after everything was closed"),
    ("141", "the reader of standard output closed the pipe"),
    ("143", "stopped by SIGTERM, after everything was closed"),
];

/// Exit codes of `check`, those of fsck(8).
const CHECK_EXIT_CODES: [(&str, &str); 5] = [
    ("0", "the volume is clean"),
    ("4", "something is damaged"),
    ("8", "the volume, or a part of it, could not be checked"),
    ("16", "the command line is invalid"),
    ("32", "a signal stopped the check"),
];

/// Exit codes of `repair`, those of fsck(8).
const REPAIR_EXIT_CODES: [(&str, &str); 6] = [
    ("0", "the volume is clean, or the repair was taken back"),
    ("1", "the volume was repaired or its log replayed, and no damage is left"),
    ("4", "damage is left, or would be left and nothing was written; with --plan, there is damage"),
    ("8", "the repair failed; the message says whether anything was written"),
    ("16", "the command line is invalid"),
    ("32", "a signal stopped the repair before anything was written"),
];

/// Exit codes of `run`, those of env(1) and timeout(1).
const RUN_EXIT_CODES: [(&str, &str); 5] = [
    ("N", "the program has ended with this code"),
    ("125", "the volume could not be mounted or closed, or the command line is invalid"),
    ("126", "the program cannot be executed"),
    ("127", "the program does not exist"),
    ("128+N", "signal N has killed the program"),
];

/// Exit codes of `diff`, those of diff(1) as far as it has them.
const DIFF_EXIT_CODES: [(&str, &str); 7] = [
    ("0", "the states are the same"),
    ("1", "the states differ"),
    ("2", "the command line is invalid, or something failed: no such file, a read error"),
    ("3", "an image or a scan that is refused by name, or two different volumes"),
    ("4", "the log of an image holds changes that are not replayed"),
    ("5", "a structure of an image is corrupt, so that changes may be missing or wrong"),
    ("130", "stopped by SIGINT; other signals and a closed pipe as for other commands"),
];

/// Returns the exit codes of a command and their meanings.
fn exit_codes(name: &str) -> &'static [(&'static str, &'static str)] {
    match name {
        "check" => &CHECK_EXIT_CODES,
        "repair" => &REPAIR_EXIT_CODES,
        "diff" => &DIFF_EXIT_CODES,
        "run" => &RUN_EXIT_CODES,
        _ => &EXIT_CODES,
    }
}

/// Adds the examples to the help of each command and its subcommands.
pub(crate) fn with_manual(command: Command) -> Command {
    let names: Vec<_> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = names
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(&name, |below| end_of(below, &name)));
    with_end(command, "")
}

fn end_of(command: Command, name: &str) -> Command {
    let names: Vec<_> =
        command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = names.into_iter().fold(command, |command, below| {
        let whole = format!("{name} {below}");
        command.mut_subcommand(below, |command| with_end(command, &whole))
    });
    with_end(command, name)
}

fn with_end(command: Command, name: &str) -> Command {
    let Some(entry) = find(name) else { return command };
    // The help of the program itself ends with a short list of exit codes instead.
    let own = command.get_after_help().filter(|_| !name.is_empty());
    let mut text = own.map(|text| format!("{text}\n\n")).unwrap_or_default();
    text += "Examples:\n";
    for (line, meaning) in entry.examples {
        text += &format!("  {line}\n      {meaning}\n");
    }
    text += "\nExit status:\n";
    for (code, meaning) in exit_codes(name) {
        text += &format!("  {code:>3}  {meaning}\n");
    }
    text += &see_also(entry);
    command.after_long_help(text)
}

/// Returns the lines "See also: …" at the end of a help text, each narrower than a terminal.
fn see_also(entry: &ManualEntry) -> String {
    let mut text = "\nSee also:".to_owned();
    let mut width = text.len();
    for (index, page) in entry.see_also.iter().enumerate() {
        if width + page.len() > 74 {
            text += "\n         ";
            width = 9;
        }
        let comma = if index + 1 == entry.see_also.len() { "" } else { "," };
        text += &format!(" {page}{comma}");
        width += page.len() + 2;
    }
    text
}

fn find(name: &str) -> Option<&'static ManualEntry> {
    EXAMPLES.iter().find(|entry| entry.name == name)
}

/// Returns the man pages as pairs of a file name and its contents.
pub(crate) fn pages(command: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    // The command `help` has no page.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    collect(&command, "", &mut pages)?;
    Ok(pages)
}

fn collect(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let whole = format!("{name} {}", below.get_name());
        collect(below, whole.trim_start(), pages)?;
    }
    let page = Man::new(command.clone()).manual("ferroxfs");
    let mut bytes = Vec::new();
    render(&page, command, name, &mut bytes)?;
    pages.push((page.get_filename(), bytes));
    Ok(())
}

fn render(page: &Man, command: &Command, name: &str, out: &mut Vec<u8>) -> io::Result<()> {
    page.render_title(out)?;
    // Words as long as the lists of mount options cannot be set to both margins, and hyphens in
    // names of options would mislead.
    out.extend_from_slice(b".ad l\n.nh\n");
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    if command.has_subcommands() {
        page.render_subcommands_section(out)?;
    }
    let mut roff = Roff::new();
    if let Some(text) = command.get_after_help().filter(|_| !name.is_empty()) {
        roff.control("SH", ["DETAILS"]);
        roff.control("nf", []);
        for line in text.to_string().lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    if let Some(entry) = find(name) {
        roff.control("SH", ["EXAMPLES"]);
        for (line, meaning) in entry.examples {
            roff.control("TP", []);
            roff.text([bold(*line)]);
            roff.text([roman(*meaning)]);
        }
        roff.control("SH", ["EXIT STATUS"]);
        for (code, meaning) in exit_codes(name) {
            roff.control("TP", []);
            roff.text([bold(*code)]);
            roff.text([roman(*meaning)]);
        }
        roff.control("SH", ["SEE ALSO"]);
        roff.text([roman(entry.see_also.join(", "))]);
    }
    roff.to_writer(out)?;
    page.render_version_section(out)?;
    out.flush()
}

#[cfg(test)]
mod tests;
