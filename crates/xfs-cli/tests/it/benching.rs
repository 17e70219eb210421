//! Tests of `bench` through the program. The workloads have tests of their own.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{GoldenDir, transcript};

/// Arguments of `bench` that make a run short.
const SMALL: [&str; 7] = ["--threads", "1,2", "--files", "20", "--runs", "1", "--log-size=64m"];

fn run(place: &GoldenDir, more: &[&str]) -> String {
    let output = place.run(&[&["bench"], &SMALL[..], more].concat());
    let text = transcript(&output);
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn one_run_gives_text_json_and_a_page() {
    let place = GoldenDir::new();
    let more = ["create,unlink", "--no-before", "--json", "figures", "--html", "page"];
    let text = run(&place, &more);
    assert!(text.contains("files: ferroxfs, operations per second"), "{text}");
    assert!(text.contains("Not measured:"), "{text}");
    let json: Value =
        serde_json::from_slice(&fs::read(place.path().join("figures")).unwrap()).unwrap();
    assert_eq!(json["schema_version"], 1);
    // There is a volume for each thread if there are enough processors.
    let measurements = json["measurements"].as_array().unwrap();
    let ours = measurements.iter().filter(|one| one["variant"] == "ours");
    let steps: Vec<_> = ours.map(|one| one["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["create", "unlink", "create", "unlink"]);
    let page = fs::read_to_string(place.path().join("page")).unwrap();
    assert_eq!(page.matches("<svg").count(), 2);
    // The golden image and these two files.
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
}

#[test]
fn folder_is_left_as_it_was() {
    let place = GoldenDir::new();
    run(&place, &["create", "--folder", "."]);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn invalid_arguments_are_refused() {
    let place = GoldenDir::new();
    for (arguments, code) in [
        (&["bench", "juggle"][..], 2),
        (&["bench", "--threads", "0"], 2),
        (&["bench", "commit", "--log-size=64k"], 2),
        (&["bench", "commit", "--log-size=4g"], 2),
        (&["bench", "create", "--kernel", "/proc"], 1),
        (&["bench", "create", "--folder", "nowhere"], 1),
    ] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", transcript(&output));
    }
}

/// Checks that a second interrupt ends a run at once, by the signal. The first interrupt must come
/// during a long step, which the run would still finish. If it comes earlier, it ends the run, and
/// the test is repeated with a longer delay.
#[test]
fn second_interrupt_does_not_wait() {
    let tries = 1..=20;
    let mut ends = tries.map(|n| interrupted_after(Duration::from_millis(50 * n)));
    assert!(ends.any(|ended| ended.signal() == Some(SIGINT)));
}

const SIGINT: i32 = 2;

/// Starts a run of `bench`, waits until it has a handler for SIGINT, and then waits for `delay`.
/// Then sends SIGINT again and again until the run ends. Returns the exit status of the run.
fn interrupted_after(delay: Duration) -> ExitStatus {
    // The program leaves an ignored signal ignored, so a run in the background of a script would
    // never catch it.
    let mut bench = Command::new("env")
        .args(["--default-signal=INT", env!("CARGO_BIN_EXE_ferroxfs")])
        .args(["bench", "create", "--threads=1", "--files=10000000", "--no-before"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", bench.id());
    let is_caught = |line: &str| {
        let mask = line.strip_prefix("SigCgt:").map(|mask| u64::from_str_radix(mask.trim(), 16));
        mask.is_some_and(|mask| mask.unwrap() & (1 << (SIGINT - 1)) != 0)
    };
    while !fs::read_to_string(&status).unwrap().lines().any(is_caught) {
        std::thread::yield_now();
    }
    std::thread::sleep(delay);
    loop {
        Command::new("kill").args(["-INT", &bench.id().to_string()]).status().unwrap();
        if let Some(ended) = bench.try_wait().unwrap() {
            break ended;
        }
    }
}
