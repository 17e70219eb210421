//! `scan --dataset`: a directory of Parquet files, on this host or on a server, to which each run
//! adds scans.
//!
//! ```text
//!  DIR/inodes/scan_date=2026-11-30/volume_uuid=…/part-00000.parquet    the rows of the inodes
//!  DIR/scans/scan_date=2026-11-30/volume_uuid=…/part-00000.parquet     one row about the scan
//!  DIR/.staging/…                                                     files of running scans
//! ```
//!
//! Owns: the layout, and the order in which files appear. Does **not** own: the step in which a
//! file appears ([`place`]), and the rows. A process of this program scans each image, in its
//! sandbox, into a staging directory. This process reads no image. It moves the complete files to
//! their places.
//!
//! # Invariants
//!
//! - A file appears when it is complete and durable, and replaces the earlier one of the same
//!   volume and date in one step. A run that ends early changes nothing, or publishes whole files.
//! - The rows of the inodes appear before the row about their scan. So a scan with a row is
//!   complete.
//! - A run removes only its own directory below `.staging`, and those that no process has locked.
//! - A process that scans ends with the process that started it, even if that one is killed. So no
//!   process writes into a directory that another run removes.

mod place;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use serde_json::Value;
use xfs_scan::ScanRecord;

use crate::cli::{ScanArguments, ScanFormat};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::json::Object;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::names;
use crate::terminal::plural;
use place::{PART, Place};

const FACTS: &str = "facts.ndjson";
/// The time between two looks at a process that scans.
const PAUSE: Duration = Duration::from_millis(20);

/// A run that adds scans to a dataset.
pub(super) struct Dataset {
    place: Place,
    date: Date,
    images: Vec<PathBuf>,
}

/// Returns the arguments of the scan of one image into a staging directory, if this process was
/// started for that (`--dataset-part`). From here on, this process ends with the one that started
/// it.
pub(super) fn part(arguments: &ScanArguments) -> Result<Option<ScanArguments>, Failure> {
    let Some(words) = &arguments.dataset_part else { return Ok(None) };
    let wrong = || Failure::usage("scan: --dataset-part is not NUMBER:PARENT=DIR");
    let (number, directory) = words.split_once('=').ok_or_else(wrong)?;
    let (number, parent) = number.split_once(':').ok_or_else(wrong)?;
    let number: usize = number.parse().map_err(|_| wrong())?;
    let image = arguments.images.get(number).ok_or_else(wrong)?;
    end_with(parent.parse().map_err(|_| wrong())?)?;
    let directory = Path::new(directory);
    Ok(Some(ScanArguments {
        images: vec![image.clone()],
        output: Some(directory.join(PART)),
        facts: Some(directory.join(FACTS)),
        format: Some(ScanFormat::Parquet),
        dataset: None,
        is_part: true,
        ..arguments.clone()
    }))
}

/// Lets the kernel kill this process when its parent ends, which is the process with this number.
fn end_with(parent: i32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Failure::new(Exit::Failed, format!("scan: prctl: {error}")))?;
    // The parent may have ended before the call.
    match getppid().map(Pid::as_raw_pid) {
        Some(number) if number == parent => Ok(()),
        _ => Err(Failure::new(Exit::Failed, "scan: the process that started this one has ended")),
    }
}

impl Dataset {
    /// Prepares the place of the dataset.
    pub(super) fn open(arguments: &ScanArguments, place: &Path) -> Result<Self, Failure> {
        let place = Place::open(place)?;
        interrupt::arm()?;
        let today = || Timestamp::now().to_zoned(TimeZone::UTC).date();
        Ok(Self {
            place,
            date: arguments.scan_date.unwrap_or_else(today),
            images: arguments.images.clone(),
        })
    }

