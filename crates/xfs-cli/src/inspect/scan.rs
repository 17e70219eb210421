//! `scan`: writes the inventory of volumes, row by row.

mod damaged;
mod dataset;
mod hashes;
mod owners;

use std::env;
use std::io::{self, BufWriter, IsTerminal, LineWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfs_scan::{
    AccountBy, FactsFormat, Field, Fields, Format, Hashed, Header, ScanError, ScanOptions,
    ScanReport, ScanSource, Spill, Summary, scan,
};

use crate::cli::{GlobalOptions, ScanArguments, ScanFormat, ScanHash, ScanKey};
use crate::damaged::volume::DamagedImage;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::interrupt;
use crate::json::Object;
use crate::output::{Output, is_same_file, unless_stdout};
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::escaping::EscapedOutput;
use crate::terminal::names;
use crate::terminal::plural;
use crate::terminal::progress::ProgressStderr;
use crate::terminal::tally::{SummaryWhen, Tally, Work};
use crate::text::time::Clock;
use dataset::Dataset;
use hashes::VolumeHasher;
use owners::OwnerTables;

struct Scan {
    images: Images,
    output: Option<Output>,
    facts: Option<Output>,
    format: Format,
    options: ScanOptions,
    /// The time at which the command began, in nanoseconds since 1970.
    began: i64,
    owners: OwnerTables,
    hash: Option<ScanHash>,
}

/// The open images, and how they are read: as sound volumes or as damaged ones.
enum Images {
    Sound(Vec<Image>),
    /// Images of damaged volumes (`--damaged`). Everything that is readable is read from them.
    Damaged(Vec<DamagedImage>),
}

impl Images {
    fn open(arguments: &ScanArguments, options: &GlobalOptions) -> Result<Self, Failure> {
        let images = arguments.images.iter();
        if arguments.damaged {
            let images = images.map(|path| DamagedImage::open(path, None, options));
            return Ok(Self::Damaged(images.collect::<Result<_, _>>()?));
        }
        Ok(Self::Sound(images.map(|path| Image::open(path, options)).collect::<Result<_, _>>()?))
    }
}

/// Opens the images, and the outputs for the rows and for the facts about the volumes. Returns the
/// command, ready to run.
pub(crate) fn open(
    arguments: &ScanArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    if let Some(directory) = &arguments.dataset {
        return match dataset::part(arguments)? {
            None => Ok(Box::new(Dataset::open(arguments, directory)?)),
            Some(part) => open(&part, options),
        };
    }
    let mut scan_options = scan_options(arguments)?;
    let images = Images::open(arguments, options)?;
    let output = unless_stdout(arguments.output.clone());
    let format = match arguments.format {
        Some(format) => to_format(format),
        None => match &output {
            // A report has a format of its own.
            Some(_) if arguments.summary => Format::Ndjson,
            Some(path) => format_of_ending(path)?,
            None if io::stdout().is_terminal() => Format::Table,
            None => Format::Ndjson,
        },
    };
    let owners = OwnerTables::open(arguments)?;
    scan_options.fields = owners.select(chosen_fields(arguments, scan_options.fields, format)?)?;
    if format == Format::Parquet && output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("scan: Parquet cannot be written to a terminal")
            .hint("name a file with -o FILE"));
    }
    if arguments.facts.is_some() && !format.has_facts_apart() {
        return Err(Failure::usage("scan: --facts is for CSV and Parquet")
            .hint("the other formats have a line for each fact among their rows"));
    }
    let create = |path: &PathBuf| {
        let read = arguments.images.iter().map(PathBuf::as_path).chain(options.other_devices());
        Output::open(path, read)
    };
    if let (Some(output), Some(facts)) = (&output, &arguments.facts)
        && is_same_file(output, facts)
    {
        return Err(Failure::usage("scan: -o and --facts name one file")
            .hint("the facts need a file of their own"));
    }
    let output = output.as_ref().map(create).transpose()?;
    let is_facts_on_stdout = arguments.facts.as_deref() == Some(Path::new("-"));
    if is_facts_on_stdout && output.is_none() {
        return Err(Failure::usage("scan: rows and facts cannot both be standard output")
            .hint("say where the rows go with -o FILE"));
    }
    let facts = match is_facts_on_stdout {
        true => Some(create(&PathBuf::from("/dev/stdout"))?),
        false => arguments.facts.as_ref().map(create).transpose()?,
    };
    if let (Some(output), Some(facts)) = (&output, &facts)
        && !output.is_beside(facts)
    {
        // Inside the sandbox files can get their names in one directory only.
        return Err(Failure::usage("scan: -o and --facts name files of different directories")
            .hint("name both in one directory, and move one of them later"));
    }
    let began = i64::try_from(Clock::open().now().total_nanoseconds()).unwrap_or_default();
    let options = scan_options;
    Ok(Box::new(Scan {
        images,
        output,
        facts,
        format,
        options,
        began,
        owners,
        hash: arguments.hash,
    }))
}

