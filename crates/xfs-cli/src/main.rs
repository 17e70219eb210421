//! The `ferroxfs` command line.
//!
//! The program is thin: it parses arguments, calls the library and prints the results. It makes no
//! decision about the disk format.
//!
//! # Map
//!
//! The command NAME is the file `NAME.rs` in one of the folders below. Its arguments are in `cli/`,
//! in a file named after the folder or after the command. `commands.rs` opens the files of the
//! command, and [`run::Run`] runs it.
//!
//! ```text
//! inspect/   check info ls tree stat readlink getfacl getfattr find du extents parents dump log
//!            scan diff
//!            predicate: the expressions of find; structures: printing of disk structures
//! export/    cat get cp tar salvage
//!            host: writing files to the host; tar/writer: writing an archive
//! import/    import put, and cp into an image
//!            sources: all sources of a run; origin: one of them, which is host, archive (tar,
//!            cpio, composefs, decompress), container or prototype; policy: which files are copied,
//!            and what they get; census: the space that they need; unpack, writer: writing files
//!            into the image; beneath: files below a directory, by untrusted paths
//! edit/      edit mkdir rm mv ln chmod chown touch truncate fallocate setfacl setfattr
//!            walk: a walk of a tree that changes during the walk
//! volume/    mkfs build growfs shrink label uuid fstrim zap recover repair metadump mdrestore
//! quota/     quota: report check set project
//! mount/     mount run umount mounts stats serve
//!            background: the start of the serving process; users: processes that use a mount;
//!            serve: the serving process; helper: calls by mount(8); predecessor: the last server
//! shell/     complete completions man
//! bench.rs   bench (feature `bench`)
//!
//! cli            arguments, help, manual pages, suggestions for mistyped commands
//! image          opening images; addresses IMAGE:/path; errors of the library
//! damaged        volumes that are read in spite of damage: opening, survey, what is not whole
//! file           facts of a file; the trait Source of files to copy
//! input, output  standard input; files of the host that a command writes
//! terminal       standard output and error: escaping, names, colours, progress, summaries
//! text           sizes, times, modes, owners, access control lists and patterns as text
//! json           JSON documents
//! failure, exit  error messages with hints; exit codes
//! interrupt      signals that stop a run
//! sandbox        the rights that a command gives up before it reads an image
//! allocator      the memory allocator
//! ```

// The functions of the C library, where it is musl.
extern crate xfs_memcpy as _;

mod allocator;
#[cfg(feature = "bench")]
mod bench;
mod cli;
mod commands;
mod damaged;
mod edit;
mod exit;
mod export;
mod failure;
mod file;
mod image;
mod import;
mod input;
mod inspect;
mod interrupt;
mod json;
mod mount;
mod output;
mod quota;
mod run;
mod sandbox;
mod shell;
mod terminal;
mod text;
mod volume;

use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::image::requests::Requests;
use crate::inspect::{diff, fsck};
use crate::mount::run::program;
use crate::terminal::console::{self, Console};

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    allocator::allow_huge_pages(false);
    let arguments = fsck::arguments(mount::helper::arguments(std::env::args_os()));
    let mut cli = match cli::parse(arguments.clone()) {
        Ok(cli) => cli,
        Err(answer) if fsck::names_command_of_fsck(&arguments) => {
            return fsck::code_of(console::answer(answer)).into();
        }
        Err(answer) if program::names_run(&arguments) => {
            return program::code_of(console::answer(answer));
        }
        Err(answer) => return console::answer(answer).into(),
    };
    if uses_huge_pages(&cli.command) {
        allocator::allow_huge_pages(true);
    }
    cli.global.requests = Requests::new(&cli.global);
    let is_diff = matches!(cli.command, Command::Diff(_));
    let is_run = matches!(cli.command, Command::Run(_));
    let has_fsck_codes = fsck::has_codes_of_fsck(&cli.command);
    let mut console = Console::open(cli.global.color).with_verbosity(cli.verbosity());
    if let Err(failure) = run(cli, &mut console) {
        console.report(&failure);
    }
    let exit = console.close();
    if has_fsck_codes {
        return fsck::code_of(exit).into();
    }
    if is_run {
        return program::code_of(exit);
    }
    interrupt::end(exit);
    if is_diff {
        return diff::code_of(exit).into();
    }
    exit.into()
}

/// Returns whether a command is faster with huge pages, or starts a program that chooses for
/// itself. Other commands are as fast without them, and take a fifth to a half less memory.
fn uses_huge_pages(command: &Command) -> bool {
    matches!(
        command,
        Command::Bench(_)
            | Command::Edit(_)
            | Command::Mount(_)
            | Command::Run(_)
            | Command::Scan(_)
            | Command::Serve(_)
    )
}

fn run(cli: Cli, console: &mut Console) -> Result<(), Failure> {
    let (when, requests) = (cli.global.sandbox, cli.global.requests.clone());
    let done = commands::open(cli).and_then(|command| {
        sandbox::enter(&command.reach(), when, &requests.ports())?;
        interrupt::watch()?;
        command.run(console)
    });
    requests.conclude(console);
    done
}
