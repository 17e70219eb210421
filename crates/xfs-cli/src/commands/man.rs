//! `man`: the man pages, one for each command.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use super::Run;
use crate::cli::{Cli, ManArguments, hide_unused};
use crate::console::Console;
use crate::failure::Failure;
use crate::sandbox::Reach;

struct Man(PathBuf);

/// Makes the directory.
pub(super) fn open(arguments: &ManArguments) -> Result<Box<dyn Run>, Failure> {
    let directory = arguments.directory.clone();
    fs::create_dir_all(&directory).map_err(|error| Failure::host(directory.as_os_str(), &error))?;
    Ok(Box::new(Man(directory)))
}

impl Run for Man {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, _console: &mut Console) -> Result<(), Failure> {
        // Help has no page of its own.
        let command = hide_unused(Cli::command().disable_help_subcommand(true));
        clap_mangen::generate_to(command, &self.0)
            .map_err(|error| Failure::host(self.0.as_os_str(), &error))
    }
}
