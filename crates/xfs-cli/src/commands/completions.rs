//! `completions`: what a shell needs to complete a command line.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use super::Run;
use crate::cli::{Cli, CompletionsArguments, hide_unused};
use crate::console::Console;
use crate::failure::Failure;

struct Completions(Shell);

/// Nothing has to be opened.
pub(super) fn open(arguments: &CompletionsArguments) -> Box<dyn Run> {
    Box::new(Completions(arguments.shell))
}

impl Run for Completions {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.0, &mut hide_unused(Cli::command()), "ferroxfs", &mut script);
        Ok(console.out().write_all(&script)?)
    }
}
