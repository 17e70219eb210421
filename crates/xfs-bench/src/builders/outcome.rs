//! The cost of a run, the image that it made, and the table.

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ring::digest::{Context, SHA256};
use rustix::fs::SeekFrom as HoleSeek;
use wait4::Wait4;

use super::contenders::{Contender, Programs};
use super::sources::Workload;
use crate::error::BenchError;

/// The exit status of timeout(1) for a program that it has stopped.
const STOPPED: i32 = 124;
/// The image is hashed in pieces of this size. Pieces of zeros are left out, so holes and written
/// zeros are the same.
const PIECE_BYTES: usize = 64 << 10;
const SHOWN_ERROR_BYTES: usize = 200;

/// The cost of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunCost {
    wall: Duration,
    /// User and system time of the processes. It lacks the work of the kernel's own threads.
    processor: Duration,
    /// Peak memory of the largest process, in bytes.
    peak_bytes: u64,
}

/// The result of one run.
pub(super) struct Report {
    cost: RunCost,
    apparent_bytes: u64,
    allocated_bytes: u64,
    digest: String,
    /// The result of xfs_repair, and the number of names in the volume.
    checked: Option<String>,
}

/// Runs a command to its end. Returns its cost, or the last line of its errors.
pub(super) fn measure(mut command: Command, scratch: &Path) -> Result<RunCost, String> {
    let text = |error: io::Error| error.to_string();
    let mut errors = tempfile::tempfile_in(scratch).map_err(text)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(text)?);
    let began = Instant::now();
    let child = command.spawn().map_err(text)?;
    let usage = child.wait4().map_err(text)?;
    let wall = began.elapsed();
    if usage.status.code() == Some(STOPPED) {
        return Err("stopped at the limit of time".to_owned());
    }
    if !usage.status.success() {
        let mut said = Vec::new();
        errors.seek(SeekFrom::Start(0)).map_err(text)?;
        errors.read_to_end(&mut said).map_err(text)?;
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        let last: String = last.chars().take(SHOWN_ERROR_BYTES).collect();
        return Err(format!("{}: {last}", usage.status));
    }
    let processor = usage.rusage.utime + usage.rusage.stime;
    Ok(RunCost { wall, processor, peak_bytes: usage.rusage.maxrss })
}

impl Report {
    /// Looks at the image that a run has made.
    pub(super) fn of_image(cost: RunCost, image: &Path) -> Result<Self, BenchError> {
        let metadata = image.metadata().map_err(BenchError::file(image))?;
        let digest = digest_of_contents(image).map_err(BenchError::file(image))?;
        Ok(Self {
            cost,
            apparent_bytes: metadata.len(),
            allocated_bytes: metadata.blocks() * 512,
            digest,
            checked: None,
        })
    }

    /// Checks an XFS image with xfs_repair, and counts its names with ferroxfs.
    pub(super) fn check(&mut self, programs: &Programs, image: &Path) -> Result<(), BenchError> {
        let quiet = |command: &mut Command| {
            let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
            output.map_err(BenchError::file(image))
        };
        let repaired = quiet(programs.repair().args(["-n", "-f"]).arg(image))?;
        let verdict = match repaired.status.success() {
            true => "clean",
            false => "xfs_repair -n reports damage",
        };
        let mut root = image.as_os_str().to_owned();
        root.push(":/");
        let found = quiet(Command::new(programs.ferroxfs()).arg("find").arg(root).arg("-print0"))?;
        // The root has no name.
        let names = found.stdout.iter().filter(|byte| **byte == 0).count().saturating_sub(1);
        self.checked = Some(format!("{verdict}, {names} names"));
        Ok(())
    }
}

/// Returns a digest of the contents of a file: of each piece that is not all zeros, with its place.
fn digest_of_contents(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut context = Context::new(&SHA256);
    context.update(&length.to_be_bytes());
    let mut piece = vec![0; PIECE_BYTES];
    let step = u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX);
    let mut at = 0;
    while at < length {
        // A filesystem without holes reports none, and the data goes to the end.
        let Ok(data) = rustix::fs::seek(&file, HoleSeek::Data(at)) else { break };
        at = data / step * step;
        let end = rustix::fs::seek(&file, HoleSeek::Hole(data))?;
        while at < end {
            let bytes = usize::try_from((length - at).min(step)).unwrap_or(PIECE_BYTES);
            let Some(piece) = piece.get_mut(..bytes) else { break };
            file.read_exact_at(piece, at)?;
            if piece.iter().any(|byte| *byte != 0) {
                context.update(&at.to_be_bytes());
                context.update(piece);
            }
            at += step;
        }
    }
    Ok(hexadecimal(context.finish().as_ref()))
}

