use std::collections::BTreeMap;

use clap::{ArgAction, CommandFactory};

use crate::cli::{Cli, with_shared_options};

/// The page of the manual whose table lists the commands.
const PAGE: &str = include_str!("../../../../../docs/command-line.md");

/// Commands without the flag `--json`. In `bench` the option takes a file name, and `diff` has
/// `--format json`; the output of the other commands is contents, paths, scripts, pages, or that of
/// a program.
const WITHOUT: [&str; 7] = ["bench", "cat", "complete", "completions", "diff", "man", "run"];

/// Returns the name of each command, and whether the command has the flag `--json`.
fn commands() -> BTreeMap<String, bool> {
    let command = with_shared_options(Cli::command());
    let commands = command.get_subcommands().map(|command| {
        let mut options = command.get_arguments();
        let has_flag = options.any(|option| {
            option.get_id() == super::JSON && matches!(option.get_action(), ArgAction::SetTrue)
        });
        (command.get_name().to_owned(), has_flag)
    });
    commands.collect()
}

#[test]
fn command_prints_json_or_is_listed_as_one_that_does_not() {
    for (name, has_flag) in commands() {
        assert_ne!(has_flag, WITHOUT.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn page_lists_each_command_with_what_it_prints() {
    // The page describes a program with all features.
    let is_built = |name: &str| cfg!(feature = "bench") || name != "bench";
    let rows = PAGE.lines().skip_while(|line| !line.starts_with("| command | `--json`"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let mut listed = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, names, has_flag, ..] = cells.as_slice() else { panic!("{row}") };
        for name in names.split(", ") {
            let name = name.trim_matches('`').to_owned();
            if is_built(&name) {
                assert_eq!(listed.insert(name, *has_flag == "yes"), None, "{row}");
            }
        }
    }
    assert_eq!(listed, commands());
}
