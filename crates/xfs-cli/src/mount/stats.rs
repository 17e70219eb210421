//! `stats`: shows the counters of a mount.

mod listen;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use xfs_fuse::FIGURES_ATTRIBUTE;

use crate::cli::StatsArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::json::Object;
use crate::run::Run;
use crate::sandbox::Reach;
use crate::terminal::console::Console;
use crate::terminal::escaping::TerminalWrite;
use crate::terminal::names;
use crate::terminal::screen::Screen;
use listen::Listener;

/// The limit, in bytes, on the value of an extended attribute in which a mount reports about
/// itself.
const MOST_BYTES: usize = 64 << 10;
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
const MICROSECONDS_PER_SECOND: f64 = 1e6;
/// The prefix of the names of all figures (values of counters).
const PREFIX: &str = "ferroxfs_";

struct Stats {
    folder: PathBuf,
    prometheus: bool,
    watch: bool,
}

/// The command that serves the figures of a mount by HTTP on an address.
struct ServeFigures {
    folder: PathBuf,
    address: SocketAddr,
    listener: Listener,
}

/// The counters of a mount at one moment.
#[derive(Clone, Default)]
struct Figures {
    requests: BTreeMap<String, RequestRow>,
    /// The figures of the volume, in the order in which they are printed.
    volume: Vec<Figure>,
}

/// The counters of one kind of request.
#[derive(Clone, Default)]
struct RequestRow {
    count: f64,
    failures: f64,
    seconds: f64,
    /// For each bucket of durations, its upper bound in seconds and the number of requests that
    /// took at most that long. The shortest bucket comes first.
    classes: Vec<(f64, f64)>,
}

/// One figure of the volume: a name and a number.
#[derive(Clone, PartialEq)]
struct Figure {
    name: String,
    value: f64,
    /// Whether the number only grows. If so, the difference of two values is the growth between
    /// them.
    is_counter: bool,
}

pub(crate) fn open(arguments: StatsArguments) -> Result<Box<dyn Run>, Failure> {
    let StatsArguments { folder, prometheus, listen, watch } = arguments;
    let folder = super::mounts::folder_of(folder)?;
    match listen {
        None => Ok(Box::new(Stats { folder, prometheus, watch })),
        Some(address) => {
            let listener = Listener::bind(address)?;
            Ok(Box::new(ServeFigures { folder, address, listener }))
        }
    }
}

impl Run for Stats {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut before = Figures::default();
        let screen = self.watch.then(Screen::of_stdout).flatten();
        loop {
            let text = read_attribute(&self.folder, FIGURES_ATTRIBUTE)?;
            if self.prometheus {
                console.out().write_all(&text)?;
                return Ok(());
            }
            let figures = parse(&String::from_utf8_lossy(&text));
            if console.is_json() {
                return Ok(console.conclude_with(describe(&figures))?);
            }
            match &screen {
                Some(screen) => {
                    let mut table = Vec::new();
                    print(&figures, &before, &mut table)?;
                    let table = String::from_utf8_lossy(&table);
                    let frame = screen.frame(&names::printable(&table));
                    console.out().raw().write_all(frame.as_bytes())?;
                }
                None => print(&figures, &before, console.out())?,
            }
            if !self.watch {
                return Ok(());
            }
            console.out().flush()?;
            before = figures;
            std::thread::sleep(WATCH_INTERVAL);
        }
    }
}

impl Run for ServeFigures {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let Self { folder, address, listener } = *self;
        // Report another folder at once.
        read_attribute(&folder, FIGURES_ATTRIBUTE)?;
        let taken = listener.address().map_err(|error| listen::failed(address, &error))?;
        writeln!(console.out(), "http://{taken}/metrics")?;
        console.out().flush()?;
        let error = listener.serve(move || read_attribute(&folder, FIGURES_ATTRIBUTE));
        Err(listen::failed(taken, &error))
    }
}

/// Reads the extended attribute `name` of `folder`, the root of a ferroxfs mount.
pub(crate) fn read_attribute(folder: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let mut value = vec![0; MOST_BYTES];
    match rustix::fs::getxattr(folder, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(value)
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Err(Failure::new(
            Exit::Failed,
            format!("{}: not the root of a volume that ferroxfs has mounted", folder.display()),
        )),
        Err(errno) => {
            let failure = Failure::host(folder.as_os_str(), &errno.into());
            Err(match errno {
                Errno::NOTCONN | Errno::CONNABORTED => {
                    failure.hint("the server of this mount has ended; ferroxfs umount removes it")
                }
                _ => failure,
            })
        }
    }
}

/// Parses figures in the text format of Prometheus.
fn parse(text: &str) -> Figures {
    let mut figures = Figures::default();
    let mut counters = BTreeSet::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix("# TYPE ") {
            counters.extend(words.strip_suffix(" counter"));
            continue;
        }
        let Some((metric, value)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let value = value.parse().unwrap_or_default();
        match metric.split_once("{request=\"") {
            Some((metric, labels)) => {
                let (request, rest) = labels.split_once('"').unwrap_or((labels, ""));
                let row = figures.requests.entry(request.to_owned()).or_default();
                row.note(metric, rest, value);
            }
            None => {
                let name = metric.strip_prefix(PREFIX).unwrap_or(metric);
                let name = name.strip_suffix("_total").unwrap_or(name).replace('_', " ");
                let is_counter = counters.contains(metric);
                figures.volume.push(Figure { name, value, is_counter });
            }
        }
    }
    figures
}