/// Returns the columns of the rows: the `named` ones, or those of the format if none are named, and
/// the hashes.
fn chosen_fields(
    arguments: &ScanArguments,
    named: Fields,
    format: Format,
) -> Result<Fields, Failure> {
    let mut fields = match (arguments.fields.is_empty(), format) {
        (false, _) => named,
        (true, Format::Table) => Fields::for_table(),
        (true, Format::Parquet) => Fields::for_comparing(),
        (true, Format::Ndjson | Format::Csv) => Fields::default(),
    };
    if arguments.is_part {
        // The directory of the file names the volume.
        fields = fields.without(Field::VolumeUuid);
    }
    match (arguments.hash, fields.contains(Field::Hash)) {
        (Some(_), _) => Ok(fields.with(Field::Hash)),
        (None, false) => Ok(fields),
        (None, true) => {
            Err(Failure::usage("scan: the field hash needs --hash")
                .hint("--hash head, or --hash full"))
        }
    }
}

fn scan_options(arguments: &ScanArguments) -> Result<ScanOptions, Failure> {
    let directory = env::temp_dir();
    // If the file cannot be created, a scan that needs it reports that.
    let spill = Spill::to_file_in(&directory).unwrap_or(Spill::In(directory));
    let mut options = ScanOptions {
        threads: arguments.threads.unwrap_or(0),
        spill,
        summary: arguments.summary,
        ..ScanOptions::default()
    };
    if let Some(bytes) = arguments.memory {
        options.memory_bytes = bytes;
    }
    if !arguments.fields.is_empty() {
        let fields = arguments.fields.iter().map(|name| {
            name.parse::<Field>().map_err(|error| Failure::usage(format!("scan: {error}")))
        });
        options.fields = fields.collect::<Result<Fields, _>>()?;
    }
    if arguments.depth.is_some() && arguments.by != Some(ScanKey::Dir) {
        return Err(Failure::usage("scan: --depth is for --by dir")
            .hint("owners and projects have no depth"));
    }
    options.account_depth = arguments.depth;
    options.accounts.extend(arguments.by.map(|key| match key {
        ScanKey::Owner => AccountBy::Owner,
        ScanKey::Project => AccountBy::Project,
        ScanKey::Dir => AccountBy::Directory,
    }));
    Ok(options)
}

/// Returns the format for the ending of an output file's name. Without an ending, or if the file is
/// not a regular file, the format is NDJSON.
///
/// # Errors
///
/// If the ending is that of no known format.
fn format_of_ending(path: &Path) -> Result<Format, Failure> {
    let is_special = path.metadata().is_ok_and(|metadata| !metadata.is_file());
    let Some(ending) = path.extension().filter(|_| !is_special) else { return Ok(Format::Ndjson) };
    match ending.to_str() {
        Some("csv") => Ok(Format::Csv),
        Some("parquet") => Ok(Format::Parquet),
        Some("ndjson" | "jsonl" | "json") => Ok(Format::Ndjson),
        _ => {
            let ending = names::in_message(ending.as_bytes()).into_owned();
            let message = format!("scan: the ending .{ending} stands for no format");
            Err(Failure::usage(message)
                .hint("the endings are .ndjson, .csv and .parquet; --format names the format"))
        }
    }
}

fn to_format(format: ScanFormat) -> Format {
    match format {
        ScanFormat::Table => Format::Table,
        ScanFormat::Ndjson => Format::Ndjson,
        ScanFormat::Csv => Format::Csv,
        ScanFormat::Parquet => Format::Parquet,
    }
}

