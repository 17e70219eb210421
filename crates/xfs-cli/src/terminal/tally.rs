//! Counts of the work that a command has done, for the progress bar and for the result.
//!
//! Owns: the counters, and the wording of counts in the bar, in the summary line and in JSON. Does
//! **not** own: the terminal ([`Progress`](crate::terminal::progress::Progress)), or when a result
//! is written ([`Console`](crate::terminal::console::Console)).
//!
//! The loops that copy only add to relaxed counters. The thread of the bar reads them ten times a
//! second.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use ferroxfs::Volume;
use xfs_sync::{AtomicU64, Ordering, Slot};

use crate::json::Object;
use crate::terminal::plural::noun_for;
use crate::text::size;

/// The weight of a file in bytes: creating a file takes about as long as copying this many bytes.
const BYTES_PER_FILE: u64 = 64 << 10;
/// The time after which the remaining time is first estimated. The rate over a shorter time would
/// give a bad estimate.
const LEAST_FOR_ESTIMATE: Duration = Duration::from_secs(1);

/// The time after which work with `SummaryWhen::Slow` gets a summary line.
const SLOW: Duration = Duration::from_secs(1);

/// A counter that one thread adds to and another thread reads.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64<Slot>);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of the work that has been done.
#[derive(Default)]
pub(crate) struct Tally {
    /// The number of files that have been processed; a file with several names counts once for each
    /// name. Directories are not counted.
    files: Counter,
    directories: Counter,
    /// The number of bytes of contents that have been processed, without holes.
    bytes: Counter,
    /// The whole amount of work, in the unit of the [`Measure`]; 0 if the amount is unknown.
    expected: Counter,
}

impl Tally {
    pub(crate) fn add_file(&self) {
        self.files.add(1);
    }

    pub(crate) fn add_directory(&self) {
        self.directories.add(1);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.add(bytes);
    }

    /// Sets the number of files that have been processed to `files`, and the number of all files to
    /// `expected`.
    pub(crate) fn set(&self, files: u64, expected: u64) {
        self.files.set(files);
        self.expected.set(expected);
    }

    fn counts(&self) -> Counts {
        Counts {
            files: self.files.value(),
            directories: self.directories.value(),
            bytes: self.bytes.value(),
        }
    }
}

/// Values of the counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    files: u64,
    directories: u64,
    bytes: u64,
}

/// A kind of work: its wording, and the measure of its amount.
pub(crate) struct Work {
    /// The word for the work in progress, such as "importing".
    doing: &'static str,
    /// The word for the finished work, such as "imported". For work without contents, it is also
    /// the key of the count in JSON.
    done: &'static str,
    subject: Subject,
    summary: SummaryWhen,
    pub(crate) measure: Measure,
}

/// The kind of item that the work counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Files, and the bytes of their contents.
    Contents,
    /// Files without regard to their contents.
    Files,
    /// Inodes.
    Inodes,
    /// The bytes of one file's contents.
    Bytes,
    /// Nothing: the work is one step without measurable progress.
    Step,
}

/// The condition for writing the summary line. The line is written only to a terminal, because
/// scripts may take any text on standard error for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SummaryWhen {
    /// The line is written at the end of each run.
    Always,
    /// The line is written at the end of a run that took at least one second. By custom, commands
    /// like cp(1) and rm(1) are silent.
    Slow,
    /// The line is never written, because the command prints its own result.
    Never,
}

/// The unit in which the amount of work is measured, and the amount.
pub(crate) enum Measure {
    /// The amount is unknown, for example for a tree of the host. To measure the tree, the command
    /// would have to walk it before the work, which is slow if the host has not cached it. So the
    /// progress bar shows a rate and no end.
    Unknown,
    /// A number of files, which may be [set](Tally::set) later.
    Files(u64),
    /// A number of bytes of contents.
    Bytes(u64),
    /// The work of a whole volume: the bytes of contents, plus [`BYTES_PER_FILE`] for each file.
    Volume(u64),
    /// The lengths in bytes of inputs. The positions in them are the amount done.
    Inputs(Vec<Gauge>),
}

impl Measure {
    /// Measures the contents of a whole volume, by its blocks and inodes in use. These include
    /// blocks of metadata, so the work ends before the bar is full.
    pub(crate) fn of_volume(volume: &Volume) -> Self {
        let Ok(space) = volume.space() else { return Self::Unknown };
        let used = space.total_blocks.saturating_sub(space.free_blocks);
        let bytes = used.saturating_mul(space.block_size.into());
        let inodes = space.inodes.saturating_sub(space.free_inodes);
        Self::Volume(bytes.saturating_add(inodes.saturating_mul(BYTES_PER_FILE)))
    }

    /// Measures the number of files in a whole volume.
    pub(crate) fn files_of_volume(volume: &Volume) -> Self {
        let Ok(space) = volume.space() else { return Self::Unknown };
        Self::Files(space.inodes.saturating_sub(space.free_inodes))
    }

