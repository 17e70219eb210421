//! A separate process that looks files up through the kernel, with a memory limit of its own.
//!
//! ```text
//!  this process                                    worker
//!    starts it
//!    a line: which directory, how much   ────────►   starts threads, which look a few files up
//!    puts it into a group                ◄────────   a line: ready
//!    a line: go                          ────────►   looks the files up
//!    what the group has in memory        ◄────────   a line: how long it took
//!    closes its input                    ────────►   ends
//! ```
//!
//! # Invariants
//!
//! - **I1** The worker allocates its own memory before it enters its memory cgroup, so this memory
//!   is not charged to the group. Hardly anything except inodes is charged to the group.
//! - **I2** Neither the worker process nor its group outlives the [`Worker`]. If the parent process
//!   is killed, the worker ends when its work is done.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::error::WorkloadError;
use crate::memory::{MemoryGroup, MemoryUse};
use crate::parallel::join;
use crate::target::Performed;
use crate::target::kernel::KernelDirectory;
use crate::work::{Work, WorkStep};

/// Number of files that each thread of the worker looks up before the worker reports that it is
/// ready.
const FIRST_FILES: u64 = 8;

/// Interval at which the parent process checks whether the run must end early.
const TICK: Duration = Duration::from_millis(100);
/// The fixed part of a worker's time limit. For each lookup, many times its usual duration is
/// added. A limit is needed because a worker that gets no memory may wait for ever.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_EACH: Duration = Duration::from_millis(1);

/// Returns the time limit for the lookups of `work`.
fn patience(work: &Work) -> Duration {
    let operations = u32::try_from(work.operations(WorkStep::Visit)).unwrap_or(u32::MAX);
    LEAST_PATIENCE + PATIENCE_EACH.saturating_mul(operations)
}

/// A request to a worker: the directory, and the lookups to perform in it.
#[derive(Serialize, Deserialize)]
struct WorkerRequest {
    path: PathBuf,
    work: Work,
}

/// A message from a worker to its parent.
#[derive(Debug, Serialize, Deserialize)]
enum WorkerReply {
    Ready,
    /// The lookups are done. The first value is the time until the last thread had finished. The
    /// second value is the time until no deferred work was left.
    Done(Duration, Duration),
    Failed(String),
}

/// Serves one request from `input` and writes its result to `output`. Returns at the end of
/// `input`. A process that [`Watcher::worker`](crate::Watcher::worker) starts calls this function.
///
/// # Errors
///
/// The host's error of input or output.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    let request: WorkerRequest = serde_json::from_str(&line)?;
    let mut go = || {
        say(&mut output, &WorkerReply::Ready)?;
        input.read_line(&mut line).map(drop)
    };
    let reply = match look_up(&request, &mut go) {
        Ok((worked, drained)) => WorkerReply::Done(worked, drained),
        Err(error) => WorkerReply::Failed(error.to_string()),
    };
    say(&mut output, &reply)?;
    io::copy(&mut input, &mut io::sink()).map(drop)
}

fn say(output: &mut impl Write, reply: &WorkerReply) -> io::Result<()> {
    serde_json::to_writer(&mut *output, reply)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// Looks up the files of the request. Each thread looks up a few files first, and then waits until
/// `go` returns. Only the time after that is measured.
fn look_up(
    WorkerRequest { path, work }: &WorkerRequest,
    go: &mut dyn FnMut() -> io::Result<()>,
) -> Result<(Duration, Duration), WorkloadError> {
    let directory = &KernelDirectory::open(path)?;
    let first = &Work { files: work.files.min(FIRST_FILES), ..*work };
    thread::scope(|scope| {
        let (ready, all_ready) = mpsc::channel::<()>();
        let (gates, threads): (Vec<_>, Vec<_>) = (0..work.threads)
            .map(|thread| {
                let (gate, opened) = mpsc::channel::<()>();
                let ready = ready.clone();
                let look_up = move || {
                    directory.visit(thread, first)?;
                    // Both channels are only closed.
                    drop(ready);
                    _ = opened.recv();
                    directory.visit(thread, work)
                };
                (gate, scope.spawn(look_up))
            })
            .unzip();
        drop(ready);
        _ = all_ready.recv();
        let gone = go();
        let start = Instant::now();
        drop(gates);
        join(threads)?;
        gone.map_err(failed)?;
        let worked = start.elapsed();
        directory.sync()?;
        Ok((worked, start.elapsed()))
    })
}

/// The times of the lookups, and the memory that they took.
pub(crate) struct VisitOutcome {
    pub(crate) performed: Performed,
    pub(crate) footprint: MemoryFootprint,
}

/// The memory that is charged to a worker: that of the inodes that its lookups read, and all other
/// memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryFootprint {
    /// Number of bytes of the inodes, with all objects that belong to them.
    pub(crate) inodes_bytes: u64,
    /// Number of bytes of all memory of the worker except that of the inodes.
    base_bytes: u64,
}

impl MemoryFootprint {
    fn new(before: MemoryUse, after: MemoryUse) -> Self {
        let inodes_bytes = after.objects_bytes.saturating_sub(before.objects_bytes);
        Self { inodes_bytes, base_bytes: after.total_bytes.saturating_sub(inodes_bytes) }
    }

    /// Checks that the kernel charged the memory of `files` inodes to the group. Some kernels do
    /// not.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Unavailable`] if it was not charged.
    pub(crate) fn check_counted(self, files: u64) -> Result<Self, WorkloadError> {
        if self.inodes_bytes >= files * LEAST_INODE_BYTES {
            return Ok(self);
        }
        let counted = self.inodes_bytes;
        Err(unavailable(format!(
            "its memory cgroups charge only {counted} bytes for {files} inodes"
        )))
    }

