//! The reference pages of the project, docs/reference: one Markdown page for each command, and one
//! for the findings of `check`.
//!
//! Owns: the form of these pages. Does **not** own: their contents. These come, as in the man
//! pages, from the definitions of the commands and the table of examples, and for the findings from
//! the table of codes in `xfs-check`. `cargo xtask reference` writes the pages, and a test compares
//! them with the definitions.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::{Arg, Command};
use ferroxfs::check::{Code, Severity};

use super::{Example, ManualEntry, exit_codes, find};

/// The largest number of columns in a line of text.
const COLUMNS: usize = 100;
/// The value name of arguments that are a number of bytes. Such arguments take size suffixes.
const SIZE: &str = "BYTES";
/// Heading of options that have no heading of their own.
const OPTIONS: &str = "Options";

/// The page of the findings.
pub(crate) const FINDINGS: &str = "findings.md";

/// Returns the reference pages: names of files, and their contents.
pub(crate) fn reference(command: Command) -> Vec<(String, String)> {
    // The command `help` has no page.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = vec![("ferroxfs.md".to_owned(), overview(&command))];
    for below in visible(&command) {
        pages.push((format!("{}.md", below.get_name()), page(below)));
    }
    pages.push((FINDINGS.to_owned(), findings()));
    pages
}

/// Returns the page of the findings: a table of codes for each area of a volume.
fn findings() -> String {
    let mut text = "# Findings\n\n".to_owned();
    text += "A finding of [`ferroxfs check`](check.md) has one of these codes. A code is never \
             renamed.\n\n\
             | severity | meaning | is damage |\n|---|---|---|\n";
    for severity in Severity::ALL {
        let is_damage = if severity.is_damage() { "yes" } else { "no" };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| {severity} | {} | {is_damage} |", severity.meaning());
    }
    for codes in Code::ALL.chunk_by(|a, b| a.area() == b.area()) {
        let Some(area) = codes.first().map(|code| code.area()) else { continue };
        let (effect, repair) = (area.consequence(), area.repair());
        let effect = format!("Damage here means: {effect}. A repair would {repair}.");
        let _ = write!(text, "\n## {}\n\n{}\n\n", area.title(), wrapped(&effect));
        text += "| code | severity | meaning |\n|---|---|---|\n";
        for code in codes {
            let (severity, meaning) = (code.severity(), code.meaning());
            let _ = writeln!(text, "| `{code}` | {severity} | {} |", cell(meaning));
        }
    }
    text
}

/// Returns the page of the program: its commands, and the options that they share.
fn overview(command: &Command) -> String {
    let mut text = "# ferroxfs\n\n".to_owned();
    text += &introduction(command);
    text += "## Commands\n\n| command | effect |\n|---|---|\n";
    for below in visible(command) {
        let name = below.get_name();
        let about = below.get_about().map(ToString::to_string).unwrap_or_default();
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| [{name}]({name}.md) | {} |", cell(&about));
    }
    text.push('\n');
    text += &arguments(command, "##");
    text += &ending("", "##");
    text
}

/// Returns the page of a command. Each of its subcommands is a section of the page.
fn page(command: &Command) -> String {
    let name = command.get_name();
    let mut text = format!("# ferroxfs {name}\n\n");
    text += &introduction(command);
    text += &arguments(command, "##");
    text += &details(command);
    for below in visible(command) {
        let whole = format!("{name} {}", below.get_name());
        let _ = write!(text, "## {whole}\n\n");
        text += &introduction(below);
        text += &positional(below, "###");
        text += &own_options(below, command);
        if let Some(entry) = find(&whole) {
            text += &examples(entry.examples, "###");
        }
    }
    text += &ending(name, "##");
    text
}

/// Returns the synopsis and the description of a command.
fn introduction(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let paragraphs = about.split("\n\n").map(|text| wrapped(&escaped(&sentence(text))));
    let usage: Vec<_> = usage.lines().map(str::trim).collect();
    format!(
        "```text\n{}\n```\n\n{}\n\n",
        usage.join("\n"),
        paragraphs.collect::<Vec<_>>().join("\n\n")
    )
}

/// Returns the tables of arguments and options, a table for each heading.
fn arguments(command: &Command, level: &str) -> String {
    let mut text = positional(command, level);
    let options: Vec<_> = options(command).collect();
    let mut headings: Vec<&str> = Vec::new();
    for heading in options.iter().map(|option| heading(option)) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // The command's own options come first.
    headings.sort_by_key(|heading| *heading != OPTIONS);
    for wanted in headings {
        let _ = write!(text, "{level} {wanted}\n\n| option | meaning |\n|---|---|\n");
        for option in options.iter().filter(|option| heading(option) == wanted) {
            text += &row(option);
        }
        text.push('\n');
    }
    text
}

/// Returns the table of the options of a subcommand, without those of the command above it.
fn own_options(command: &Command, above: &Command) -> String {
    let shared: BTreeSet<String> = options(above).map(row).collect();
    let own: String = options(command).map(row).filter(|row| !shared.contains(row)).collect();
    match own.as_str() {
        "" => String::new(),
        rows => format!("### Own options\n\n| option | meaning |\n|---|---|\n{rows}\n"),
    }
}

