//! The commands, and the two steps in which each of them runs.
//!
//! First [`open`] opens everything that the command needs: images, devices, output files, tables of
//! the host. Then the command runs on what is open, and opens nothing more. Between the two is the
//! place where a process gives up its rights before it looks at the first byte of an image.

mod cat;
mod completions;
mod cp;
mod du;
mod dump;
mod extents;
mod find;
mod getfattr;
mod info;
mod log;
mod ls;
mod man;
mod mkfs;
mod parents;
mod readlink;
mod recover;
mod scan;
mod stat;
mod tar;
mod tree;

use crate::cli::{Cli, Command};
use crate::console::Console;
use crate::failure::Failure;

/// A command with everything open.
pub(crate) trait Run {
    /// Does the work.
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure>;
}

/// Opens what the command line names.
pub(crate) fn open(cli: Cli) -> Result<Box<dyn Run>, Failure> {
    let options = &cli.global;
    match cli.command {
        Command::Info(arguments) => info::open(arguments, options),
        Command::Extents(arguments) => extents::open(arguments, options),
        Command::Ls(arguments) => ls::open(arguments, options),
        Command::Tree(arguments) => tree::open(arguments, options),
        Command::Stat(arguments) => stat::open(arguments, options),
        Command::Cat(arguments) => cat::open(&arguments, options),
        Command::Readlink(arguments) => readlink::open(&arguments, options),
        Command::Getfattr(arguments) => getfattr::open(arguments, options),
        Command::Find(arguments) => find::open(&arguments, options),
        Command::Du(arguments) => du::open(arguments, options),
        Command::Parents(arguments) => parents::open(&arguments, options),
        Command::Cp(arguments) => cp::open(&arguments, options),
        Command::Tar(arguments) => tar::open(&arguments, options),
        Command::Completions(arguments) => Ok(completions::open(&arguments)),
        Command::Man(arguments) => man::open(&arguments),
        Command::Dump(arguments) => dump::open(&arguments, options),
        Command::Scan(arguments) => scan::open(&arguments, options),
        Command::Log(arguments) => log::open(&arguments, options),
        Command::Recover(arguments) => recover::open(&arguments, options),
        Command::Mkfs(arguments) => mkfs::open(*arguments, options),
    }
}
