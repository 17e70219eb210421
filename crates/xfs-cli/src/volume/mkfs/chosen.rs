//! The size of a volume that was chosen to fit its files, from run to run: a size that was too
//! small is followed by a larger one.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xfs_mkfs::{Options, TargetDevice};

use super::asked::{SECTOR_BYTES, asked_bytes};
use super::fill::ReportCount;
use super::free_space::FreeSpace;
use super::options::read_options;
use super::sizing::Sizing;
use super::{minimize, sizing};
use crate::cli::{GlobalOptions, MkfsArguments};
use crate::failure::Failure;
use crate::import::origin::{is_named_pipe, is_standard_input};
use crate::input::{self, Spool};
use crate::terminal::names;
use crate::text::size;

/// The size of a volume that was chosen to fit its files.
#[derive(Clone, Default)]
pub(super) struct ChosenSize {
    pub(super) bytes: u64,
    /// Standard input, if it is a source. It is read twice.
    pub(super) standard_input: Option<Arc<Spool>>,
    /// How often the size was too small.
    retries: u32,
    pub(super) reported: ReportCount,
}

impl ChosenSize {
    /// Returns the next size to try after this one was too small; `None` if there were too many.
    pub(super) fn larger(self, arguments: &MkfsArguments) -> Option<Self> {
        let bytes = match arguments.minimize {
            true => minimize::larger(self.bytes, self.retries)?,
            false => sizing::larger(self.bytes, self.retries)?,
        };
        Some(Self { bytes, retries: self.retries + 1, ..self })
    }
}

/// Chooses the size of the data so that the volume holds the files of the sources and has `free`
/// space left.
pub(super) fn choose_size(
    arguments: &MkfsArguments,
    options: &Options,
    path: &Path,
    free: FreeSpace,
) -> Result<ChosenSize, Failure> {
    if let Some(pipe) = arguments.from.iter().find(|from| is_named_pipe(from)) {
        let name = names::in_message(pipe.as_os_str().as_bytes());
        let message = format!("{name}: a named pipe can be read only once, not also for its size");
        return Err(Failure::usage(message).hint("give it as standard input: --from -"));
    }
    let reads_input = arguments.from.iter().any(|from| is_standard_input(from));
    let standard_input = match reads_input {
        true => Some(Arc::new(input::standard_input()?)),
        false => None,
    };
    let sizing = Sizing {
        arguments,
        options,
        path,
        target: TargetDevice {
            data_bytes: 0,
            sector_size: SECTOR_BYTES,
            log_bytes: options
                .log
                .device
                .as_ref()
                .and_then(|_| asked_bytes(options, options.log.size)),
            realtime_bytes: None,
        },
        standard_input: standard_input.clone(),
    };
    let bytes = match arguments.minimize {
        true => sizing.smallest_bytes(free)?,
        false => sizing.bytes(free)?,
    };
    Ok(ChosenSize { bytes, standard_input, ..ChosenSize::default() })
}

/// Returns whether a source is a pipe, which can be read once.
pub(super) fn reads_pipe(arguments: &MkfsArguments) -> bool {
    arguments.from.iter().any(|from| is_standard_input(from) || is_named_pipe(from))
}

/// Adds to a failure for lack of space the size of a volume that holds all files, if the sources
/// can be read once more.
pub(super) fn with_needed_size(
    failure: Failure,
    arguments: &MkfsArguments,
    global: &GlobalOptions,
) -> Failure {
    if reads_pipe(arguments) {
        return failure;
    }
    let needed = read_options(arguments, global).and_then(|(options, _)| {
        choose_size(arguments, &options, &std::env::temp_dir(), FreeSpace::Bytes(0))
    });
    match needed {
        Ok(ChosenSize { bytes, .. }) => failure.more(&format!(
            "; all files need a volume of about {}, which {} makes",
            size::human(bytes),
            if arguments.minimize { "--minimize without -d size=" } else { "-d size=auto" }
        )),
        // The failure itself is what the user needs to know.
        Err(_) => failure,
    }
}
