//! The steps of a scan and their order.
//!
//! ```text
//!                  plan ─> read units ─────────────────────────> emit        without paths
//!                  plan ─> read units ─────────> directories ─> emit        with parent pointers
//!                  plan ─> read units ─> join ─> directories ─> emit        without them
//! ```
//!
//! Rows wait after the step "read units" if "directories" or "join" comes next: in memory, or in
//! the spill file when memory is used up. Each step uses all threads.

use std::time::{SystemTime, UNIX_EPOCH};

use xfs_format::inode::FileType;
use xfs_sync::{AtomicU64, Mutex, Volume};

use crate::accounting::{Account, Accounts};
use crate::batch::Batch;
use crate::emit::{EmitContext, Emitted, EmittedPart, Emitter};
use crate::hashing::{FileSizes, Hashed, Hashing, sizes_of};
use crate::links::{LinkBuckets, LinkRuns, UnitLinks};
use crate::memory::{Memory, StoredBatch};
use crate::options::{Progress, ScanOptions};
use crate::out_of_line::{OutOfLineReader, ScannedVolume};
use crate::output::{Appender, Encoding, Output, OutputPiece, Rows, Trailer};
use crate::parallel::WorkerPool;
use crate::paths::{DirectoryPart, DirectoryTable};
use crate::plan::Plan;
use crate::reader::{ReadSelection, UnitReader, UnitRows};
use crate::source::ScanSource;
use crate::summary::Summary;
use crate::{Finding, ScanError};

/// Number of bytes of memory set aside per thread, for read buffers and pieces on their way to the
/// output.
const THREAD_BYTES: u64 = 24 << 20;
/// Number of accounting rows that are encoded as one piece of the output.
const ACCOUNTS_PER_PIECE: usize = 16 << 10;

/// The result of a scan.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ScanReport {
    /// Number of inode rows.
    pub inodes: u64,
    /// Number of findings. If it is not 0, the output is incomplete or a volume is damaged.
    pub findings: u64,
    /// Number of findings that are corruption of a volume. Findings about an unreadable device,
    /// unsupported structures and limits of the scan are not counted.
    pub corruptions: u64,
    /// Number of inodes that have no row because of a finding.
    pub missing_inodes: u64,
    /// Number of bytes written to the spill file.
    pub spilled_bytes: u64,
    /// The summary, if it was requested.
    pub summary: Option<Summary>,
}

/// Scans volumes, one after the other, into one output. Without an output, only the summary is
/// created.
///
/// # Errors
///
/// An error that keeps the output from being complete. Damage on a volume is not an error: it
/// becomes rows of the output and is counted in the report.
pub fn scan(
    sources: &[ScanSource],
    options: &ScanOptions,
    output: Option<Output<'_>>,
) -> Result<ScanReport, ScanError> {
    let (encoding, appender) = match output {
        Some(Output { encoding, appender }) => (Some(encoding), Some(appender)),
        None => (None, None),
    };
    let threads = choose_threads(options)?;
    let limit = options.memory_bytes.saturating_sub(THREAD_BYTES * threads as u64);
    let summary_now = options.summary.then(now_seconds);
    let mut run = ScanRun {
        options,
        pool: WorkerPool { threads, cancel: options.cancel.as_deref() },
        encoding: encoding.as_ref(),
        appender,
        report: ScanReport { summary: summary_now.map(Summary::new), ..ScanReport::default() },
        summary_now,
        inodes_total: 0,
        inodes_read: 0,
    };
    for source in sources {
        let memory = Memory::new(limit, options.spill.clone());
        run.scan_volume(source, &memory)?;
        run.report.spilled_bytes += memory.spilled_bytes();
    }
    let ScanRun { appender, report, .. } = run;
    if let Some(appender) = appender {
        let ScanReport { inodes, findings, missing_inodes, .. } = report;
        appender.finish(Trailer { inodes, findings, missing_inodes })?;
    }
    Ok(report)
}

/// Returns the requested number of threads. Without a request, returns one per processor, but at
/// most as many as half of the memory limit allows.
fn choose_threads(options: &ScanOptions) -> Result<usize, ScanError> {
    let allowed = options.memory_bytes;
    let threads = match options.threads {
        0 => {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let most = usize::try_from(allowed / 2 / THREAD_BYTES).unwrap_or(usize::MAX);
            processors.min(most).max(1)
        }
        threads => threads,
    };
    let needed = THREAD_BYTES.saturating_mul(threads as u64);
    if allowed < needed {
        return Err(ScanError::MemoryTooSmall { allowed, needed, threads });
    }
    Ok(threads)
}