fn positional(command: &Command, level: &str) -> String {
    let mut shown = command.get_positionals().filter(|arg| !arg.is_hide_set()).peekable();
    if shown.peek().is_none() {
        return String::new();
    }
    let rows: String = shown.map(row).collect();
    format!("{level} Arguments\n\n| argument | meaning |\n|---|---|\n{rows}\n")
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_hide_set())
}

fn heading(option: &Arg) -> &str {
    option.get_help_heading().unwrap_or(OPTIONS)
}

/// Returns an argument as it is typed: `-o, --output <FILE>` or `<IMAGE>`.
fn typed(arg: &Arg) -> String {
    let names = arg.to_string();
    match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {names}"),
        // clap repeats the name of an argument that is needed twice: `<FILE> <FILE>...`.
        _ => match names.strip_suffix("...").and_then(|twice| twice.split_once(' ')) {
            Some((first, second)) if first == second => format!("{first}..."),
            _ => names,
        },
    }
}

/// Returns the line of an argument in its table: names, meaning, unit, default and possible values.
fn row(arg: &Arg) -> String {
    let names = typed(arg);
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut meaning = cell(&sentence(&help.map(ToString::to_string).unwrap_or_default()));
    // A flag has the default `false` and a name of its value, and takes neither.
    let takes_values = arg.get_action().takes_values();
    let is_size = takes_values
        && arg.get_value_names().is_some_and(|names| names.iter().any(|name| name == SIZE));
    if is_size && !meaning.contains("suffix") {
        meaning += " The suffixes k, m, g, t are units of 1024.";
    }
    let values = arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
    for value in values.filter(|_| takes_values && !arg.is_hide_possible_values_set()) {
        let _ = write!(meaning, "<br>`{}`", value.get_name());
        if let Some(help) = value.get_help() {
            let _ = write!(meaning, ": {}", cell(&sentence(&help.to_string())));
        }
    }
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_values && !defaults.is_empty() && !arg.is_hide_default_value_set() {
        let _ = write!(meaning, "<br>Default: `{}`.", defaults.join(","));
    }
    format!("| `{}` | {} |\n", names.replace('|', "\\|"), meaning)
}

/// Returns the text that the help of a command has after its options.
fn details(command: &Command) -> String {
    let Some(text) = command.get_after_help() else { return String::new() };
    format!("## Details\n\n```text\n{}\n```\n\n", text.to_string().trim_end())
}

/// Returns the sections that end a page: examples, exit status and related programs.
fn ending(name: &str, level: &str) -> String {
    let Some(entry) = find(name) else { return String::new() };
    let mut text = examples(entry.examples, level);
    let _ = write!(text, "{level} Exit status\n\n| code | meaning |\n|---|---|\n");
    for (code, meaning) in exit_codes(name) {
        let _ = writeln!(text, "| {code} | {} |", cell(meaning));
    }
    text += "\n[Exit codes](../exit-codes.md) has the details.\n\n";
    let _ = write!(text, "{level} See also\n\n{}\n", wrapped(&see_also(entry)));
    text
}

fn examples(examples: &[Example], level: &str) -> String {
    let mut text = format!("{level} Examples\n\n");
    for (line, meaning) in examples {
        let _ =
            write!(text, "{}:\n\n```text\n{line}\n```\n\n", wrapped(&escaped(&capital(meaning))));
    }
    text
}

/// Returns the related programs. Those of ferroxfs are links to their pages.
fn see_also(entry: &ManualEntry) -> String {
    let links: Vec<_> = entry.see_also.iter().map(|page| link(page)).collect();
    links.join(", ") + "."
}

/// Returns a link to the page `page` if it is that of a ferroxfs command. Returns the name of any
/// other page unchanged.
fn link(page: &str) -> String {
    let own = page.strip_prefix("ferroxfs").and_then(|rest| rest.strip_suffix("(1)"));
    match own {
        Some("") => "[`ferroxfs`](ferroxfs.md)".to_owned(),
        Some(name) => {
            let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
            // The page of a subcommand is a section of the page of its command.
            let file = words.first().copied().unwrap_or("ferroxfs");
            let section =
                if words.len() > 1 { format!("#{}", words.join("-")) } else { String::new() };
            format!("[`ferroxfs {}`]({file}.md{section})", words.join(" "))
        }
        None => page.to_owned(),
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| !below.is_hide_set())
}

/// Ends each paragraph of a help text with a full stop, if the paragraph has none.
fn sentence(text: &str) -> String {
    let ended = |text: &str| {
        let text = text.trim();
        let is_ended = text.is_empty() || text.ends_with(['.', '?', '!', ':']);
        if is_ended { text.to_owned() } else { format!("{text}.") }
    };
    text.split("\n\n").map(ended).collect::<Vec<_>>().join("\n\n")
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Converts a text to a table cell in Markdown, on one line.
fn cell(text: &str) -> String {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let paragraphs: Vec<_> = text.split("\n\n").map(|text| escaped(&words(text))).collect();
    paragraphs.join("<br>").replace('|', "\\|")
}

/// Escapes the characters that Markdown would read as markup, except in code.
fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut is_code = false;
    for letter in text.chars() {
        is_code ^= letter == '`';
        match letter {
            '<' if !is_code => result.push_str("&lt;"),
            '*' | '[' | ']' if !is_code => result.extend(['\\', letter]),
            _ => result.push(letter),
        }
    }
    result
}

/// Breaks a paragraph into lines of at most [`COLUMNS`] columns.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
