//! Running a test in a process of its own, under limits that the operating system enforces.
//!
//! "It never hangs and its memory is bounded" is shown by a process that would have been killed.

use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

/// Set in the process that runs under limits.
const MARK: &str = "FERROXFS_TEST_UNDER_LIMITS";

/// What a process may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Address space: everything that is mapped, the program and its stacks included.
    pub memory_bytes: u64,
    /// Time on processors, of all threads together.
    pub cpu_seconds: u64,
}

/// Runs `body` in a new process under limits, and fails the calling test if the process does not
/// end well: by a panic, by running out of memory, or by being killed for its time.
///
/// `test` is the full name of the calling test; the new process runs that test and nothing else.
///
/// # Panics
///
/// If the process does not end well, with what it printed.
pub fn run_limited(test: &str, limits: Limits, body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        apply(limits);
        body();
        return;
    }
    let program = std::env::current_exe().expect("a test knows its own program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(MARK, "1");
    let output = command.stdin(Stdio::null()).output().expect("a test can start its own program");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "under {limits:?} the test ended with {}\n{printed}\n{errors}",
        output.status
    );
    // A name that no test has runs nothing, successfully.
    assert!(printed.contains("1 passed"), "no test is called {test}\n{printed}");
}

fn apply(limits: Limits) {
    let limit = |value| Rlimit { current: Some(value), maximum: Some(value) };
    setrlimit(Resource::As, limit(limits.memory_bytes)).expect("a limit can be lowered");
    setrlimit(Resource::Cpu, limit(limits.cpu_seconds)).expect("a limit can be lowered");
    // A process that is killed on purpose leaves no core file.
    setrlimit(Resource::Core, limit(0)).expect("a limit can be lowered");
}

#[cfg(test)]
mod tests;