/// The rows and findings of a unit of work whose inodes were read, while they wait for the next
/// step.
struct StoredUnit {
    rows: StoredBatch,
    /// Number of rows.
    count: usize,
    findings: Vec<Finding>,
    directories: DirectoryPart,
}

struct ScanRun<'a, 'w> {
    options: &'a ScanOptions,
    pool: WorkerPool<'a>,
    encoding: Option<&'a Encoding>,
    appender: Option<Appender<'w>>,
    summary_now: Option<i64>,
    report: ScanReport,
    inodes_total: u64,
    inodes_read: u64,
}

impl ScanRun<'_, '_> {
    /// Returns whether all rows must be read before the first one is emitted. Hashes need the sizes
    /// of all files.
    fn needs_paths(&self, source: &ScanSource) -> bool {
        self.options.fields.needs_paths()
            || source.hasher.is_some()
            || self.options.summary
            || !self.options.accounts.is_empty()
    }

    fn units_per_piece(&self) -> usize {
        self.encoding.map_or(1, Encoding::units_per_piece)
    }

    fn scan_volume(&mut self, source: &ScanSource, memory: &Memory) -> Result<(), ScanError> {
        if let Some(appender) = &mut self.appender {
            appender.begin_volume(&source.volume)?;
        }
        let mut findings = Vec::new();
        let plan = Plan::read(source, &self.pool, &mut findings)?;
        memory.reserve_table(plan.memory_bytes())?;
        self.inodes_total += plan.inodes();
        let needs_paths = self.needs_paths(source);
        let scope = ScannedVolume {
            source,
            plan: &plan,
            memory,
            selection: ReadSelection::new(self.options, needs_paths, source),
            blocks_listed: AtomicU64::new(0),
        };
        self.emit_findings(source, memory, findings)?;
        if needs_paths { self.scan_with_paths(&scope) } else { self.scan_straight(&scope) }
    }

    /// Reads the units of work, and emits the rows of each unit as soon as it was read.
    fn scan_straight(&mut self, scope: &ScannedVolume<'_>) -> Result<(), ScanError> {
        let context = self.context(scope.source, scope.memory, None);
        let units = scope.plan.units();
        let units_per_piece = self.units_per_piece();
        let Self { options, pool, appender, report, inodes_read, inodes_total, .. } = self;
        pool.run(
            units.len().div_ceil(units_per_piece),
            || {
                (
                    UnitReader::new(scope.source, scope.selection),
                    OutOfLineReader::new(scope),
                    Emitter::new(&context),
                )
            },
            |(reader, out_of_line, emitter), piece| {
                let units = units.chunks(units_per_piece).nth(piece).unwrap_or_default();
                emitter.emit(units.iter().map(|unit| {
                    let mut rows = reader.read(unit.group, scope.plan.chunks(unit), out_of_line);
                    out_of_line.read(&mut rows)?;
                    Ok((unit.group, rows.batch, rows.findings))
                }))
            },
            |_, emitted: Emitted| {
                *inodes_read += emitted.inodes;
                append_emitted(appender, scope.memory, report, emitted)?;
                report_progress(options, *inodes_read, report.inodes, *inodes_total);
                Ok(())
            },
        )
    }

