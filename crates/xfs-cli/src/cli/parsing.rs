//! Parsing of the command line, and the shared options of each command.
//!
//! Owns: the table [`COMMANDS`]. The help of a command does not show the shared options that are
//! useless for this command. Most commands get the option `--json` from this module. All others
//! declare `--json` with their other arguments, or have no such option. Does **not** own: the
//! message for an option that a command does not support.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, Error, FromArgMatches};

use super::{Cli, with_manual};

/// The shared options that a group of commands hides, and where these commands declare `--json`.
struct SharedOptions {
    commands: &'static [&'static str],
    /// Ids of the shared options that are useless for these commands.
    hidden: &'static [&'static str],
    json: Json,
}

/// Where `--json` of a command is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Json {
    /// This module declares `--json`. With it, the command reports the result of its work as a JSON
    /// document.
    Result,
    /// This module declares no `--json` for the command. The command declares the option with its
    /// other arguments, or has no such option.
    Own,
}

const COMMANDS: &[SharedOptions] = &[
    SharedOptions {
        commands: &[
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
        hidden: &["live", "no_recovery", "object_cache", "log_requests"],
        json: Json::Result,
    },
    SharedOptions { commands: &["get", "cp", "tar"], hidden: &[], json: Json::Result },
    SharedOptions { commands: &["salvage"], hidden: &["image"], json: Json::Result },
    // They change the volume and address no file in it.
    SharedOptions {
        commands: &["growfs", "shrink", "zap"],
        hidden: &["live", "no_recovery", "image", "object_cache", "log_requests"],
        json: Json::Result,
    },
    SharedOptions {
        commands: &["fstrim", "recover", "repair"],
        hidden: &["live", "no_recovery", "image", "object_cache", "log_requests"],
        json: Json::Own,
    },
    // It needs the changes in the log.
    SharedOptions {
        commands: &["check"],
        hidden: &["live", "no_recovery", "image"],
        json: Json::Own,
    },
    // They always read the volume without replaying the log.
    SharedOptions {
        commands: &["label", "uuid"],
        hidden: &["no_recovery", "image"],
        json: Json::Result,
    },
    SharedOptions {
        commands: &["info", "dump", "log"],
        hidden: &["no_recovery", "image"],
        json: Json::Own,
    },
    SharedOptions { commands: &["quota"], hidden: &[], json: Json::Own },
    SharedOptions { commands: &["scan"], hidden: &["image"], json: Json::Result },
    // Its output has formats of its own.
    SharedOptions { commands: &["diff"], hidden: &["image"], json: Json::Own },
    SharedOptions {
        commands: &["mkfs"],
        hidden: &[
            "offset",
            "logical_volume",
            "member",
            "live",
            "no_recovery",
            "image",
            "object_cache",
            "log_requests",
        ],
        json: Json::Own,
    },
    // The recipe names all of them.
    SharedOptions { commands: &["build"], hidden: OF_RECIPES, json: Json::Own },
    SharedOptions { commands: &["mount"], hidden: &["live", "image"], json: Json::Result },
    // Its output is that of the program that it runs.
    SharedOptions { commands: &["run"], hidden: &["live", "image"], json: Json::Own },
    SharedOptions {
        commands: &["serve"],
        hidden: &["live", "image", "sandbox"],
        json: Json::Result,
    },
    SharedOptions { commands: &["umount", "stats"], hidden: OF_IMAGES, json: Json::Result },
    SharedOptions {
        commands: &["mounts", "completions", "man"],
        hidden: OF_IMAGES,
        json: Json::Own,
    },
    // Its own option `--json` names a file.
    #[cfg(feature = "bench")]
    SharedOptions { commands: &["bench"], hidden: OF_IMAGES, json: Json::Own },
];

/// The ids of the shared options that are of use only to commands that open an image.
const OF_IMAGES: &[&str] = &[
    "partition",
    "offset",
    "logical_volume",
    "member",
    "live",
    "no_recovery",
    "log_device",
    "realtime_device",
    "image",
    "object_cache",
    "log_requests",
    "sandbox",
];

/// The ids of the shared options that a recipe has instead of the command line.
const OF_RECIPES: &[&str] = &[
    "partition",
    "offset",
    "logical_volume",
    "member",
    "live",
    "no_recovery",
    "log_device",
    "realtime_device",
    "image",
    "object_cache",
    "log_requests",
];

/// The id of the option `--json`, here and in [`JsonOption`](super::options::JsonOption).
const JSON: &str = "json";

/// Parses the command line. A request for help or for the version is also returned as an error,
/// which has the text to print.
pub(crate) fn parse(words: Vec<OsString>) -> Result<Cli, Error> {
    let mut command = with_manual(with_shared_options(Cli::command()));
    let matches = command.try_get_matches_from_mut(with_help_of_help(words))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    Ok(Cli { json: is_json_asked(&matches), ..cli })
}

/// Returns the word of a command line that names the command: the first word that is neither an
/// option nor the value of an option. The command line may be invalid. `None`: there is no such
/// word.
pub(crate) fn command_word(words: &[OsString]) -> Option<&OsString> {
    let command = Cli::command();
    let takes_value = |word: &OsString| {
        command.get_arguments().any(|option| {
            let names = option.get_long().map(|long| format!("--{long}"));
            let is_named = names.is_some_and(|name| *word == *name)
                || option.get_short().is_some_and(|short| *word == *format!("-{short}"));
            is_named && option.get_action().takes_values()
        })
    };
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        if !word.as_encoded_bytes().starts_with(b"-") {
            return Some(word);
        }
        if takes_value(word) {
            words.next();
        }
    }
    None
}

/// Turns `help --help` into `help help`, because the arguments of the command `help` are names of
/// commands.
fn with_help_of_help(mut words: Vec<OsString>) -> Vec<OsString> {
    if let [_, command, option] = words.as_mut_slice()
        && command == "help"
        && (option == "--help" || option == "-h")
    {
        *option = "help".into();
    }
    words
}

/// Hides the shared options that are useless for a command. Adds `--json` to the commands that the
/// table marks with `Json::Result`.
pub(crate) fn with_shared_options(mut command: Command) -> Command {
    let shared: Vec<_> = command.get_arguments().cloned().collect();
    for SharedOptions { commands, hidden, json } in COMMANDS {
        for name in *commands {
            command = command.mut_subcommand(name, |command| {
                let command = match json {
                    Json::Result => command.arg(json_option()),
                    Json::Own => command,
                };
                let hidden = shared.iter().filter(|arg| hidden.contains(&arg.get_id().as_str()));
                hidden.fold(command, hide)
            });
        }
    }
    command
}

fn json_option() -> Arg {
    Arg::new(JSON)
        .long(JSON)
        .action(ArgAction::SetTrue)
        .help("Print the result as one JSON document, with \"schema_version\"")
        .help_heading("Output options")
}

/// Hides a shared option in the help of a command, unless the command declares an option of the
/// same id.
fn hide(command: Command, shared: &Arg) -> Command {
    let is_own = command.get_arguments().any(|own| own.get_id() == shared.get_id());
    if is_own { command } else { command.arg(shared.clone().hide(true)) }
}

/// Returns whether the command line gives the flag `--json`. The option `--json` of `bench` takes a
/// file name, so it is not a flag and does not count.
fn is_json_asked(matches: &ArgMatches) -> bool {
    let Some((_, command)) = matches.subcommand() else { return false };
    matches!(command.try_get_one::<bool>(JSON), Ok(Some(true)))
}

#[cfg(test)]
mod tests;
