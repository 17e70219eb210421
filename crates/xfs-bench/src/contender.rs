//! Runs one contender, which is a program that the scan benchmark compares. Measures its wall time,
//! processor time and peak memory, and counts the inodes that it has listed.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader, SerializedFileReader};
use wait4::Wait4;

use crate::error::BenchError;

/// How a contender reports the number of inodes that it has listed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// The output has one line per path or per inode.
    Lines,
    /// The output is one number: how many inodes the contender has listed.
    Number,
    /// The output is a Parquet file with one row per inode.
    ParquetRows,
}

/// A program that lists the inodes of a volume.
pub(crate) struct Contender {
    /// The name of the contender in the table.
    pub(crate) name: &'static str,
    /// The command of the contender, without the file to which its output goes.
    pub(crate) command: Command,
    /// How the inodes that the contender has listed are counted.
    pub(crate) count: Count,
}

/// The time and memory that one contender took, and the number of inodes that it listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Wall time of the fastest run.
    pub(crate) wall: Duration,
    /// Processor time of the fastest run, user and system.
    pub(crate) processor: Duration,
    /// Peak memory of the fastest run in bytes.
    pub(crate) peak_bytes: u64,
    /// Number of inodes or paths that the contender listed.
    pub(crate) rows: u64,
}

impl Contender {
    /// Runs the contender `runs` times and returns the fastest run. Calls `before` before each run.
    /// Overwrites the file `output`.
    pub(crate) fn measure(
        &mut self,
        output: &Path,
        runs: u32,
        before: impl Fn() -> Result<(), BenchError>,
    ) -> Result<Figure, BenchError> {
        let mut best: Option<Figure> = None;
        for _ in 0..runs.max(1) {
            before()?;
            let figure = self.run(output)?;
            best = Some(best.filter(|best| best.wall <= figure.wall).unwrap_or(figure));
        }
        let mut best = best.unwrap_or_else(|| unreachable!("there is at least one run"));
        best.rows = self.rows(output)?;
        Ok(best)
    }

    fn run(&mut self, output: &Path) -> Result<Figure, BenchError> {
        let file = File::create(output).map_err(BenchError::file(output))?;
        let program = Path::new(self.command.get_program()).to_owned();
        self.command.stdout(file).stderr(Stdio::null()).stdin(Stdio::null());
        let start = Instant::now();
        let child = self.command.spawn().map_err(BenchError::file(&program))?;
        let usage = child.wait4().map_err(BenchError::file(&program))?;
        let wall = start.elapsed();
        if !usage.status.success() {
            return Err(BenchError::Failed { name: self.name.to_owned(), status: usage.status });
        }
        let processor = usage.rusage.utime + usage.rusage.stime;
        Ok(Figure { wall, processor, peak_bytes: usage.rusage.maxrss, rows: 0 })
    }

    fn rows(&self, output: &Path) -> Result<u64, BenchError> {
        let file = File::open(output).map_err(BenchError::file(output))?;
        match self.count {
            Count::Lines => {
                let mut lines = 0;
                let mut reader = BufReader::with_capacity(1 << 20, file);
                while reader.skip_until(b'\n').map_err(BenchError::file(output))? > 0 {
                    lines += 1;
                }
                Ok(lines)
            }
            Count::Number => {
                let text = std::io::read_to_string(file).map_err(BenchError::file(output))?;
                Ok(text.trim().parse().unwrap_or(0))
            }
            Count::ParquetRows => {
                let reader = SerializedFileReader::new(file)?;
                Ok(u64::try_from(reader.metadata().file_metadata().num_rows()).unwrap_or(0))
            }
        }
    }
}