    /// Reads all units, then determines the paths of directories, then emits the rows with their
    /// paths.
    fn scan_with_paths(&mut self, scope: &ScannedVolume<'_>) -> Result<(), ScanError> {
        let (mut waiting, links, sizes) = self.read_units(scope)?;
        if scope.selection.entries {
            waiting = self.join_links(scope, waiting, links)?;
        }
        let parts = waiting.iter_mut().map(|unit| std::mem::take(&mut unit.directories));
        let table = DirectoryTable::new(parts.collect(), scope.source.root.0);
        let mut context = self.context(scope.source, scope.memory, Some(&table));
        context.hashing = scope.source.hasher.as_ref().map(|source| Hashing { source, sizes });
        let units = scope.plan.units();
        let waiting = units.iter().map(|unit| unit.group).zip(waiting);
        let pieces = into_pieces(waiting, self.units_per_piece());
        let mut accounts = Accounts::default();
        let block_units_log = scope.source.geometry().block_log - 9;
        let Self { options, pool, appender, report, inodes_read, inodes_total, .. } = self;
        pool.run(
            pieces.len(),
            || Emitter::new(&context),
            |emitter, index| {
                let piece = pieces.get(index).map(|piece| std::mem::take(&mut *piece.lock()));
                emitter.emit(piece.unwrap_or_default().into_iter().map(|(group, unit)| {
                    Ok((group, scope.memory.load(unit.rows, unit.count)?, unit.findings))
                }))
            },
            |_, mut emitted| {
                if let Some(part) = emitted.accounts.take() {
                    accounts.merge(*part, block_units_log);
                }
                append_emitted(appender, scope.memory, report, emitted)?;
                report_progress(options, *inodes_read, report.inodes, *inodes_total);
                Ok(())
            },
        )?;
        let mut accounts = accounts.rows(&options.accounts, &table, scope.source.names.as_deref());
        accounts.retain(|account| account.is_within(options.account_depth));
        if let Some(summary) = &mut report.summary {
            summary.finish_volume(|ino| table.path(ino));
            summary.add_accounts(&accounts);
            if let Some(names) = &scope.source.names {
                summary.add_owner_names(names);
            }
        }
        self.emit_accounts(scope.source, accounts)
    }

    fn emit_accounts(
        &mut self,
        source: &ScanSource,
        accounts: Vec<Account>,
    ) -> Result<(), ScanError> {
        let (Some(encoding), Some(appender)) = (self.encoding, &mut self.appender) else {
            return Ok(());
        };
        for accounts in accounts.chunks(ACCOUNTS_PER_PIECE) {
            let mut encoder = encoding.encoder(&source.volume)?;
            accounts.iter().try_for_each(|account| encoder.account(account))?;
            appender.append(encoder.finish()?)?;
        }
        Ok(())
    }

    fn read_units(
        &mut self,
        scope: &ScannedVolume<'_>,
    ) -> Result<(Vec<StoredUnit>, Vec<LinkBuckets>, FileSizes), ScanError> {
        let units = scope.plan.units();
        let links = Mutex::<_, Volume>::new(Vec::new());
        let mut waiting = Vec::with_capacity(units.len());
        let counts_sizes =
            scope.source.hasher.as_ref().is_some_and(|it| it.hashed == Hashed::Repeated);
        let mut sizes = FileSizes::default();
        let Self { options, pool, report, inodes_read, inodes_total, .. } = self;
        pool.run(
            units.len(),
            || ReadWorker {
                reader: UnitReader::new(scope.source, scope.selection),
                out_of_line: OutOfLineReader::new(scope),
                links: &links,
            },
            |worker, index| {
                let Some(unit) = units.get(index) else { return Err(ScanError::WorkerLost) };
                let chunks = scope.plan.chunks(unit);
                let mut rows = worker.reader.read(unit.group, chunks, &mut worker.out_of_line);
                worker.out_of_line.read(&mut rows)?;
                let UnitRows { batch, findings } = rows;
                // Without parent pointers the links arrive in the join.
                let directories = if scope.selection.parents {
                    note_directories(&batch, scope.memory)?
                } else {
                    DirectoryPart::default()
                };
                let sizes = if counts_sizes { sizes_of(&batch) } else { Vec::new() };
                let (rows, count) = (scope.memory.store(&batch)?, batch.rows.len());
                worker.reader.reuse(batch);
                Ok((sizes, StoredUnit { rows, count, findings, directories }))
            },
            |_, (file_sizes, unit)| {
                sizes.add(&file_sizes, scope.memory)?;
                *inodes_read += unit.count as u64;
                report_progress(options, *inodes_read, report.inodes, *inodes_total);
                waiting.push(unit);
                Ok(())
            },
        )?;
        Ok((waiting, links.into_inner(), sizes))
    }

    /// Adds directory entries to the rows of the inodes that they name.
    fn join_links(
        &mut self,
        scope: &ScannedVolume<'_>,
        waiting: Vec<StoredUnit>,
        links: Vec<LinkBuckets>,
    ) -> Result<Vec<StoredUnit>, ScanError> {
        let memory = scope.memory;
        let runs = LinkRuns::new(waiting.len(), links, memory).into_units();
        let work: Vec<_> = waiting
            .into_iter()
            .zip(runs)
            .map(|pair| Mutex::<Option<(StoredUnit, UnitLinks)>, Volume>::new(Some(pair)))
            .collect();
        let mut joined = Vec::with_capacity(work.len());
        self.pool.run(
            work.len(),
            || (),
            |(), index| {
                let pair = work.get(index).and_then(|pair| pair.lock().take());
                let Some((unit, links)) = pair else { return Err(ScanError::WorkerLost) };
                let mut findings = unit.findings;
                let batch = memory.load(unit.rows, unit.count)?;
                let batch = links.join(batch, memory, &mut findings)?;
                let directories = note_directories(&batch, memory)?;
                let rows = memory.store(&batch)?;
                Ok(StoredUnit { rows, count: batch.rows.len(), findings, directories })
            },
            |_, unit| {
                joined.push(unit);
                Ok(())
            },
        )?;
        Ok(joined)
    }