    /// Scans the image with this number into a staging directory, and publishes the files.
    fn add(
        &self,
        number: usize,
        image: &Path,
        seen: &mut BTreeMap<String, PathBuf>,
    ) -> Result<Added, Failure> {
        let staging = self.place.staging()?;
        let began = now();
        let exit = scan(number, image, staging.path())?;
        let facts = Facts::read(&staging.path().join(FACTS)).map_err(|error| match exit {
            // The process that scans has reported the reason.
            Exit::Fine => error,
            exit => Failure::silent(exit),
        })?;
        if let Some(first) = seen.insert(facts.uuid.clone(), image.to_owned()) {
            let first = names::in_message(first.as_os_str().as_encoded_bytes()).into_owned();
            let message = format!("{}: the same volume as {first}, by its UUID", shown(image));
            return Err(Failure::new(Exit::Refused, message).hint(
                "the second scan would replace the first; `ferroxfs admin` gives a new UUID",
            ));
        }
        let record = ScanRecord {
            volume_label: facts.label.clone(),
            image: image.to_string_lossy().into_owned(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            began,
            ended: now(),
            inodes: facts.inodes,
            errors: facts.errors,
            missing_inodes: facts.missing_inodes,
            log: facts.log.clone(),
            schema_version: xfs_scan::SCHEMA_VERSION,
            program_version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let row = staging.path().join("scan.parquet");
        let mut file = BufWriter::new(File::create(&row).map_err(failed(&row))?);
        record
            .write(&mut file)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", shown(&row))))?;
        file.flush().map_err(failed(&row))?;
        let inodes = self.publish(&staging.path().join(PART), "inodes", &facts.uuid)?;
        // The row comes last: it says that the scan is complete.
        self.publish(&row, "scans", &facts.uuid)?;
        staging.close()?;
        Ok(Added { facts, path: inodes, exit })
    }

    /// Lets a complete file appear in a table. Returns its path or address.
    fn publish(&self, file: &Path, table: &str, uuid: &str) -> Result<PathBuf, Failure> {
        let date = self.date;
        self.place.publish(file, &format!("{table}/scan_date={date}/volume_uuid={uuid}"))
    }
}

/// A scan that was added to the dataset.
struct Added {
    facts: Facts,
    /// The file of the inodes, or its address.
    path: PathBuf,
    exit: Exit,
}

impl Run for Dataset {
    /// Returns the rights that the command keeps: all of them. It reads no image, but starts the
    /// processes that read them.
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let (mut seen, mut volumes) = (BTreeMap::new(), Vec::new());
        for (number, image) in self.images.iter().enumerate() {
            interrupt::check()?;
            match self.add(number, image, &mut seen) {
                Ok(Added { facts, path, exit }) => {
                    if console.is_json() {
                        volumes.push(facts.object(image, &path));
                    } else if !console.is_quiet() {
                        let inodes = plural::counted(facts.inodes, "inode");
                        writeln!(console.out(), "{}: {inodes}, {}", shown(image), shown(&path))?;
                    }
                    if exit != Exit::Fine {
                        // The process that scans has named the findings.
                        console.report(&Failure::silent(exit));
                    }
                }
                Err(failure) => console.report(&failure),
            }
        }
        interrupt::check()?;
        if console.is_json() {
            let mut object = Object::new();
            object.insert("scan_date".to_owned(), self.date.to_string().into());
            object.insert("volumes".to_owned(), volumes.into());
            console.conclude_with(object)?;
        }
        Ok(())
    }
}

/// Runs a process that scans `image`, the image with this number, into a staging directory. Returns
/// its exit.
fn scan(number: usize, image: &Path, staging: &Path) -> Result<Exit, Failure> {
    let failed = |error: io::Error| Failure::new(Exit::Failed, format!("scan: {error}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(arguments_of_part(std::env::args_os().skip(1), number, staging));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if let Err(stopped) = interrupt::check() {
            end(&mut child);
            return Err(stopped);
        }
        thread::sleep(PAUSE);
    };
    match status.signal() {
        Some(signal) => {
            let message = format!("{}: the scan was ended by signal {signal}", shown(image));
            Err(Failure::new(Exit::Failed, message))
        }
        None => Ok(status.code().and_then(Exit::of_code).unwrap_or(Exit::Failed)),
    }
}

/// Ends a process. It has no name but in its staging directory, which the caller removes.
fn end(child: &mut Child) {
    // It may have ended by itself, or by the same signal.
    _ = child.kill();
    _ = child.wait();
}

/// Returns the arguments of this process with the option for one part, before the first `--`.
fn arguments_of_part(
    own: impl Iterator<Item = OsString>,
    number: usize,
    staging: &Path,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = own.collect();
    let end = arguments.iter().position(|word| word == OsStr::new("--"));
    let mut option = OsString::from(format!("--dataset-part={number}:{}=", std::process::id()));
    option.push(staging);
    arguments.insert(end.unwrap_or(arguments.len()), option);
    arguments
}

/// The facts of the scan of one volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Facts {
    uuid: String,
    label: String,
    log: String,
    inodes: u64,
    errors: u64,
    missing_inodes: u64,
}

impl Facts {
    /// Reads the facts of a scan of one volume.
    fn read(path: &Path) -> Result<Self, Failure> {
        let file = BufReader::new(File::open(path).map_err(failed(path))?);
        let mut facts = Self::default();
        let mut is_complete = false;
        for line in file.lines() {
            let line = line.map_err(failed(path))?;
            let row: Value = serde_json::from_str(&line)
                .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", shown(path))))?;
            is_complete |= facts.add(&row);
        }
        match is_complete && !facts.uuid.is_empty() {
            true => Ok(facts),
            false => Err(Failure::new(Exit::Failed, format!("{}: no complete scan", shown(path)))),
        }
    }

    /// Adds a row. Returns whether it is the last one of a complete scan.
    fn add(&mut self, row: &Value) -> bool {
        let text = |key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let number = |key: &str| row.get(key).and_then(Value::as_u64);
        match row.get("row").and_then(Value::as_str) {
            Some("volume") => {
                self.uuid = text("volume_uuid");
                self.label = text("volume_label");
                self.log = text("log");
                false
            }
            Some("end") => {
                let counts = (number("inodes"), number("errors"), number("missing_inodes"));
                let (Some(inodes), Some(errors), Some(missing_inodes)) = counts else {
                    return false;
                };
                (self.inodes, self.errors, self.missing_inodes) = (inodes, errors, missing_inodes);
                true
            }
            _ => false,
        }
    }

    /// Returns the JSON object about the scan of `image`, whose rows are in `path`.
    fn object(&self, image: &Path, path: &Path) -> Object {
        let mut object = Object::new();
        let mut name = |key: &str, path: &Path| {
            crate::json::insert_name(&mut object, key, path.as_os_str().as_encoded_bytes());
        };
        name("image", image);
        name("path", path);
        object.insert("volume_uuid".to_owned(), self.uuid.clone().into());
        object.insert("inodes".to_owned(), self.inodes.into());
        object.insert("errors".to_owned(), self.errors.into());
        object.insert("missing_inodes".to_owned(), self.missing_inodes.into());
        object
    }
}

fn now() -> i64 {
    // Until the year 2262.
    i64::try_from(Timestamp::now().as_nanosecond()).unwrap_or(i64::MAX)
}

fn shown(path: &Path) -> String {
    names::in_message(path.as_os_str().as_encoded_bytes()).into_owned()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Failure + '_ {
    move |error| Failure::host(path.as_os_str(), &error)
}

#[cfg(test)]
mod tests;
