use std::io::Cursor;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;

use super::{MemoryFootprint, Worker, WorkerReply, ended, patience, serve};
use crate::WorkloadError;
use crate::memory::MemoryUse;
use crate::target::Performed;
use crate::work::Work;

/// Starts a shell with this script as the worker, and returns the result of its lookups.
fn ask(script: &str) -> Result<Performed, WorkloadError> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let (mut worker, work) = (Worker::start(command).unwrap(), Work::new(1, 3));
    worker.prepare(Path::new("/proc"), &work, &|| false)?;
    worker.work(&work, &|| false)
}

/// The start of a worker's script: it reads a request, reports that it is ready, and reads the line
/// "go".
const READY: &str = "read x; echo '\"Ready\"'; read x;";

#[test]
fn answer_of_a_worker_is_read() {
    let times = r#"{"secs":2,"nanos":5}"#;
    let performed = ask(&format!(r#"{READY} echo '{{"Done":[{times},{times}]}}'; read x"#));
    let performed = performed.unwrap();
    assert_eq!((performed.operations, performed.drained.subsec_nanos()), (6, 5));
}

#[test]
fn killed_worker_had_too_little_memory() {
    for script in ["kill -KILL $$", &format!("{READY} kill -KILL $$")] {
        assert!(matches!(ask(script), Err(WorkloadError::Unavailable { .. })), "{script}");
    }
}

#[test]
fn failed_worker_is_an_error() {
    let answers = ["exit 3", "exit 0", "kill -ALRM $$", "echo nonsense", "echo '\"Ready\"'"];
    for answer in answers {
        let scripts = [format!("read x; {answer}"), format!("{READY} {answer}")];
        for script in &scripts {
            assert!(matches!(ask(script), Err(WorkloadError::System { .. })), "{script}");
        }
    }
}

#[test]
fn interrupted_worker_ends_the_run() {
    for script in ["kill -TERM $$", &format!("{READY} kill -TERM $$")] {
        assert!(matches!(ask(script), Err(WorkloadError::Interrupted)), "{script}");
    }
    // A background shell ignores this signal, so it cannot send it to itself.
    let interrupted = ExitStatus::from_raw(Signal::INT.as_raw());
    assert!(matches!(ended(interrupted), WorkloadError::Interrupted));
}

#[test]
fn interrupted_run_does_not_wait_for_its_worker() {
    let mut command = Command::new("sh");
    command.args(["-c", "read x; read x"]);
    let mut worker = Worker::start(command).unwrap();
    let prepared = worker.prepare(Path::new("/proc"), &Work::new(1, 3), &|| true);
    assert!(matches!(prepared, Err(WorkloadError::Interrupted)));
}

/// Checks that the time limit ends the wait for a worker that never answers. A real worker that
/// gets no memory for a page of its own sleeps for ever.
#[test]
fn worker_that_never_answers_times_out() {
    let mut command = Command::new("sh");
    command.args(["-c", "read x; read x"]);
    let mut worker = Worker::start(command).unwrap();
    let asked = worker.ask("go", Duration::from_millis(1), &|| false);
    let Err(WorkloadError::Unavailable { why, .. }) = asked else { panic!("{asked:?}") };
    assert!(why.contains("too little for so few --files"), "{why}");
    // 12,000 lookups take a second.
    assert!(patience(&Work::new(1, 6_000)) < Duration::from_secs(90));
    assert!(patience(&Work::new(1, 6_000_000)) > Duration::from_secs(600));
}

/// Checks that [`serve`](super::serve) understands a request and answers it. The directory of the
/// request is not on XFS, so the answer is the reason for the failure.
#[test]
fn request_is_served() {
    let request = super::WorkerRequest { path: "/proc".into(), work: Work::new(1, 3) };
    let line = serde_json::to_string(&request).unwrap() + "\n";
    let mut output = Vec::new();
    serve(Cursor::new(line), &mut output).unwrap();
    let reply = serde_json::from_slice(&output).unwrap();
    let WorkerReply::Failed(why) = reply else { panic!("{reply:?}") };
    assert!(why.contains("not a directory of a mounted XFS volume"));
}

#[test]
fn limit_leaves_the_process_its_own_memory() {
    let before = MemoryUse { total_bytes: 1_000, objects_bytes: 300 };
    let after = MemoryUse { total_bytes: 91_500, objects_bytes: 90_300 };
    let footprint = MemoryFootprint::new(before, after);
    assert_eq!((footprint.inodes_bytes, footprint.base_bytes), (90_000, 1_500));
    assert_eq!(footprint.limit(9_000), 10_500);
    footprint.check_counted(100).unwrap();
    let uncounted = footprint.check_counted(1_000);
    assert!(matches!(uncounted, Err(WorkloadError::Unavailable { .. })));
}