    fn context<'e>(
        &self,
        source: &'e ScanSource,
        memory: &'e Memory,
        directories: Option<&'e DirectoryTable>,
    ) -> EmitContext<'e>
    where
        Self: 'e,
    {
        EmitContext {
            source,
            memory,
            encoding: self.encoding,
            directories,
            summary_now: self.summary_now,
            accounts: &self.options.accounts,
            hashing: None,
        }
    }

    fn emit_findings(
        &mut self,
        source: &ScanSource,
        memory: &Memory,
        findings: Vec<Finding>,
    ) -> Result<(), ScanError> {
        let context = self.context(source, memory, None);
        let none = Batch::default();
        let group = xfs_format::AgNumber(0);
        let emitted = Emitter::new(&context).emit([Ok((group, none, findings))])?;
        append_emitted(&mut self.appender, memory, &mut self.report, emitted)
    }
}

/// The state of a worker that reads units. On drop, the worker hands over the links that it has
/// found.
struct ReadWorker<'a> {
    reader: UnitReader<'a>,
    out_of_line: OutOfLineReader<'a>,
    links: &'a Mutex<Vec<LinkBuckets>, Volume>,
}

impl Drop for ReadWorker<'_> {
    fn drop(&mut self) {
        self.links.lock().push(std::mem::take(&mut self.out_of_line.links));
    }
}

/// Collects the directories among the rows of a batch, each with its first link (parent directory
/// and name).
fn note_directories(batch: &Batch, memory: &Memory) -> Result<DirectoryPart, ScanError> {
    let mut directories = DirectoryPart::default();
    for row in batch.rows.iter().filter(|row| row.file_type() == Some(FileType::Directory)) {
        directories.push(row.ino, row.generation, batch.items(row).links().next());
    }
    memory.reserve_table(directories.memory_bytes())?;
    Ok(directories)
}

fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

type PieceUnits = Vec<(xfs_format::AgNumber, StoredUnit)>;

/// Groups successive units of work into pieces of the output. One worker encodes each piece.
fn into_pieces(
    units: impl Iterator<Item = (xfs_format::AgNumber, StoredUnit)>,
    units_per_piece: usize,
) -> Vec<Mutex<PieceUnits, Volume>> {
    let mut pieces: Vec<PieceUnits> = Vec::new();
    for unit in units {
        match pieces.last_mut() {
            Some(piece) if piece.len() < units_per_piece => piece.push(unit),
            _ => pieces.push(vec![unit]),
        }
    }
    pieces.into_iter().map(Mutex::new).collect()
}

fn append_emitted(
    appender: &mut Option<Appender<'_>>,
    memory: &Memory,
    report: &mut ScanReport,
    emitted: Emitted,
) -> Result<(), ScanError> {
    report.inodes += emitted.inodes;
    report.findings += emitted.findings;
    report.corruptions += emitted.corruptions;
    report.missing_inodes += emitted.missing_inodes;
    if let (Some(summary), Some(part)) = (&mut report.summary, emitted.summary) {
        summary.merge(*part);
    }
    let Some(appender) = appender else { return Ok(()) };
    for part in emitted.parts {
        let piece = match part {
            EmittedPart::Piece(piece) => piece,
            EmittedPart::Spilled(spilled, facts) => {
                let mut lines = Vec::new();
                memory.append(spilled, &mut lines)?;
                OutputPiece { rows: Some(Rows::Lines(lines)), facts }
            }
        };
        appender.append(piece)?;
    }
    Ok(())
}

fn report_progress(
    options: &ScanOptions,
    inodes_read: u64,
    inodes_written: u64,
    inodes_total: u64,
) {
    if let Some(progress) = &options.progress {
        progress(Progress { inodes_read, inodes_written, inodes_total });
    }
}
