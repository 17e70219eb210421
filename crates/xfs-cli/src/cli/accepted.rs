//! Which of the options that all commands share a command has a use for: its help shows no others.
//!
//! Does **not** own what a command says to one that it does not take.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory, Error, FromArgMatches};

use super::{Cli, json, with_manual};

/// Commands, and the options of all that they have no use for.
const UNUSED: &[(&[&str], &[&str])] = &[
    (
        &[
            "put",
            "edit",
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
        ],
        &["live", "no_recovery"],
    ),
    // About the volume, and no place in it.
    (&["fstrim", "growfs", "recover"], &["live", "no_recovery", "image"]),
    // They show it as it stands.
    (&["label", "uuid", "info", "dump", "log"], &["no_recovery", "image"]),
    (&["scan"], &["image"]),
    (&["mkfs"], &["partition", "offset", "live", "no_recovery", "image"]),
    (&["mount"], &["live", "image"]),
    (
        &["umount", "mounts", "stats", "bench", "completions", "man"],
        &["partition", "offset", "live", "no_recovery", "log_device", "image", "sandbox"],
    ),
];

/// Reads the command line; the error is also what is printed where that is all that is asked for.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, Error> {
    let mut command = with_manual(hide_unused(Cli::command()));
    let matches = command.try_get_matches_from_mut(with_help_of_help(words))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok(Cli { json: json::is_asked(&matches), ..cli })
}

/// The command `help` knows commands only, and takes an option for one.
fn with_help_of_help(mut words: Vec<OsString>) -> Vec<OsString> {
    if let [_, command, option] = words.as_mut_slice()
        && command == "help"
        && (option == "--help" || option == "-h")
    {
        *option = "help".into();
    }
    words
}

/// The command line, each command of which shows what it has a use for, with `--json` where it has a result.
pub(crate) fn hide_unused(command: Command) -> Command {
    let mut command = json::add_option(command);
    let shared: Vec<_> = command.get_arguments().cloned().collect();
    for (names, unused) in UNUSED {
        let hidden = shared.iter().filter(|option| unused.contains(&option.get_id().as_str()));
        for name in *names {
            command = command.mut_subcommand(name, |command| {
                // A command that has an argument of this name by itself does not get that of all.
                let has = |command: &Command, option: &Arg| {
                    command.get_arguments().any(|own| own.get_id() == option.get_id())
                };
                hidden.clone().fold(command, |command, option| match has(&command, option) {
                    true => command,
                    false => command.arg(option.clone().hide(true)),
                })
            });
        }
    }
    command
}