    /// Returns the amount of work that is done and the whole amount; `None` if the whole amount is
    /// unknown.
    fn fraction(&self, counts: Counts, expected: u64) -> Option<(u64, u64)> {
        let names = counts.files + counts.directories;
        let (done, all) = match self {
            Self::Unknown => (0, 0),
            Self::Files(_) => (names, expected),
            Self::Bytes(_) => (counts.bytes, expected),
            Self::Volume(_) => (counts.bytes + names * BYTES_PER_FILE, expected),
            Self::Inputs(gauges) => (
                gauges.iter().map(|gauge| gauge.done.value()).sum(),
                gauges.iter().map(|gauge| gauge.length).sum(),
            ),
        };
        (all > 0).then(|| (done.min(all), all))
    }

    pub(crate) fn expected(&self) -> u64 {
        match self {
            Self::Unknown | Self::Inputs(_) => 0,
            Self::Files(count) | Self::Bytes(count) | Self::Volume(count) => *count,
        }
    }
}

/// The position of a reader in an input of known length, for the progress bar.
#[derive(Clone)]
pub(crate) struct Gauge {
    done: Arc<Counter>,
    length: u64,
}

impl Gauge {
    pub(crate) fn new(length: u64) -> Self {
        Self { done: Arc::default(), length }
    }

    /// Returns a reader of the same input that advances this gauge by the number of bytes read.
    pub(crate) fn follow<R: Read>(&self, reader: R) -> Followed<R> {
        Followed { reader, done: Arc::clone(&self.done) }
    }
}

/// A reader that advances a gauge by the number of bytes read.
pub(crate) struct Followed<R> {
    reader: R,
    done: Arc<Counter>,
}

impl<R: Read> Read for Followed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.done.add(read as u64);
        Ok(read)
    }
}

impl Work {
    /// Describes work that copies files with their contents. As in the other functions, `doing` is
    /// the word in the line of progress ("copying"), and `done` the word in the summary ("copied").
    pub(crate) fn copy(doing: &'static str, done: &'static str, measure: Measure) -> Self {
        let (subject, summary) = (Subject::Contents, SummaryWhen::Always);
        Self { doing, done, subject, summary, measure }
    }

    /// Describes work that changes files without copying contents. `doing` is the word in the line
    /// of progress ("removing"), and `done` the word in the summary ("removed").
    pub(crate) fn change(doing: &'static str, done: &'static str) -> Self {
        let (subject, summary) = (Subject::Files, SummaryWhen::Slow);
        Self { doing, done, subject, summary, measure: Measure::Unknown }
    }

    /// Describes work that reads files and prints rows.
    pub(crate) fn reading(doing: &'static str, measure: Measure) -> Self {
        let (subject, summary) = (Subject::Files, SummaryWhen::Never);
        Self { doing, done: "files", subject, summary, measure }
    }

    /// Describes work on the contents of one file.
    pub(crate) fn bytes(doing: &'static str, done: &'static str, measure: Measure) -> Self {
        let (subject, summary) = (Subject::Bytes, SummaryWhen::Slow);
        Self { doing, done, subject, summary, measure }
    }

    /// Describes work that reads all inodes of volumes. The number of inodes is [set](Tally::set)
    /// later.
    pub(crate) fn scan(summary: SummaryWhen) -> Self {
        let (subject, measure) = (Subject::Inodes, Measure::Files(0));
        Self { doing: "scanning", done: "scanned", subject, summary, measure }
    }

    /// Describes the check of a volume. The amount is [set](Tally::set) later.
    pub(crate) fn check() -> Self {
        let (subject, summary) = (Subject::Step, SummaryWhen::Never);
        Self { doing: "checking", done: "checked", subject, summary, measure: Measure::Files(0) }
    }

    /// Describes the writing of a metadata image. The number of inodes is [set](Tally::set) later.
    pub(crate) fn dump() -> Self {
        let (subject, measure) = (Subject::Inodes, Measure::Files(0));
        let summary = SummaryWhen::Slow;
        Self { doing: "dumping", done: "dumped", subject, summary, measure }
    }

    /// Describes the survey of a damaged volume. The amount is [set](Tally::set) for each step.
    pub(crate) fn survey() -> Self {
        let (subject, summary) = (Subject::Step, SummaryWhen::Never);
        Self { doing: "surveying", done: "surveyed", subject, summary, measure: Measure::Files(0) }
    }

    /// Describes one step without measurable progress.
    pub(crate) fn step(doing: &'static str) -> Self {
        let (subject, summary) = (Subject::Step, SummaryWhen::Never);
        Self { doing, done: doing, subject, summary, measure: Measure::Unknown }
    }

    /// Makes the work write a summary only if it takes long.
    pub(crate) fn silent_if_fast(mut self) -> Self {
        self.summary = SummaryWhen::Slow;
        self
    }

