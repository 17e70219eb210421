//! Scans an image and prints the time: `timed_scan IMAGE FORMAT FILE [FIELD,...|-] [THREADS]
//! [MEMORY]`.
//!
//! With the format `summary` nothing is written and the summary is printed.

use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use xfs_scan::{Field, Fields, Format, Header, Output, ScanError, ScanOptions, ScanSource, scan};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize| arguments.get(index).map(String::as_str);
    let (Some(image), Some(format), Some(target)) = (argument(0), argument(1), argument(2)) else {
        return Err("usage: timed_scan IMAGE FORMAT FILE [FIELD,...|-] [THREADS] [MEMORY]".into());
    };
    let mut options = ScanOptions::default();
    if let Some(fields) = argument(3).filter(|fields| *fields != "-") {
        let fields = fields.split(',').map(str::parse::<Field>);
        options.fields = fields.collect::<Result<Fields, _>>()?;
    }
    if let Some(threads) = argument(4) {
        options.threads = threads.parse()?;
    }
    if let Some(memory) = argument(5) {
        options.memory_bytes = memory.parse()?;
    }
    options.summary = format == "summary";

    let start = Instant::now();
    let volume = ferroxfs::OpenOptions::new().no_recovery(true).open(image)?;
    let sources = [ScanSource::from(&volume)];
    let report = if options.summary {
        scan(&sources, &options, None)?
    } else {
        let file = File::create(target).map_err(ScanError::Output)?;
        let scan_time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        let header = Header { scan_time: i64::try_from(scan_time)? };
        let format: Format = format.parse()?;
        let output = Output::begin(format, options.fields, header, Box::new(file))?;
        scan(&sources, &options, Some(output))?
    };
    let elapsed = start.elapsed();
    if let Some(summary) = &report.summary {
        println!("{summary:?}");
    }
    let rate = report.inodes as f64 / elapsed.as_secs_f64();
    writeln!(
        std::io::stderr(),
        "{} inodes, {} findings, {} bytes spilled, {:.3} s, {rate:.0} inodes/s",
        report.inodes,
        report.findings,
        report.spilled_bytes,
        elapsed.as_secs_f64(),
    )?;
    Ok(())
}