impl Run for Scan {
    fn reach(&self) -> Reach<'_> {
        let reaches = self.output.iter().chain(&self.facts).map(Output::reach);
        let mut reaches = reaches.filter(|reach| !matches!(reach, Reach::Nothing));
        reaches.next().unwrap_or(Reach::Nothing)
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { images, output, facts, format, mut options, began, owners, hash } = *self;
        if console.is_json() && output.is_none() && !options.summary {
            return Err(Failure::usage("scan: --json needs -o or --summary")
                .hint("--format ndjson prints rows as JSON"));
        }
        options.cancel = Some(interrupt::cancel());
        let outputs = Outputs { rows: output.as_ref(), facts: facts.as_ref() };
        let row_format = RowFormat { format, began };
        let is_json_file = output.as_ref().is_some_and(|output| output.has_ending("json"));
        let report_form = match console.is_json() || is_json_file {
            true => ReportForm::Json,
            false => ReportForm::Text,
        };
        let mut is_only_doubtful = false;
        let report = match images {
            Images::Sound(images) => {
                let sources = sources(&images, &owners, hash, console)?;
                let tally = begin(&options, output.is_some(), console);
                let counted = Arc::clone(&tally);
                options.progress = Some(Arc::new(move |progress: xfs_scan::Progress| {
                    counted.set(progress.inodes_read, progress.inodes_total);
                }));
                let report = outputs.run(&sources, &options, row_format, console.errors())?;
                tally.set(report.inodes, report.inodes);
                report
            }
            Images::Damaged(images) => {
                let begun = outputs.begin(&options, row_format, console.errors())?;
                let failed = |error| outputs.failure(error);
                let scanned = damaged::scan(images, options.fields, begun, &failed, console)?;
                is_only_doubtful = scanned.is_only_doubtful;
                scanned.report
            }
        };
        if let (Some(output), Some(summary)) = (&output, &report.summary) {
            write_report(output, &report, summary, report_form)?;
        }
        let has_file = output.is_some();
        for output in output.into_iter().chain(facts) {
            output.commit()?;
        }
        conclude(&report, has_file, console)?;
        if report.findings > 0 {
            let findings = plural::counted(report.findings, "finding");
            let message = match is_only_doubtful {
                true => {
                    format!("{findings}: these rows come from damaged structures, and may be wrong")
                }
                false => format!("{findings}: unreadable data is missing from the rows"),
            };
            let exit = if report.corruptions > 0 { Exit::Corrupt } else { Exit::Failed };
            console.report(&Failure::new(exit, message));
        }
        Ok(())
    }
}

/// Opens the volume of each image, and returns the volumes as sources of the scan.
fn sources(
    images: &[Image],
    owners: &OwnerTables,
    hash: Option<ScanHash>,
    console: &mut Console,
) -> Result<Vec<ScanSource>, Failure> {
    let mut sources = Vec::new();
    for image in images {
        let volume = image.volume(console)?;
        let source = ScanSource::from(volume.inner());
        let source = match owners.names(&volume)? {
            Some(names) => source.with_names(names),
            None => source,
        };
        sources.push(match hash {
            None => source,
            Some(kind) => {
                let volume = volume.inner().clone();
                let hashed = match kind {
                    ScanHash::Head => Hashed::Repeated,
                    ScanHash::Full => Hashed::All,
                };
                source.with_hasher(Arc::new(VolumeHasher { volume, kind }), hashed)
            }
        });
    }
    Ok(sources)
}

/// The format of the rows, and the time that their header shows.
#[derive(Clone, Copy)]
struct RowFormat {
    format: Format,
    /// The time at which the scan began, in nanoseconds since 1970. The header of the rows states
    /// it.
    began: i64,
}

/// The output files for the rows and for the facts about the volumes. `None` stands for standard
/// output in `rows`, and for standard error in `facts`.
struct Outputs<'a> {
    rows: Option<&'a Output>,
    facts: Option<&'a Output>,
}

