//! `get`: copies the contents of one file to standard output or into a file of the host.

use super::cat;
use crate::cli::{GetArguments, GlobalOptions};
use crate::failure::Failure;
use crate::image::ImagePaths;
use crate::output::{Output, unless_stdout};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::tally::{Measure, Work};

struct Get {
    targets: ImagePaths,
    output: Option<Output>,
}

/// Opens the image and the output, and returns the command, ready to run.
pub(crate) fn open(
    arguments: GetArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let GetArguments { address, output } = arguments;
    let targets = ImagePaths::open(&[address], options)?;
    let output = unless_stdout(output);
    let output = output.map(|path| Output::open(&path, targets.files())).transpose()?;
    Ok(Box::new(Get { targets, output }))
}

impl Run for Get {
    fn reach(&self) -> Reach<'_> {
        self.output.as_ref().map_or(Reach::Nothing, Output::reach)
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { targets, output } = *self;
        if console.is_json() && output.is_none() {
            return Err(Failure::usage(
                "get: --json needs -o, because contents go to standard output",
            ));
        }
        let targets = targets.read(console);
        let work = Work::bytes("copying", "copied", Measure::of_files(&targets));
        let tally = match &output {
            None => console.begin_rows(work),
            Some(_) => console.begin(work),
        };
        let Some(target) = targets.first() else { return Ok(console.conclude()?) };
        match output {
            None => cat::copy_to(target, &tally, console)?,
            Some(output) => output.write_contents(target, &tally)?,
        }
        Ok(console.conclude()?)
    }
}
