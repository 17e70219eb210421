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

/// What comes of a worker that is this script.
fn ask(script: &str) -> Result<Performed, WorkloadError> {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let (mut worker, work) = (Worker::start(command).unwrap(), Work::new(1, 3));
    worker.prepare(Path::new("/proc"), &work, &|| false)?;
    worker.work(&work, &|| false)
}

/// How a script begins that is ready, and was told to go.
const READY: &str = "read x; echo '\"Ready\"'; read x;";

#[test]
fn an_answer_is_read() {
    let times = r#"{"secs":2,"nanos":5}"#;
    let performed = ask(&format!(r#"{READY} echo '{{"Done":[{times},{times}]}}'; read x"#));
    let performed = performed.unwrap();
    assert_eq!((performed.operations, performed.drained.subsec_nanos()), (6, 5));
}

#[test]
fn one_that_is_killed_had_too_little() {
    for script in ["kill -KILL $$", &format!("{READY} kill -KILL $$")] {
        assert!(matches!(ask(script), Err(WorkloadError::Unavailable { .. })), "{script}");
    }
}

#[test]
fn one_that_fails_is_an_error() {
    let answers = ["exit 3", "exit 0", "kill -ALRM $$", "echo nonsense", "echo '\"Ready\"'"];
    for answer in answers {
        let scripts = [format!("read x; {answer}"), format!("{READY} {answer}")];
        for script in &scripts {
            assert!(matches!(ask(script), Err(WorkloadError::System { .. })), "{script}");
        }
    }
}

#[test]
fn one_that_is_interrupted_ends_the_run() {
    for script in ["kill -TERM $$", &format!("{READY} kill -TERM $$")] {
        assert!(matches!(ask(script), Err(WorkloadError::Interrupted)), "{script}");
    }
    // A shell cannot send itself this one where the tests run in the background: it is ignored there.
    let interrupted = ExitStatus::from_raw(Signal::INT.as_raw());
    assert!(matches!(ended(interrupted), WorkloadError::Interrupted));
}

#[test]
fn who_is_interrupted_does_not_wait_for_it() {
    let mut command = Command::new("sh");
    command.args(["-c", "read x; read x"]);
    let mut worker = Worker::start(command).unwrap();
    let prepared = worker.prepare(Path::new("/proc"), &Work::new(1, 3), &|| true);
    assert!(matches!(prepared, Err(WorkloadError::Interrupted)));
}

/// One that gets no memory for a page of its own sleeps without end.
#[test]
fn one_that_never_answers_is_not_waited_for_long() {
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

/// What is asked for is understood by who serves it; here, that it cannot be done.
#[test]
fn a_request_is_served() {
    let request = super::WorkerRequest { path: "/proc".into(), work: Work::new(1, 3) };
    let line = serde_json::to_string(&request).unwrap() + "\n";
    let mut output = Vec::new();
    serve(Cursor::new(line), &mut output).unwrap();
    let reply = serde_json::from_slice(&output).unwrap();
    let WorkerReply::Failed(why) = reply else { panic!("{reply:?}") };
    assert!(why.contains("no directory of a mounted XFS volume"));
}

#[test]
fn the_bound_leaves_the_rest_of_the_process_its_memory() {
    let before = MemoryUse { total_bytes: 1_000, objects_bytes: 300 };
    let after = MemoryUse { total_bytes: 91_500, objects_bytes: 90_300 };
    let footprint = MemoryFootprint::new(before, after);
    assert_eq!((footprint.inodes_bytes, footprint.base_bytes), (90_000, 1_500));
    assert_eq!(footprint.limit(9_000), 10_500);
    footprint.check_counted(100).unwrap();
    let uncounted = footprint.check_counted(1_000);
    assert!(matches!(uncounted, Err(WorkloadError::Unavailable { .. })));
}
