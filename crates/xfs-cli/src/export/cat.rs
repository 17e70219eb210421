//! `cat`: prints the contents of files.

use crate::cli::{CatArguments, GlobalOptions};
use crate::failure::Failure;
use crate::image::{ImagePath, ImagePaths};
use crate::run::Run;
use crate::terminal::console::Console;
use crate::terminal::escaping::TerminalWrite;
use crate::terminal::tally::{Measure, Tally, Work};

/// The size of one read, in bytes.
const CHUNK_BYTES: usize = 1 << 20;

struct Cat(ImagePaths);

/// Opens the images, and returns the command, ready to run.
pub(crate) fn open(
    arguments: &CatArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    Ok(Box::new(Cat(ImagePaths::open(&arguments.addresses, options)?)))
}

impl Run for Cat {
    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let targets = self.0.read(console);
        let measure = Measure::of_files(&targets);
        let tally = console.begin_rows(Work::bytes("copying", "copied", measure));
        for target in targets {
            copy_to(&target, &tally, console)?;
        }
        console.end();
        Ok(())
    }
}

/// Writes the contents of one file to standard output. A failure to read the file is reported.
pub(crate) fn copy_to(
    target: &ImagePath,
    tally: &Tally,
    console: &mut Console,
) -> Result<(), Failure> {
    let file = match target.open() {
        Ok(file) => file,
        Err(failure) => {
            console.report(&failure);
            return Ok(());
        }
    };
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut offset = 0;
    loop {
        match file.read_at(&mut buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                console.out().raw().write_all(buffer.get(..read).unwrap_or_default())?;
                offset += read as u64;
                tally.add_bytes(read as u64);
            }
            Err(error) => {
                console.report(&target.failure(error));
                return Ok(());
            }
        }
    }
}
