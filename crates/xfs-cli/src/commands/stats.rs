//! `stats`: what a mount has done.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use xfs_fuse::FIGURES_ATTRIBUTE;

use super::Run;
use crate::cli::StatsArguments;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::sandbox::Reach;

/// The most bytes of an attribute.
const MOST_BYTES: usize = 64 << 10;
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
const MICROSECONDS_PER_SECOND: f64 = 1e6;

struct Stats {
    folder: PathBuf,
    prometheus: bool,
    watch: bool,
}

/// Of one kind of request.
#[derive(Clone, Copy, Default)]
struct Row {
    count: f64,
    failures: f64,
    seconds: f64,
}

pub(super) fn open(arguments: StatsArguments) -> Box<dyn Run> {
    let StatsArguments { folder, prometheus, watch } = arguments;
    Box::new(Stats { folder, prometheus, watch })
}

impl Run for Stats {
    fn reach(&self) -> Reach<'_> {
        Reach::Host
    }

    fn run(self: Box<Self>, console: &mut Console) -> Result<(), Failure> {
        let mut before = BTreeMap::new();
        loop {
            let text = read_attribute(&self.folder, FIGURES_ATTRIBUTE)?;
            if self.prometheus {
                console.out().write_all(&text)?;
                return Ok(());
            }
            let rows = parse(&String::from_utf8_lossy(&text));
            print(&rows, &before, console.out())?;
            if !self.watch {
                return Ok(());
            }
            console.out().flush()?;
            before = rows;
            std::thread::sleep(WATCH_INTERVAL);
        }
    }
}

/// An attribute of the root of a mount of ours.
pub(super) fn read_attribute(folder: &Path, name: &str) -> Result<Vec<u8>, Failure> {
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
        Err(errno) => Err(Failure::host(folder.as_os_str(), &errno.into())),
    }
}

/// The figures of each request, from the text format of Prometheus.
fn parse(text: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::<String, Row>::new();
    for line in text.lines() {
        let Some((metric, value)) = line.rsplit_once(' ') else { continue };
        let Some((metric, label)) = metric.split_once("{request=\"") else { continue };
        let Some(request) = label.strip_suffix("\"}") else { continue };
        let row = rows.entry(request.to_owned()).or_default();
        let value = value.parse().unwrap_or_default();
        match metric {
            "ferroxfs_request_seconds_count" => row.count = value,
            "ferroxfs_request_seconds_sum" => row.seconds = value,
            "ferroxfs_request_failures_total" => row.failures = value,
            _ => {}
        }
    }
    rows
}

fn print(
    rows: &BTreeMap<String, Row>,
    before: &BTreeMap<String, Row>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    writeln!(out, "{:<16} {:>12} {:>10} {:>12}", "request", "count", "failed", "mean us")?;
    for (name, row) in rows {
        let old = before.get(name).copied().unwrap_or_default();
        let count = row.count - old.count;
        if count == 0.0 {
            continue;
        }
        let mean = (row.seconds - old.seconds) / count * MICROSECONDS_PER_SECOND;
        let failures = row.failures - old.failures;
        writeln!(out, "{name:<16} {count:>12} {failures:>10} {mean:>12.1}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