/// Returns the SHA-256 of all bytes of a reader, in hexadecimal digits.
pub(super) fn sha256(mut reader: impl Read) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = reader.read(&mut piece)?;
        let Some(read) = piece.get(..length).filter(|read| !read.is_empty()) else { break };
        context.update(read);
    }
    Ok(hexadecimal(context.finish().as_ref()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lets all users read and write a folder, for the runs without rights.
pub(super) fn open_to_all(folder: &Path) -> Result<(), BenchError> {
    let all = Permissions::from_mode(0o777);
    std::fs::set_permissions(folder, all).map_err(BenchError::file(folder))
}

/// One program of a table.
pub(super) struct Row {
    contender: Contender,
    needs_root: Option<bool>,
    reports: Vec<Report>,
    /// The reason why the program has no further runs.
    failure: Option<String>,
}

impl Row {
    pub(super) fn contender(&self) -> Contender {
        self.contender
    }

    /// Returns whether the program cannot do this work.
    pub(super) fn is_out(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns whether the program has no run yet.
    pub(super) fn is_first(&self) -> bool {
        self.reports.is_empty()
    }

    pub(super) fn add(&mut self, report: Result<Report, String>) {
        match report {
            Ok(report) => self.reports.push(report),
            Err(failure) => self.failure = Some(failure),
        }
    }
}

/// The programs of a table.
pub(super) struct Rows(Vec<Row>);

impl Rows {
    pub(super) fn new(chosen: &[Contender], needs_root: &[Option<bool>]) -> Self {
        let row = |(contender, needs_root): (&Contender, &Option<bool>)| Row {
            contender: *contender,
            needs_root: *needs_root,
            reports: Vec::new(),
            failure: None,
        };
        Self(chosen.iter().zip(needs_root).map(row).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn row(&mut self, index: usize) -> Option<&mut Row> {
        self.0.get_mut(index)
    }

    /// Prints a row for each program. The figures are those of its fastest run.
    pub(super) fn print(&self, workload: &Workload) {
        println!("\n{}, a volume of {} MB\n", workload.title, workload.volume_bytes / 1_000_000);
        println!(
            "| program | seconds | processor s | peak MB | size MB | on disk MB | same bytes | \
             needs root | XFS | xfs_repair -n, or why not |"
        );
        println!("|---|---:|---:|---:|---:|---:|---|---|---|---|");
        for row in &self.0 {
            row.print();
        }
    }
}

impl Row {
    fn print(&self) {
        let yes = |is_so: bool| if is_so { "yes" } else { "no" };
        let root = self.needs_root.map_or("?", yes);
        let (name, xfs) = (self.contender.name(), yes(self.contender.makes_xfs()));
        let failure = self.failure.as_deref();
        let Some(fastest) = self.reports.iter().min_by_key(|report| report.cost.wall) else {
            let failure = failure.unwrap_or("no run");
            println!("| {name} | | | | | | | {root} | {xfs} | {failure} |");
            return;
        };
        let mut digests = self.reports.iter().map(|report| report.digest.as_str());
        let first = digests.next().unwrap_or_default();
        let same = match self.reports.len() {
            1 => "?",
            _ => yes(digests.all(|digest| digest == first)),
        };
        let checked = self.reports.iter().find_map(|report| report.checked.as_deref());
        let notes: Vec<&str> = checked.into_iter().chain(failure).collect();
        println!(
            "| {name} | {:.2} | {:.2} | {} | {} | {} | {same} | {root} | {xfs} | {} |",
            fastest.cost.wall.as_secs_f64(),
            fastest.cost.processor.as_secs_f64(),
            fastest.cost.peak_bytes / 1_000_000,
            fastest.apparent_bytes / 1_000_000,
            fastest.allocated_bytes / 1_000_000,
            notes.join("; "),
        );
    }
}
