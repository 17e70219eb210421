//! The arguments of the commands for shells and manuals.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

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
}