    /// Returns whether work that took the time `elapsed` writes a summary line.
    pub(crate) fn has_summary(&self, elapsed: Duration) -> bool {
        match self.summary {
            SummaryWhen::Always => true,
            SummaryWhen::Slow => elapsed >= SLOW,
            SummaryWhen::Never => false,
        }
    }
}

/// The text of a progress bar, and how full it is.
pub(crate) struct ProgressLine {
    pub(crate) text: String,
    /// The amount done and the whole amount; `None` if the whole amount is unknown.
    pub(crate) fraction: Option<(u64, u64)>,
}

impl Work {
    /// Returns the text and the position of the bar after the work has taken the time `elapsed`.
    pub(crate) fn line(&self, tally: &Tally, elapsed: Duration) -> ProgressLine {
        let counts = tally.counts();
        let fraction = self.measure.fraction(counts, tally.expected.value());
        let mut text = self.doing.to_owned();
        let what = self.counted(counts);
        if !what.is_empty() {
            // Writing to a string does not fail, here and below.
            let _ = write!(text, ": {what}");
        }
        match self.rate(counts, elapsed) {
            Some(rate) => _ = write!(text, ", {rate}"),
            None => _ = write!(text, ", {}", duration(elapsed)),
        }
        if let Some(left) = fraction.and_then(|(done, all)| time_left(done, all, elapsed)) {
            let _ = write!(text, ", {} left", duration(left));
        }
        ProgressLine { text, fraction }
    }

    /// Returns the summary line, such as "imported 58,012 files, 519 MiB in 3.2 s (162 MiB/s)".
    pub(crate) fn summary(&self, tally: &Tally, elapsed: Duration, failures: u64) -> String {
        let counts = tally.counts();
        let mut text = format!("{} {}", self.done, self.counted(counts));
        let _ = write!(text, " in {}", duration(elapsed));
        if let Some(rate) = self.rate(counts, elapsed) {
            let _ = write!(text, " ({rate})");
        }
        if failures > 0 {
            let _ = write!(text, "; {} failed", grouped(failures));
        }
        text
    }

    fn counted(&self, counts: Counts) -> String {
        let names = counts.files + counts.directories;
        match self.subject {
            Subject::Contents => {
                let bytes = size::brief(counts.bytes);
                match (counts.files, counts.directories) {
                    (0, directories @ 1..) => {
                        format!("{}, {bytes}", counted(directories, "directory"))
                    }
                    (files, _) => format!("{}, {bytes}", counted(files, "file")),
                }
            }
            Subject::Files => counted(names, "file"),
            Subject::Inodes => counted(names, "inode"),
            Subject::Bytes => size::brief(counts.bytes),
            Subject::Step => String::new(),
        }
    }

    /// Returns the average rate since the beginning, such as "162 MiB/s"; `None` for work that
    /// counts nothing.
    fn rate(&self, counts: Counts, elapsed: Duration) -> Option<String> {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let per_second = |count: u64| (count as f64 / seconds) as u64;
        match self.subject {
            Subject::Contents | Subject::Bytes => {
                Some(format!("{}/s", size::brief(per_second(counts.bytes))))
            }
            Subject::Files | Subject::Inodes => {
                Some(format!("{}/s", grouped(per_second(counts.files + counts.directories))))
            }
            Subject::Step => None,
        }
    }

    /// Returns the counts as a JSON object.
    pub(crate) fn describe(&self, tally: &Tally, elapsed: Duration, failures: u64) -> Object {
        let counts = tally.counts();
        let names = counts.files + counts.directories;
        let mut object = Object::new();
        let mut insert = |key: &str, count: u64| object.insert(key.to_owned(), count.into());
        match self.subject {
            Subject::Contents => {
                insert("files", counts.files);
                insert("directories", counts.directories);
                insert("bytes", counts.bytes);
            }
            Subject::Files => _ = insert(self.done, names),
            Subject::Inodes => _ = insert("inodes", names),
            Subject::Bytes => _ = insert("bytes", counts.bytes),
            Subject::Step => {}
        }
        insert("failures", failures);
        insert("duration_ns", u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        object
    }
}

/// Estimates the remaining time, in whole seconds, from the average rate. `None` if it is too early
/// for that, or if nothing remains.
fn time_left(done: u64, all: u64, elapsed: Duration) -> Option<Duration> {
    if elapsed < LEAST_FOR_ESTIMATE || done == 0 || done >= all {
        return None;
    }
    let seconds = elapsed.as_secs_f64() * (all - done) as f64 / done as f64;
    Duration::try_from_secs_f64(seconds.ceil()).ok()
}

/// Formats a number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a count, with a comma between thousands, and its noun.
fn counted(count: u64, noun: &str) -> String {
    format!("{} {}", grouped(count), noun_for(count, noun))
}

/// Formats a duration in at most two units.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{:.2} s", time.as_secs_f64()),
        1..60 if time.subsec_nanos() == 0 => format!("{seconds} s"),
        1..60 => format!("{:.1} s", time.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests;
