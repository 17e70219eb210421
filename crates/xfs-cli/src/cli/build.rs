//! The arguments of `build`.

use std::path::PathBuf;

use clap::Args;

use super::options::JsonOption;

/// Make a volume or a disk as a recipe says
///
/// A recipe is a TOML file with the options of mkfs: a key for each long option, without the
/// dashes, and tables for the options of mkfs.xfs and of disks. Paths are relative to the directory
/// of the recipe. A key that does not exist is refused with its line.
#[derive(Args, Clone, Debug)]
pub(crate) struct BuildArguments {
    /// The recipe
    pub(crate) recipe: PathBuf,
    /// Make this file instead of the output that the recipe names
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing volume or file
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Print the command line of mkfs that makes the same, quoted for a shell, and make nothing
    #[arg(long)]
    pub(crate) print_command: bool,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}
