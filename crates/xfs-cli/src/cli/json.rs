//! Which commands print their result as JSON.
//!
//! Owns: the option `--json` of commands that change something and whose result is what they count. Commands that
//! print facts have the option among their own arguments.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// Commands that get the option here.
const COUNTING: &[&str] = &[
    "put",
    "edit",
    "get",
    "cp",
    "tar",
    "import",
    "mkdir",
    "rm",
    "mv",
    "ln",
    "chmod",
    "chown",
    "touch",
    "truncate",
    "fallocate",
    "setfacl",
    "setfattr",
    "label",
    "uuid",
    "growfs",
    "mount",
    "umount",
    "stats",
    "scan",
];

/// The id of the option, here and in [`JsonOption`](super::JsonOption).
const JSON: &str = "json";

/// Gives the option to the commands that count.
pub(super) fn add_option(mut command: Command) -> Command {
    for name in COUNTING {
        let option = Arg::new(JSON)
            .long(JSON)
            .action(ArgAction::SetTrue)
            .help("Print the result as one JSON document, with \"schema_version\"")
            .help_heading("Output options");
        command = command.mut_subcommand(name, |command| command.arg(option));
    }
    command
}

/// Whether the command was asked for JSON. The option of `bench` is another one: it names a file.
pub(super) fn is_asked(matches: &ArgMatches) -> bool {
    let Some((_, command)) = matches.subcommand() else { return false };
    matches!(command.try_get_one::<bool>(JSON), Ok(Some(true)))
}

#[cfg(test)]
mod tests;
