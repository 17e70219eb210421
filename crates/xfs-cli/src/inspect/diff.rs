//! `diff`: shows the changes between two states of a volume.
//!
//! Owns: opening the states, and the exit codes of diff(1). Does **not** own: the comparison
//! ([`xfs_scan::diff`]).

mod contents;

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use xfs_device::Contents;
use xfs_scan::{
    ContentsReader, DiffError, DiffFormat, DiffInput, DiffOptions, DiffReport, DiffWriter,
    ScanError, ScanFile, ScanSource, Spill, State, diff,
};

use crate::cli::{DiffArguments, DiffFormatName, GlobalOptions};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::{Image, ImageVolume};
use crate::interrupt;
use crate::output::{Output, unless_stdout};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::escaping::EscapedOutput;
use crate::terminal::{names, plural};
use contents::ContentsPair;

struct Diff {
    states: [OpenState; 2],
    output: Option<Output>,
    format: DiffFormat,
    options: DiffOptions,
    compares_contents: bool,
}

/// One side of the comparison. Its file is open, but has not been read yet.
enum OpenState {
    Image(Box<Image>),
    Scan(PathBuf, File),
}

impl OpenState {
    fn open(path: &Path, options: &GlobalOptions) -> Result<Self, Failure> {
        match open_scan(path) {
            Some(file) => Ok(Self::Scan(path.to_owned(), file)),
            None => Image::open(path, options).map(|image| Self::Image(Box::new(image))).map_err(
                |failure| match failure.exit() {
                    _ if failure.message().ends_with(Contents::Unknown.name()) => failure.hint(
                        "diff takes an image or the Parquet file of a scan \
                         (ferroxfs scan -o FILE.parquet IMAGE)",
                    ),
                    _ => failure,
                },
            ),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Image(image) => image.path(),
            Self::Scan(path, _) => path,
        }
    }
}

/// Opens `path` if it is a regular file that begins as Parquet files do. Returns `None` for any
/// other path, also for one that cannot be opened: the caller opens it as an image, and gets the
/// error.
fn open_scan(path: &Path) -> Option<File> {
    let mut file = File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut first = [0; 4];
    file.read_exact(&mut first).ok()?;
    file.rewind().ok()?;
    ScanFile::is_parquet(&first).then_some(file)
}

/// Opens both states and the output. Returns the command, ready to run.
pub(crate) fn open(
    arguments: &DiffArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let states = [OpenState::open(&arguments.a, options)?, OpenState::open(&arguments.b, options)?];
    let has_scan = states.iter().any(|state| matches!(state, OpenState::Scan(..)));
    if arguments.contents && has_scan {
        return Err(Failure::usage("diff: --contents needs two images")
            .hint("the file of a scan has no contents"));
    }
    let output = unless_stdout(arguments.output.clone());
    let format = match arguments.format {
        Some(format) => to_format(format),
        None => output.as_deref().map_or(DiffFormat::Text, format_of_ending),
    };
    if format == DiffFormat::Parquet && output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("diff: Parquet cannot be written to a terminal")
            .hint("name a file with -o FILE"));
    }
    let read = [arguments.a.as_path(), arguments.b.as_path()];
    let read = read.into_iter().chain(options.other_devices());
    let output = output.map(|path| Output::open(&path, read)).transpose()?;
    let spill = || {
        let directory = env::temp_dir();
        // If the file cannot be created, a scan that needs it reports that.
        Spill::to_file_in(&directory).unwrap_or(Spill::In(directory))
    };
    let options = DiffOptions {
        below_moved: arguments.paths,
        any_volume: arguments.any_volume,
        threads: arguments.threads.unwrap_or(0),
        memory_bytes: arguments.memory.unwrap_or(xfs_scan::DEFAULT_MEMORY_BYTES),
        spill: [spill(), spill()],
        cancel: None,
    };
    let compares_contents = arguments.contents;
    Ok(Box::new(Diff { states, output, format, options, compares_contents }))
}

fn to_format(format: DiffFormatName) -> DiffFormat {
    match format {
        DiffFormatName::Text => DiffFormat::Text,
        DiffFormatName::Ndjson => DiffFormat::Ndjson,
        DiffFormatName::Json => DiffFormat::Json,
        DiffFormatName::Parquet => DiffFormat::Parquet,
    }
}

/// Returns the format that the ending of an output file's name stands for, and text for any other
/// ending.
fn format_of_ending(path: &Path) -> DiffFormat {
    match path.extension().and_then(OsStr::to_str) {
        Some("parquet") => DiffFormat::Parquet,
        Some("json") => DiffFormat::Json,
        Some("ndjson") => DiffFormat::Ndjson,
        _ => DiffFormat::Text,
    }
}

