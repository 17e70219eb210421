//! Checks the tables of suggestions against the commands that exist.

use std::collections::HashSet;

use clap::CommandFactory;

use super::{DESTRUCTIVE, WORDS};
use crate::cli::Cli;

#[test]
fn table_of_suggestions_names_commands_that_exist_and_none_that_destroys() {
    let command = Cli::command();
    let known: HashSet<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    let mut words = HashSet::new();
    for (spellings, tip) in WORDS {
        for word in *spellings {
            assert!(words.insert(*word), "{word} is in the table twice");
            assert!(!known.contains(word), "{word} is a command");
        }
        let named = tip.split('\'').filter_map(|part| part.strip_prefix("ferroxfs "));
        for name in named.filter_map(|part| part.split(' ').next()) {
            assert!(known.contains(name) || name == "--version", "{tip}");
            // mkfs refuses to overwrite data, and a rename loses none.
            assert!(["mkfs", "mv"].contains(&name) || !DESTRUCTIVE.contains(&name), "{tip}");
        }
    }
    for word in ["delete", "remove", "del", "erase", "wipe", "unlink", "shred"] {
        assert!(!words.contains(word), "{word}");
    }
}
