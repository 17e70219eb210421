//! `man`: writes the man pages, one for each command.

use std::fs;
use std::path::PathBuf;

use clap::CommandFactory;

use crate::cli::{
    Cli, ManArguments, ManFormat, pages, reference, with_manual, with_shared_options,
};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::write_file;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;

struct Man {
    directory: PathBuf,
    format: ManFormat,
}

/// Creates the directory for the man pages.
pub(crate) fn open(arguments: &ManArguments) -> Result<Box<dyn Run>, Failure> {
    interrupt::arm()?;
    let directory = arguments.directory.clone();
    fs::create_dir_all(&directory).map_err(|error| Failure::host(directory.as_os_str(), &error))?;
    Ok(Box::new(Man { directory, format: arguments.format }))
}

impl Run for Man {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, _console: &mut Console) -> Result<(), Failure> {
        let failed = |error| Failure::host(self.directory.as_os_str(), &error);
        let command =
            with_manual(with_shared_options(Cli::command().disable_help_subcommand(true)));
        let pages = match self.format {
            ManFormat::Roff => pages(command).map_err(failed)?,
            ManFormat::Markdown => {
                let pages = reference(command).into_iter();
                pages.map(|(name, page)| (name, page.into_bytes())).collect()
            }
        };
        for (name, page) in pages {
            interrupt::check()?;
            write_file(&self.directory.join(name), &page)?;
        }
        Ok(())
    }
}
