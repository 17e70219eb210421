//! The scan of a volume as a stream of Arrow record batches.
//!
//! The scan runs in threads of its own. A bounded channel joins it to the reader of the stream, so
//! that a slow reader slows the scan down and memory stays bounded.
//!
//! ```text
//! scan threads -> Output::arrow -> channel of CHANNEL_BATCHES -> BatchReader -> pyarrow, polars …
//! ```

use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::prelude::{Bound, PyAny, PyResult, Python, pyclass, pymethods};
use pyo3::types::PyCapsule;
use xfs_scan::{
    FactsFormat, Field, Fields, Header, Output, ScanError, ScanOptions, ScanSource, arrow_schema,
    scan,
};
use xfs_sync::{AtomicBool, Mutex, Object, Ordering};

use crate::errors::Failure;

/// Record batches that wait for the reader of a stream.
const CHANNEL_BATCHES: usize = 16;

/// Totals of the last stream that was read to its end: inodes, findings, inodes without a row, and
/// the findings as lines of NDJSON.
type Totals = (u64, u64, u64, String);

/// The arguments of `Volume.scan`.
pub(crate) struct ScanArguments {
    pub(crate) fields: Option<Vec<String>>,
    pub(crate) threads: usize,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) strict: bool,
}

/// A scan that can be read as an Arrow stream, any number of times.
#[pyclass(frozen, module = "ferroxfs._native")]
pub(crate) struct Scan {
    request: Request,
    totals: Arc<Mutex<Option<Totals>, Object>>,
}

/// Everything that a run of the scan needs.
#[derive(Clone)]
struct Request {
    source: ScanSource,
    fields: Fields,
    threads: usize,
    memory_bytes: Option<u64>,
    needs_gil: bool,
    /// Whether a finding makes the stream end with an error.
    strict: bool,
}

impl Scan {
    pub(crate) fn new(
        volume: &ferroxfs::Volume,
        wanted: ScanArguments,
        needs_gil: bool,
    ) -> Result<Self, Failure> {
        let ScanArguments { fields, threads, memory_bytes, strict } = wanted;
        let mut chosen = Fields::default();
        if let Some(names) = fields {
            chosen = Fields::EMPTY;
            for name in names {
                let field = Field::from_str(&name);
                chosen = chosen.with(field.map_err(|error| Failure::Value(error.to_string()))?);
            }
        }
        let source = ScanSource::from(volume);
        let request = Request { source, fields: chosen, threads, memory_bytes, needs_gil, strict };
        Ok(Self { request, totals: Arc::default() })
    }
}

#[pymethods]
impl Scan {
    /// Exports a stream of record batches, which starts a run of the scan when it is first read.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer ignore the wish for another schema.
        drop(requested_schema);
        let reader = BatchReader {
            schema: arrow_schema(self.request.fields),
            state: State::Waiting(self.request.clone()),
            strict: self.request.strict,
            totals: Arc::clone(&self.totals),
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Returns the totals of the last stream that was read to its end.
    fn totals(&self, py: Python<'_>) -> Option<Totals> {
        py.detach(|| self.totals.lock().clone())
    }
}

/// Reads the record batches of one run.
struct BatchReader {
    schema: SchemaRef,
    state: State,
    strict: bool,
    totals: Arc<Mutex<Option<Totals>, Object>>,
}

enum State {
    /// Nothing was read yet, and nothing runs.
    Waiting(Request),
    Running(Run),
    Ended,
}

/// A run of the scan in a thread of its own.
struct Run {
    batches: Mutex<Receiver<RecordBatch>, Object>,
    thread: JoinHandle<Result<Totals, ScanError>>,
    is_cancelled: Arc<AtomicBool<Object>>,
    needs_gil: bool,
}

impl Run {
    fn start(request: Request) -> io::Result<Self> {
        let (sender, batches) = sync_channel(CHANNEL_BATCHES);
        let is_cancelled = Arc::new(AtomicBool::<Object>::new(false));
        let (cancelled, needs_gil) = (Arc::clone(&is_cancelled), request.needs_gil);
        let thread = Builder::new()
            .name("ferroxfs-scan".to_owned())
            .spawn(move || run(&request, &sender, cancelled))?;
        let batches = Mutex::new(batches);
        Ok(Self { batches, thread, is_cancelled, needs_gil })
    }