impl RequestRow {
    fn note(&mut self, metric: &str, labels: &str, value: f64) {
        match metric {
            "ferroxfs_request_seconds_count" => self.count = value,
            "ferroxfs_request_seconds_sum" => self.seconds = value,
            "ferroxfs_request_failures_total" => self.failures = value,
            "ferroxfs_request_seconds_bucket" => {
                let end = labels.trim_start_matches(",le=\"").trim_end_matches("\"}");
                self.classes.extend(end.parse().ok().map(|end| (end, value)));
            }
            _ => {}
        }
    }

    /// Returns how much these counters have grown since the older counters `old`.
    fn since(&self, old: &Self) -> Self {
        let classes = self.classes.iter().enumerate().map(|(index, (end, count))| {
            let old = old.classes.get(index).map_or(0.0, |(_, count)| *count);
            (*end, count - old)
        });
        Self {
            count: self.count - old.count,
            failures: self.failures - old.failures,
            seconds: self.seconds - old.seconds,
            classes: classes.collect(),
        }
    }

    /// Returns a quantile of the times of all requests: an estimate of the time in seconds within
    /// which the fraction `part` of them was answered.
    ///
    /// Within a bucket, the times are assumed to be spread evenly. If the sum of all times shows
    /// that this is impossible, the result is the nearest possible time. The last bucket has no
    /// upper bound: the result is then its lower bound, or the exact time if there is only one
    /// request.
    fn quantile(&self, part: f64) -> f64 {
        let wanted = self.count * part;
        let (mut start, mut below) = (0.0, 0.0);
        for (end, count) in &self.classes {
            if *count >= wanted && count > &below && end.is_finite() {
                let even = start + (end - start) * (wanted - below) / (count - below);
                let bucket = Bucket { start, end: *end, below, count: *count };
                let (least, most) = self.bounds(&bucket, wanted);
                return even.min(most).max(least);
            }
            if end.is_finite() {
                (start, below) = (*end, *count);
            }
        }
        if self.count == 1.0 { self.seconds } else { start }
    }

    /// Returns the shortest and the longest possible time of one request, as far as the sum of all
    /// times limits it. Ranks number the requests from the fastest to the slowest. The request has
    /// the rank `wanted`, and is in `bucket`.
    ///
    /// If each request took only the lower bound of its bucket, the sum would be less than it is,
    /// by `excess`. All requests from this rank to the end of the bucket take at least as long as
    /// this one. So this request is above the lower bound by at most an equal share of `excess`.
    /// The shortest time follows in the same way from the upper bounds, with `distance`.
    fn bounds(&self, bucket: &Bucket, wanted: f64) -> (f64, f64) {
        let Bucket { start, end, below, count } = *bucket;
        let (mut lower, mut upper, mut last_end, mut last_count) = (0.0, 0.0, 0.0, 0.0);
        for (end, count) in &self.classes {
            let own = count - last_count;
            lower += own * last_end;
            upper += if own > 0.0 { own * end } else { 0.0 };
            if end.is_finite() {
                last_end = *end;
            }
            last_count = *count;
        }
        let (excess, distance) = ((self.seconds - lower).max(0.0), (upper - self.seconds).max(0.0));
        let rank = wanted.ceil().max(below + 1.0).min(count);
        let (above, up_to) = (count - rank + 1.0, rank - below);
        (start.max(end - distance / up_to), end.min(start + excess / above))
    }
}

/// A bucket of times, in seconds.
struct Bucket {
    start: f64,
    end: f64,
    /// Number of requests in the buckets before.
    below: f64,
    /// Number of requests up to the end of this bucket.
    count: f64,
}

/// Returns the figures as a JSON object. Counts become integers, although the text format does not
/// mark integers.
fn describe(figures: &Figures) -> Object {
    let whole = |value: f64| serde_json::Value::from(value as u64);
    let requests = figures.requests.iter().map(|(name, row)| {
        let mut object = Object::new();
        object.insert("request".to_owned(), name.as_str().into());
        object.insert("count".to_owned(), whole(row.count));
        object.insert("failures".to_owned(), whole(row.failures));
        object.insert("duration_ns".to_owned(), whole(row.seconds * 1e9));
        serde_json::Value::from(object)
    });
    let volume = figures.volume.iter().map(|figure| (figure.name.clone(), whole(figure.value)));
    let mut object = Object::new();
    object.insert("requests".to_owned(), requests.collect());
    object.insert("volume".to_owned(), volume.collect::<Object>().into());
    object
}

fn print(figures: &Figures, before: &Figures, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:<16} {:>12} {:>10} {:>12} {:>12} {:>12}",
        "request", "count", "failed", "mean us", "median us", "99 % us"
    )?;
    for (name, row) in &figures.requests {
        let row = before.requests.get(name).map_or_else(|| row.clone(), |old| row.since(old));
        if row.count == 0.0 {
            continue;
        }
        let [mean, median, most] = [row.seconds / row.count, row.quantile(0.5), row.quantile(0.99)]
            .map(|seconds| seconds * MICROSECONDS_PER_SECOND);
        let (count, failures) = (row.count, row.failures);
        writeln!(
            out,
            "{name:<16} {count:>12} {failures:>10} {mean:>12.1} {median:>12.1} {most:>12.1}"
        )?;
    }
    if !figures.volume.is_empty() {
        writeln!(out)?;
    }
    for figure in &figures.volume {
        let old = before.volume.iter().find(|old| old.name == figure.name && old.is_counter);
        let value = figure.value - old.map_or(0.0, |old| old.value);
        writeln!(out, "{:<28} {value:>16}", figure.name)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
