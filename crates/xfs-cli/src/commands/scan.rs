//! `scan`: the inventory of volumes, row by row.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xfs_scan::{
    AccountBy, Field, Fields, Format, Header, Output, OutputFile, ScanError, ScanOptions,
    ScanReport, ScanSource, Spill, scan,
};

use super::Run;
use crate::cli::{GlobalOptions, ScanArguments, ScanFormat, ScanKey};
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::image::Image;
use crate::interrupt::interrupt;
use crate::output::{check_no_image, parent};
use crate::progress::Progress;
use crate::sandbox::{Reach, Rights};
use crate::standard_output::StandardOutput;
use crate::time::Clock;

struct Scan {
    images: Vec<Image>,
    output: Option<(PathBuf, OutputFile)>,
    /// Where the output gets its name when it is whole.
    output_directory: Option<File>,
    format: Format,
    options: ScanOptions,
    /// Nanoseconds since 1970.
    began: i64,
}

/// Opens the images and the output.
pub(super) fn open(
    arguments: &ScanArguments,
    options: &GlobalOptions,
) -> Result<Box<dyn Run>, Failure> {
    let mut scan_options = scan_options(arguments)?;
    let images = arguments.images.iter().map(|path| Image::open(path, options));
    let images = images.collect::<Result<Vec<_>, _>>()?;
    let format = match arguments.format {
        Some(format) => to_format(format),
        None if arguments.output.is_none() && io::stdout().is_terminal() => Format::Table,
        None => Format::Ndjson,
    };
    if format == Format::Table && arguments.fields.is_empty() {
        scan_options.fields = Fields::for_table();
    }
    if format == Format::Parquet && arguments.output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::usage("scan: Parquet is not for a terminal")
            .hint("say where it goes with -o FILE"));
    }
    let output = match &arguments.output {
        None => None,
        Some(path) => {
            let read = arguments.images.iter().chain(&options.log_device);
            check_no_image(path, read.map(PathBuf::as_path))?;
            let file = OutputFile::create(path)
                .map_err(|error| Failure::host(path.as_os_str(), &error))?;
            Some((path.clone(), file))
        }
    };
    let output_directory = arguments.output.as_deref().map(open_parent).transpose()?;
    let began = i64::try_from(Clock::open().now().total_nanoseconds()).unwrap_or_default();
    Ok(Box::new(Scan { images, output, output_directory, format, options: scan_options, began }))
}

/// The directory that a file lies in.
fn open_parent(path: &Path) -> Result<File, Failure> {
    let parent = parent(path);
    File::open(parent).map_err(|error| Failure::host(parent.as_os_str(), &error))
}

fn scan_options(arguments: &ScanArguments) -> Result<ScanOptions, Failure> {
    let directory = env::temp_dir();
    // Where it cannot be made, a scan that needs it says so.
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
    options.accounts.extend(arguments.by.map(|key| match key {
        ScanKey::Owner => AccountBy::Owner,
        ScanKey::Project => AccountBy::Project,
        ScanKey::Dir => AccountBy::Directory,
    }));
    Ok(options)
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
        match &self.output_directory {
            Some(directory) => Reach::Beneath(directory.as_fd(), Rights::Names),
            None => Reach::Nothing,
        }
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { images, output, format, mut options, began, .. } = *self;
        // Here, so that its thread is inside as well.
        options.cancel = Some(interrupt()?);
        let mut sources = Vec::new();
        for image in &images {
            let volume = image.volume(console)?;
            let volume = volume.inner();
            sources.push(ScanSource::new(Arc::clone(volume.cache()), volume.superblock()));
        }
        let progress = Arc::new(progress(&options, output.as_ref()));
        let shown = Arc::clone(&progress);
        options.progress = Some(Arc::new(move |progress: xfs_scan::Progress| {
            shown.set(progress.inodes_read, progress.inodes_total);
        }));
        let report = run(&sources, &options, (format, began), output.as_ref());
        progress.end();
        let report = report?;
        if let Some((path, file)) = output {
            file.commit().map_err(|error| Failure::host(path.as_os_str(), &error))?;
        }
        if let Some(summary) = &report.summary {
            write!(console.out(), "{summary}")?;
        }
        if report.findings > 0 {
            let message = format!(
                "{} finding{}: what could not be read is missing from the rows",
                report.findings,
                if report.findings == 1 { "" } else { "s" }
            );
            console.report(&Failure::new(Exit::Failed, message));
        }
        Ok(())
    }
}

fn run(
    sources: &[ScanSource],
    options: &ScanOptions,
    (format, began): (Format, i64),
    output: Option<&(PathBuf, OutputFile)>,
) -> Result<ScanReport, Failure> {
    if options.summary {
        return scan(sources, options, None).map_err(|error| failure(error, None));
    }
    let path = output.map(|(path, _)| path);
    let writer: Box<dyn Write + Send> = match output {
        None => Box::new(StandardOutput::open()),
        Some((path, file)) => {
            let file = file.writer().map_err(|error| Failure::host(path.as_os_str(), &error))?;
            Box::new(file)
        }
    };
    let header = Header { scan_time: began };
    Output::begin(format, options.fields, header, writer)
        .and_then(|output| scan(sources, options, Some(output)))
        .map_err(|error| failure(error, path))
}

fn failure(error: ScanError, path: Option<&PathBuf>) -> Failure {
    match (error, path) {
        (ScanError::Output(error), None) => Failure::from(error),
        (ScanError::Output(error), Some(path)) => Failure::host(path.as_os_str(), &error),
        (error @ ScanError::MemoryTooSmall { .. }, _) => Failure::usage(format!("scan: {error}")),
        (error, _) => Failure::new(Exit::Failed, format!("scan: {error}")),
    }
}

/// How many inodes have been read.
fn progress(options: &ScanOptions, output: Option<&(PathBuf, OutputFile)>) -> Progress {
    // Rows go to standard output while it is shown, a report does when it is not any more.
    let has_rows = output.is_none() && !options.summary;
    match has_rows && io::stdout().is_terminal() {
        true => Progress::hidden(),
        false => {
            Progress::new("{wide_bar} {human_pos}/{human_len} inodes, {whole_per_sec}, {eta} left")
        }
    }
}