    /// Waits for the next batch. `None`: the run has ended.
    fn next(&self) -> Option<RecordBatch> {
        release_gil(self.needs_gil, || self.batches.lock().recv().ok())
    }

    fn join(self) -> Result<Totals, ScanError> {
        // A run that is cancelled must not wait for room in the channel.
        drop(self.batches);
        release_gil(self.needs_gil, || self.thread.join().unwrap_or(Err(ScanError::WorkerLost)))
    }
}

/// Runs `wait` without the GIL, whether or not this thread holds it. Only a device that is a Python
/// object needs the GIL meanwhile. Other readers may have no interpreter.
fn release_gil<R: Send>(needs_gil: bool, wait: impl FnOnce() -> R + Send) -> R {
    if needs_gil { Python::attach(|py| py.detach(wait)) } else { wait() }
}

fn run(
    request: &Request,
    sender: &SyncSender<RecordBatch>,
    cancelled: Arc<AtomicBool<Object>>,
) -> Result<Totals, ScanError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let header = Header { scan_time: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX) };
    let mut options = ScanOptions {
        fields: request.fields,
        threads: request.threads,
        cancel: Some(Arc::new(move || cancelled.load(Ordering::Relaxed))),
        ..ScanOptions::default()
    };
    if let Some(bytes) = request.memory_bytes {
        options.memory_bytes = bytes;
    }
    let mut facts = Vec::new();
    let output = Output::arrow(request.fields, header, |batch| {
        sender.send(batch).map_err(|_| ScanError::Cancelled)
    });
    let output = output.facts_to(FactsFormat::Ndjson, Box::new(&mut facts))?;
    let report = scan(std::slice::from_ref(&request.source), &options, Some(output))?;
    let facts = String::from_utf8_lossy(&facts).into_owned();
    Ok((report.inodes, report.findings, report.missing_inodes, facts))
}

impl BatchReader {
    /// Ends the run, and keeps its totals. Returns its error, if it has one.
    fn end(&mut self) -> Option<ArrowError> {
        let State::Running(run) = std::mem::replace(&mut self.state, State::Ended) else {
            return None;
        };
        match run.join() {
            Ok(totals) => {
                let findings = totals.1;
                *self.totals.lock() = Some(totals);
                // An incomplete table must not pass for a whole one.
                (self.strict && findings > 0).then(|| {
                    let text = format!(
                        "the volume is damaged: {findings} finding(s); scan with strict=False to \
                         read the rest, and see totals.findings"
                    );
                    ArrowError::ExternalError(text.into())
                })
            }
            Err(error) => Some(ArrowError::ExternalError(Box::new(error))),
        }
    }
}

impl Iterator for BatchReader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let State::Waiting(request) = &self.state {
            match Run::start(request.clone()) {
                Ok(run) => self.state = State::Running(run),
                Err(error) => {
                    self.state = State::Ended;
                    return Some(Err(ArrowError::ExternalError(Box::new(error))));
                }
            }
        }
        let State::Running(run) = &self.state else { return None };
        match run.next() {
            Some(batch) => Some(Ok(batch)),
            None => self.end().map(Err),
        }
    }
}

impl RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for BatchReader {
    /// Cancels a run that was not read to its end.
    fn drop(&mut self) {
        if let State::Running(run) = std::mem::replace(&mut self.state, State::Ended) {
            run.is_cancelled.store(true, Ordering::Relaxed);
            drop(run.join());
        }
    }
}
