//! `metadump`: writes the metadata of a volume to a file.

use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use xfs_device::MetadumpVersion;
use xfs_metadump::{DumpError, DumpOptions, DumpProgress, DumpReport};

use crate::cli::{GlobalOptions, MetadumpArguments, MetadumpFormat};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::interrupt;
use crate::json::Object;
use crate::output::{Output, check_no_image, unless_stdout};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::standard_output::StandardOutput;
use crate::terminal::tally::{Tally, Work};
use crate::volume::occupied::check_dump_output;

struct Metadump {
    image: Image,
    arguments: MetadumpArguments,
    output: Option<Output>,
}

/// Opens the image and the output, and returns the command, ready to run.
pub(crate) fn open(
    arguments: MetadumpArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let image = Image::open_for_dump(&arguments.image, options)?;
    let output = match unless_stdout(Some(arguments.output.clone())) {
        None if io::stdout().is_terminal() => {
            return Err(Failure::usage("a metadata image cannot be written to a terminal")
                .hint("name a file, or use a pipe"));
        }
        None if arguments.json.json => {
            return Err(Failure::usage(
                "metadump: --json needs a file, because the image goes to standard output",
            ));
        }
        None => None,
        Some(path) => Some(open_output(&path, &image, arguments.force)?),
    };
    interrupt::arm()?;
    Ok(Box::new(Metadump { image, arguments, output }))
}

fn open_output(path: &Path, image: &Image, overwrites: bool) -> Result<Output, Failure> {
    let source = image.path();
    check_no_image(path, [source])?;
    if !overwrites {
        check_dump_output(source, path, !image.device().holds_file_contents())?;
    }
    Output::open(path, [source])
}

/// The progress bar of a dump. It also stops the dump after a signal.
struct Bar<'a>(&'a Tally);

impl DumpProgress for Bar<'_> {
    fn advance(&self, done: u64, total: u64) {
        self.0.set(done, total);
    }

    fn is_stopped(&self) -> bool {
        interrupt::check().is_err()
    }
}

impl Run for Metadump {
    fn reach(&self) -> Reach<'_> {
        self.output.as_ref().map_or(Reach::Nothing, Output::reach)
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { image, arguments, output } = *self;
        image.note_torn_log(console);
        let tally = console.begin(Work::dump());
        let options = options(&arguments);
        let report = match &output {
            None => write(&image, options, &tally, &mut StandardOutput::open())?,
            Some(output) => write(&image, options, &tally, &mut output.buffered()?)?,
        };
        if let Some(output) = output {
            output.commit()?;
        }
        note(&image, &arguments, &report, console);
        console.conclude_with(facts(&report))?;
        Ok(())
    }
}

fn options(arguments: &MetadumpArguments) -> DumpOptions {
    DumpOptions {
        version: match arguments.format {
            MetadumpFormat::One => MetadumpVersion::One,
            MetadumpFormat::Two => MetadumpVersion::Two,
        },
        obfuscates: !arguments.no_obfuscate,
        whole_blocks: arguments.all_blocks,
        keeps_dirty_log: arguments.keep_dirty_log,
        max_extent_blocks: arguments.max_extent,
    }
}

fn write(
    image: &Image,
    options: DumpOptions,
    tally: &Tally,
    out: &mut dyn Write,
) -> Result<DumpReport, Failure> {
    xfs_metadump::dump(image.device(), options, &Bar(tally), out).map_err(|error| match error {
        DumpError::Stopped => interrupt::check()
            .err()
            .unwrap_or_else(|| Failure::new(Exit::Failed, error.to_string())),
        DumpError::Output(source) => Failure::from(source),
        DumpError::DirtyLog => image.failure(Failure::new(Exit::LogDirty, error.to_string()).hint(
            "keep the names (--no-obfuscate), accept readable names in the log \
             (--keep-dirty-log), or replay the log first (ferroxfs recover IMAGE)",
        )),
        DumpError::UnknownLog(_) => {
            image.failure(Failure::new(Exit::LogDirty, error.to_string()).hint(
                "keep the names (--no-obfuscate), or accept readable names in the log \
                 (--keep-dirty-log)",
            ))
        }
        DumpError::NoSuperblock(_) => image.failure(Failure::new(Exit::Corrupt, error.to_string())),
        error => image.failure(Failure::new(Exit::Refused, error.to_string())),
    })
}

/// Reports damaged and missing structures. Also notes that names are readable if the log was dirty,
/// because a dirty log is copied without obfuscation.
fn note(image: &Image, arguments: &MetadumpArguments, report: &DumpReport, console: &mut Console) {
    let shown = names::in_message(image.path().as_os_str().as_bytes()).into_owned();
    if report.has_dirty_log && !arguments.no_obfuscate {
        console.note(format!("{shown}: the log was copied as it is, with readable names"));
    }
    if report.omission_count == 0 {
        return;
    }
    if arguments.warnings {
        for omission in &report.omissions {
            console.note(format!("{shown}: {omission}"));
        }
    }
    let listed = report.omissions.len() as u64;
    let count = report.omission_count;
    let message = match count {
        1 => "1 structure is damaged or left out".to_owned(),
        count => format!("{count} structures are damaged or left out"),
    };
    let failure = image.failure(Failure::new(Exit::Corrupt, message));
    console.report(&match arguments.warnings {
        true if listed < count => failure.more(&format!("; the first {listed} are listed")),
        true => failure,
        false => failure.hint("--warnings lists them"),
    });
}

fn facts(report: &DumpReport) -> Object {
    let mut object = Object::new();
    object.insert("bytes".to_owned(), report.written_bytes.into());
    object.insert("inodes".to_owned(), report.inodes.into());
    object.insert("damaged".to_owned(), report.omission_count.into());
    object.insert("has_dirty_log".to_owned(), report.has_dirty_log.into());
    object
}