    /// Returns the memory limit in bytes that leaves `inodes_bytes` bytes for inodes.
    pub(crate) const fn limit(self, inodes_bytes: u64) -> u64 {
        self.base_bytes + inodes_bytes
    }
}

/// A lower bound of the memory of an XFS inode in any kernel, in bytes.
const LEAST_INODE_BYTES: u64 = 512;

/// Looks files up in a new process in a new memory cgroup. `limit` is the memory limit of the group
/// in bytes, if any.
///
/// # Errors
///
/// [`WorkloadError::Unavailable`] if this machine cannot do that. Otherwise the first error.
pub(crate) fn visit(
    command: Option<Command>,
    limit: Option<u64>,
    path: &Path,
    work: &Work,
    is_over: &dyn Fn() -> bool,
) -> Result<VisitOutcome, WorkloadError> {
    let command =
        command.ok_or_else(|| unavailable("no process can be started for it".to_owned()))?;
    let name = format!("ferroxfs-bench-{}", std::process::id());
    let group = MemoryGroup::create(&name).map_err(unavailable)?;
    let refused = |error: io::Error| unavailable(format!("a memory cgroup: {error}"));
    if let Some(bytes) = limit {
        group.limit(bytes).map_err(refused)?;
    }
    // Dropped before the group (I2).
    let mut worker = Worker::start(command)?;
    worker.prepare(path, work, is_over)?;
    // Memory that the worker has allocated until now does not count in the group (I1).
    group.admit(worker.child.id()).map_err(refused)?;
    let before = group.memory_use().map_err(refused)?;
    let performed = worker.work(work, is_over)?;
    let after = group.memory_use().map_err(refused)?;
    worker.end()?;
    Ok(VisitOutcome { performed, footprint: MemoryFootprint::new(before, after) })
}

fn unavailable(why: String) -> WorkloadError {
    WorkloadError::Unavailable { what: "the kernel with little memory".to_owned(), why }
}

struct Worker {
    child: Child,
    /// The standard input of the worker. Set to `None`, which closes it, when the worker must end.
    input: Option<ChildStdin>,
    /// The lines that the worker writes to its standard output.
    replies: mpsc::Receiver<io::Result<String>>,
}

impl Worker {
    fn start(mut command: Command) -> Result<Self, WorkloadError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (said, replies) = mpsc::channel();
        // The thread ends with the worker, whose output is closed then.
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            lines.map_while(|line| said.send(line).ok()).for_each(drop);
        });
        Ok(Self { child, input, replies })
    }

    /// Sends the request to the worker, and waits until the worker reports that it is ready.
    fn prepare(
        &mut self,
        path: &Path,
        work: &Work,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), WorkloadError> {
        let request = WorkerRequest { path: path.to_owned(), work: *work };
        let line = serde_json::to_string(&request).map_err(|error| failed(error.into()))?;
        match self.ask(&line, patience(work), is_over)? {
            WorkerReply::Ready => Ok(()),
            reply => Err(unexpected(reply)),
        }
    }

    /// Starts the lookups, and waits until they are done.
    fn work(
        &mut self,
        work: &Work,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Performed, WorkloadError> {
        match self.ask("go", patience(work), is_over)? {
            WorkerReply::Done(worked, drained) => {
                let operations = work.operations(WorkStep::Visit);
                Ok(Performed { operations, worked, drained, is_certain: true })
            }
            reply => Err(unexpected(reply)),
        }
    }

    /// Sends a line to the worker, and waits up to `patience` for its answer.
    fn ask(
        &mut self,
        line: &str,
        patience: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Result<WorkerReply, WorkloadError> {
        // A worker that has ended sends nothing. Its exit status has the reason.
        let is_told = self.input.as_mut().is_some_and(|input| writeln!(input, "{line}").is_ok());
        let start = Instant::now();
        while is_told && !is_over() {
            match self.replies.recv_timeout(TICK) {
                Ok(said) => {
                    let said = said.map_err(failed)?;
                    return serde_json::from_str(&said).map_err(|error| failed(error.into()));
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if start.elapsed() < patience => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(unavailable(format!(
                        "not finished in {} seconds: a tenth may be too little for so few --files, and the \
                         process waits for memory",
                        patience.as_secs()
                    )));
                }
            }
        }
        if is_over() {
            return Err(WorkloadError::Interrupted);
        }
        Err(ended(self.wait()?))
    }

    /// Ends the worker and waits until its process has ended.
    fn end(mut self) -> Result<(), WorkloadError> {
        self.wait().map(drop)
    }

    fn wait(&mut self) -> Result<ExitStatus, WorkloadError> {
        self.input = None;
        self.child.wait().map_err(failed)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A process that has ended cannot be killed, and is already reaped.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Returns the error for a worker process that ended with this status and sent no answer.
fn ended(status: ExitStatus) -> WorkloadError {
    match status.signal() {
        Some(signal) if signal == Signal::KILL.as_raw() => unavailable(
            "a tenth is too little for so few --files: the process was killed".to_owned(),
        ),
        // A signal of the terminal reaches both processes.
        Some(signal) if [Signal::INT, Signal::TERM].iter().any(|end| end.as_raw() == signal) => {
            WorkloadError::Interrupted
        }
        _ => failed(io::Error::other(status.to_string())),
    }
}

fn unexpected(reply: WorkerReply) -> WorkloadError {
    match reply {
        WorkerReply::Failed(why) => failed(io::Error::other(why)),
        reply => failed(io::Error::other(format!("unexpected message {reply:?}"))),
    }
}

fn failed(source: io::Error) -> WorkloadError {
    WorkloadError::System { what: "a process that works in a memory cgroup", source }
}

#[cfg(test)]
mod tests;
