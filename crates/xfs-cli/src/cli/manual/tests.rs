//! Checks that every command has examples, that every example is a valid command line, and that the
//! reference pages are up to date.

use std::path::Path;

use clap::{Command, CommandFactory};

use super::{EXAMPLES, find, pages, reference, with_manual};
use crate::cli::{Cli, with_shared_options};

fn names(command: &Command, above: &str, names: &mut Vec<String>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let name = format!("{above} {}", below.get_name()).trim_start().to_owned();
        self::names(below, &name, names);
        names.push(name);
    }
}

#[test]
fn every_command_has_examples_and_every_entry_a_command() {
    let mut known = vec![String::new()];
    names(&Cli::command(), "", &mut known);
    for name in &known {
        assert!(find(name).is_some_and(|entry| !entry.examples.is_empty()), "{name}");
        assert!(find(name).is_some_and(|entry| !entry.see_also.is_empty()), "{name}");
    }
    for entry in EXAMPLES {
        assert!(known.iter().any(|name| name == entry.name), "{} is no command", entry.name);
    }
}

/// Splits a command line into words, and removes the single quotes of a shell.
fn unquoted(line: &str) -> Vec<std::ffi::OsString> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words.into_iter().map(Into::into).collect()
}

#[test]
fn every_example_is_a_command_line() {
    for (line, _) in EXAMPLES.iter().flat_map(|entry| entry.examples) {
        // The shell takes pipes, redirections and variables. A pipe may begin with another program.
        let own = line.split(" | ").map(|part| {
            let own = part.split(' ').take_while(|word| ![">", "<"].contains(word));
            own.skip_while(|word| word.contains('=')).collect::<Vec<_>>()
        });
        let own = own.into_iter().find(|words| words.first() == Some(&"ferroxfs"));
        let own = own.unwrap_or_else(|| panic!("{line} does not call the program"));
        let parsed = crate::cli::parse(unquoted(&own.join(" ")));
        let is_answer = parsed.as_ref().is_err_and(|error| !error.use_stderr());
        assert!(parsed.is_ok() || is_answer, "{line}: {}", parsed.unwrap_err());
    }
}

#[test]
fn related_commands_have_pages() {
    let command = with_manual(with_shared_options(Cli::command()));
    let pages: Vec<_> = pages(command).unwrap().into_iter().map(|(name, _)| name).collect();
    for entry in EXAMPLES {
        for page in entry.see_also.iter().filter(|page| page.starts_with("ferroxfs")) {
            let file = page.replace('(', ".").replace(')', "");
            assert!(pages.contains(&file), "{page} of {}", entry.name);
        }
    }
}

/// Checks that the committed reference pages are up to date. They describe a build with the default
/// features, to which `bench` belongs.
#[cfg(feature = "bench")]
#[test]
fn reference_pages_of_the_project_are_those_of_the_definitions() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let pages = reference(with_manual(with_shared_options(Cli::command())));
    let again = "run `cargo xtask reference`";
    for (name, page) in &pages {
        let committed = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(committed == *page, "docs/reference/{name} is out of date: {again}");
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    for file in files {
        let is_page = pages.iter().any(|(name, _)| *name == file.to_string_lossy());
        assert!(is_page, "no command has the page {}: {again}", file.display());
    }
}

/// Returns the reference page of a command.
fn reference_page(name: &str) -> String {
    let pages = reference(with_manual(with_shared_options(Cli::command())));
    pages.into_iter().find(|page| page.0 == name).unwrap().1
}

#[test]
fn reference_page_has_every_section() {
    let mut names = Vec::new();
    for below in Cli::command().get_subcommands().filter(|below| !below.is_hide_set()) {
        names.push(format!("{}.md", below.get_name()));
    }
    assert!(names.len() > 40, "{}", names.len());
    for name in names {
        let page = reference_page(&name);
        let command = name.strip_suffix(".md").unwrap();
        assert!(page.starts_with(&format!("# ferroxfs {command}\n\n```text\nferroxfs {command}")));
        for heading in ["Examples", "Exit status", "See also", "Output options"] {
            assert!(page.contains(&format!("\n## {heading}\n")), "{name} has no {heading}");
        }
    }
}

#[test]
fn reference_page_shows_units_defaults_and_values() {
    let scan = reference_page("scan.md");
    assert!(scan.contains("\n| `--memory <BYTES>` | The limit on memory, by default 1 GiB; "));
    assert!(scan.contains("<br>`parquet`: Apache Parquet, one row for each inode. |\n"));
    let dump = reference_page("dump.md");
    assert!(dump.contains("\n| `[AG]` | The allocation group.<br>Default: `0`. |\n"), "{dump}");
    assert!(dump.contains("\n## dump agf\n"));
    let trim = reference_page("fstrim.md");
    let length =
        "| `-l, --length <BYTES>` | Trim only this many bytes. The suffixes k, m, g, t are";
    assert!(trim.contains(length), "{trim}");
    // A flag takes no size.
    let flag = "| `-b, --bytes` | Show sizes in bytes instead of units of 1024; unlike in du(1), \
                this does not imply --apparent-size. |";
    assert!(reference_page("du.md").contains(flag));
    assert!(reference_page("cp.md").contains("\n| `<ADDRESS>...` | The files or directories, "));
    let find = reference_page("find.md");
    assert!(find.contains("\n| `[ADDRESS... [EXPRESSION]]...` | The tops of the searches, "));
    // A hidden option is not shown, nor a hidden command.
    assert!(!reference_page("rm.md").contains("--live"));
    assert!(!reference_page("mount.md").contains("--background"));
    assert!(!reference_page("ferroxfs.md").contains("complete.md"));
}

/// Checks that each argument or option that takes a value names the value and has a help text.
#[test]
fn option_with_a_value_names_and_explains_it() {
    fn check(command: &Command, count: &mut usize) {
        for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{} of {}", arg.get_id(), command.get_name());
            *count += 1;
        }
        command.get_subcommands().for_each(|below| check(below, count));
    }
    let mut count = 0;
    check(&Cli::command(), &mut count);
    assert!(count > 100, "{count}");
}