/// Converts the exit code of a comparison to that of diff(1): a difference is 1, and a failure
/// without a code of its own 2.
pub(crate) fn code_of(exit: Exit) -> u8 {
    match exit {
        Exit::Different => 1,
        Exit::Failed => 2,
        exit => exit as u8,
    }
}

impl Run for Diff {
    fn reach(&self) -> Reach<'_> {
        self.output.as_ref().map_or(Reach::Nothing, Output::reach)
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { states, output, format, mut options, compares_contents } = *self;
        let paths = states.each_ref().map(|state| state.path().to_owned());
        options.cancel = Some(interrupt::cancel());
        let mut volumes = Vec::new();
        let mut inputs = Vec::new();
        for (state, name) in states.into_iter().zip([State::A, State::B]) {
            let (input, volume) = read_state(state, name, &paths, console)?;
            inputs.push(input);
            volumes.extend(volume);
        }
        let failed = |error| failure(error, output.as_ref(), &paths);
        let writer: Box<dyn Write + Send> = match &output {
            Some(output) => Box::new(io::BufWriter::new(output.writer()?)),
            None if format == DiffFormat::Text => Box::new(EscapedOutput::open()),
            None => Box::new(EscapedOutput::for_json()),
        };
        let writer = DiffWriter::begin(format, writer).map_err(|error| failed(error.into()))?;
        let mut pair = match volumes.as_slice() {
            [a, b] if compares_contents => Some(ContentsPair::new(a, b)),
            _ => None,
        };
        let mut compare = pair.as_mut().map(|pair| move |ino| pair.compare(ino));
        let contents = compare.as_mut().map(|compare| compare as &mut ContentsReader<'_>);
        let [a, b] = <[DiffInput; 2]>::try_from(inputs)
            .unwrap_or_else(|_| unreachable!("the two states give two inputs"));
        let step = output.is_some().then(|| console.step("comparing")).flatten();
        let report = diff(a, b, &options, contents, writer).map_err(failed)?;
        drop(step);
        if let Some(output) = output {
            output.commit()?;
        }
        conclude(&report, console);
        Ok(())
    }
}

/// Reads the volume of an image, or the head of the file of a scan.
fn read_state(
    state: OpenState,
    name: State,
    paths: &[PathBuf; 2],
    console: &mut Console,
) -> Result<(DiffInput, Option<ImageVolume>), Failure> {
    match state {
        OpenState::Image(image) => {
            let volume = image.volume(console)?;
            let source = ScanSource::from(volume.inner());
            Ok((DiffInput::Image(Box::new(source)), Some(volume)))
        }
        OpenState::Scan(_, file) => {
            let scan =
                ScanFile::open(file).map_err(|error| failure(error.of_state(name), None, paths))?;
            Ok((DiffInput::Scan(Box::new(scan)), None))
        }
    }
}

/// Sets the exit code. If there are findings, the code is that of the findings and not the code for
/// a difference, because findings make the result doubtful.
fn conclude(report: &DiffReport, console: &mut Console) {
    if report.findings > 0 {
        let message = format!(
            "{}: changes may be missing or wrong",
            plural::counted(report.findings, "finding")
        );
        let exit = if report.corruptions > 0 { Exit::Corrupt } else { Exit::Failed };
        console.report(&Failure::new(exit, message));
    } else if report.total() > 0 {
        console.report(&Failure::silent(Exit::Different));
    }
}

fn failure(error: DiffError, output: Option<&Output>, paths: &[PathBuf; 2]) -> Failure {
    let path = |state: State| match state {
        State::A => paths[0].as_os_str(),
        State::B => paths[1].as_os_str(),
    };
    let placed = |state: State, exit: Exit, message: String| {
        let shown = names::in_message(path(state).as_bytes());
        Failure::new(exit, format!("{shown}: {message}")).placed()
    };
    match error {
        DiffError::Scan(ScanError::Output(error)) => match output {
            Some(output) => output.failure(&error),
            None => Failure::from(error),
        },
        DiffError::Scan(ScanError::Cancelled) => {
            let stopped = interrupt::stopped("diff");
            stopped.unwrap_or_else(|| Failure::new(Exit::Failed, "diff: cancelled"))
        }
        DiffError::Scan(error @ ScanError::MemoryTooSmall { .. }) => {
            Failure::usage(format!("diff: {error}"))
        }
        DiffError::Read { state, error } => Failure::host(path(state), &error),
        error @ DiffError::NotComparable { state, .. } => {
            placed(state, Exit::Refused, error.to_string())
        }
        error @ DiffError::Unordered { state, .. } => {
            placed(state, Exit::Refused, error.to_string())
                .hint("compare the file as scan wrote it")
        }
        error @ DiffError::OtherVolume { .. } => {
            Failure::new(Exit::Refused, format!("diff: {error}"))
                .hint("--any-volume compares a copy that got a new UUID")
        }
        error => Failure::new(Exit::Failed, format!("diff: {error}")),
    }
}
