//! The arguments of the commands for shells and manuals.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Print the completions of a shell
#[derive(Args, Debug)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Print the possible paths for the last word of a command line, for completions
#[derive(Args, Debug)]
pub(crate) struct CompleteArguments {
    /// The words after the name of the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<OsString>,
}

/// Write the man pages into a directory
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// The directory
    pub(crate) directory: PathBuf,
    /// The format of the pages
    #[arg(long, value_enum, default_value_t = ManFormat::Roff)]
    pub(crate) format: ManFormat,
}

/// The format of the man pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManFormat {
    /// Pages for man(1), one for each command and subcommand.
    Roff,
    /// Pages for a site, one for each command.
    Markdown,
}
