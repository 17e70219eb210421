//! Checks that every command has examples, and that every example is a valid command line.

use clap::{Command, CommandFactory};

use super::{EXAMPLES, find, pages, with_manual};
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
        // These words are for the shell.
        let own = line.split(' ').take_while(|word| !["|", ">", "<"].contains(word));
        let own: Vec<_> = own.skip_while(|word| word.contains('=')).collect();
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
