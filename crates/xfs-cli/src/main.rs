//! The `ferroxfs` command line.
//!
//! Thin: everything that it knows of XFS it asks of the library.

mod acl;
mod address;
mod allocator;
mod archive;
mod cli;
mod colour;
mod commands;
mod console;
mod decompress;
mod deposit;
mod descent;
mod dump;
mod exit;
mod extract;
mod facts;
mod failure;
mod glob;
mod helper;
mod host;
mod image;
mod input;
mod intake;
mod interrupt;
mod json;
mod mode;
mod names;
mod node;
mod output;
mod owners;
mod pattern;
mod predicate;
mod process;
mod progress;
mod prototype;
mod sandbox;
mod screen;
mod size;
mod source;
mod standard_output;
mod system_log;
mod tally;
mod terminal;
mod time;
mod trace;
mod unarchive;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::console::Console;
use crate::failure::Failure;

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    let cli = match cli::parse(helper::arguments(std::env::args_os())) {
        Ok(cli) => cli,
        Err(answer) => return console::answer(answer).into(),
    };
    let mut console = Console::open(cli.global.color).speaking(cli.speech());
    if let Err(failure) = run(cli, &mut console) {
        console.report(&failure);
    }
    let exit = console.close();
    interrupt::end(exit);
    exit.into()
}

fn run(cli: Cli, console: &mut Console) -> Result<(), Failure> {
    let when = cli.global.sandbox;
    let command = commands::open(cli)?;
    sandbox::enter(&command.reach(), when)?;
    interrupt::watch()?;
    command.run(console)
}