impl Outputs<'_> {
    /// Scans the volumes, and writes the rows and the facts about the volumes to these outputs. If
    /// there is no file for the facts, they go to `errors`.
    fn run(
        &self,
        sources: &[ScanSource],
        options: &ScanOptions,
        row_format: RowFormat,
        errors: ProgressStderr,
    ) -> Result<ScanReport, Failure> {
        if options.summary {
            return scan(sources, options, None).map_err(|error| self.failure(error));
        }
        let output = self.begin(options, row_format, errors)?;
        scan(sources, options, Some(output)).map_err(|error| self.failure(error))
    }

    /// Opens the output of the rows and of the facts about the volumes, and writes its header.
    fn begin(
        &self,
        options: &ScanOptions,
        RowFormat { format, began }: RowFormat,
        errors: ProgressStderr,
    ) -> Result<xfs_scan::Output<'static>, Failure> {
        let rows: Box<dyn Write + Send> = match self.rows {
            None if format == Format::Ndjson => Box::new(EscapedOutput::for_json()),
            None => Box::new(EscapedOutput::open()),
            Some(output) => Box::new(output.writer()?),
        };
        let (facts_format, facts): (_, Box<dyn Write + Send>) = match self.facts {
            None => (FactsFormat::Text, Box::new(LineWriter::new(errors))),
            Some(output) => (FactsFormat::Ndjson, Box::new(BufWriter::new(output.writer()?))),
        };
        xfs_scan::Output::begin(format, options.fields, Header { scan_time: began }, rows)
            .and_then(|output| output.facts_to(facts_format, facts))
            .map_err(|error| self.failure(error))
    }

    fn failure(&self, error: ScanError) -> Failure {
        let host = |output: Option<&Output>, error: io::Error, stream: &str| match output {
            Some(output) => output.failure(&error),
            None => Failure::new(Exit::Failed, format!("{stream}: {error}")),
        };
        match error {
            ScanError::Output(error) if self.rows.is_none() => Failure::from(error),
            ScanError::Output(error) => host(self.rows, error, "standard output"),
            ScanError::Facts(error) => host(self.facts, error, "standard error"),
            ScanError::Cancelled => {
                let output = self.rows.or(self.facts);
                host(output, io::Error::other("cancelled"), "scan")
            }
            error @ ScanError::MemoryTooSmall { .. } => Failure::usage(format!("scan: {error}")),
            error => Failure::new(Exit::Failed, format!("scan: {error}")),
        }
    }
}

/// Begins the work. The progress bar is left out if rows are printed to the terminal during the
/// scan. A report is printed only at the end of the scan, so it does not disturb the bar.
fn begin(options: &ScanOptions, has_file: bool, console: &mut Console) -> Arc<Tally> {
    match (has_file, options.summary) {
        (true, _) => console.begin(Work::scan(SummaryWhen::Always)),
        (false, true) => console.begin(Work::scan(SummaryWhen::Never)),
        (false, false) => console.begin_rows(Work::scan(SummaryWhen::Never)),
    }
}

/// The form of the report of `--summary` in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportForm {
    Text,
    Json,
}

/// Writes the summary of the volumes to a file.
fn write_report(
    output: &Output,
    report: &ScanReport,
    summary: &Summary,
    form: ReportForm,
) -> Result<(), Failure> {
    let mut writer = output.buffered()?;
    let written = match form {
        ReportForm::Text => write!(writer, "{summary}"),
        ReportForm::Json => {
            let mut document = Object::new();
            document.insert("schema_version".to_owned(), crate::json::SCHEMA_VERSION.into());
            document.extend(result(report));
            document.insert("summary".to_owned(), summary.to_json());
            serde_json::to_writer_pretty(&mut writer, &document)
                .map_err(io::Error::from)
                .and_then(|()| writer.write_all(b"\n"))
        }
    };
    written.and_then(|()| writer.flush()).map_err(|error| output.failure(&error))
}

/// Returns the result of the scan as an object with the keys that the JSON document has.
fn result(report: &ScanReport) -> Object {
    let mut object = Object::new();
    object.insert("errors".to_owned(), report.findings.into());
    object.insert("missing_inodes".to_owned(), report.missing_inodes.into());
    object
}

/// Prints the summary of the volumes, unless it is in a file, and the result of the work.
fn conclude(report: &ScanReport, has_file: bool, console: &mut Console) -> io::Result<()> {
    let mut object = result(report);
    if let Some(summary) = report.summary.as_ref().filter(|_| !has_file) {
        match console.is_json() {
            true => _ = object.insert("summary".to_owned(), summary.to_json()),
            false => {
                console.end();
                write!(console.out(), "{summary}")?;
            }
        }
    }
    console.conclude_with(object)
}
