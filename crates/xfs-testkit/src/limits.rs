//! Running a test in a process of its own, under limits that the operating system enforces.
//!
//! "It never hangs and its memory is bounded" is shown by a process that would have been killed.
//!
//! The limit is on address space, and shall measure what the code under test asks for. The C library
//! sets aside 64 MiB of it for each thread that allocates, and up to eight such arenas for each
//! processor: how many there are at once depends on when ended threads are gone, so on the machine and
//! its load. The process has one arena instead, which makes it slower and nothing else.

use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

/// Set in the process that runs under limits.
const MARK: &str = "FERROXFS_TEST_UNDER_LIMITS";

/// Address space of each thread's stack in the process of [`run_with_threads`]: so much that there is
/// no doubt about how many threads fit.
const LARGE_STACK_BYTES: u64 = 256 << 20;

/// Time on processors for it.
const CPU_SECONDS: u64 = 120;

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
    if is_inside() {
        apply(limits);
        body();
        return;
    }
    run_again(test, &[], &format!("{limits:?}"));
}

/// Runs `body` in a new process in which few threads can be started, and fails the calling test if the
/// process does not end well.
///
/// # Panics
///
/// If the process does not end well, with what it printed.
pub fn run_with_threads(test: &str, body: impl FnOnce(&ThreadLimit)) {
    if is_inside() {
        let seconds = Rlimit { current: Some(CPU_SECONDS), maximum: None };
        setrlimit(Resource::Cpu, seconds).expect("a limit can be lowered");
        let (threads, bytes) = (own_status("Threads:"), own_status("VmSize:") << 10);
        body(&ThreadLimit { threads, bytes });
        return;
    }
    let stack_bytes = LARGE_STACK_BYTES.to_string();
    run_again(test, &[("RUST_MIN_STACK", &stack_bytes)], "a limit on threads");
}

/// How many threads a process may have.
#[derive(Debug)]
pub struct ThreadLimit {
    /// Threads of the test program itself.
    threads: u64,
    /// Address space before anything was started: stacks of threads that have ended are kept for
    /// those to come, and count among what is allowed.
    bytes: u64,
}

impl ThreadLimit {
    /// Lets the process start so many threads, and no more, that run at once. It may be called again
    /// with more, while none of them runs.
    ///
    /// # Panics
    ///
    /// If the system does not do it.
    pub fn allow(&self, count: u64) {
        // A thread that was joined may not be quite gone.
        while own_status("Threads:") > self.threads {
            std::thread::yield_now();
        }
        // The body itself may use as much as half a stack.
        let most = self.bytes + LARGE_STACK_BYTES * count + LARGE_STACK_BYTES / 2;
        setrlimit(Resource::As, Rlimit { current: Some(most), maximum: None })
            .expect("a limit can be lowered");
    }
}

/// A number in what the system tells about this process.
fn own_status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process has a status");
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.expect("it is a number")
}

fn is_inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs a test in a process of its own.
fn run_again(test: &str, variables: &[(&str, &str)], under: &str) {
    let program = std::env::current_exe().expect("a test knows its own program");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(MARK, "1");
    command.env("MALLOC_ARENA_MAX", "1").envs(variables.iter().copied());
    let output = command.stdin(Stdio::null()).output().expect("a test can start its own program");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "under {under} the test ended with {}\n{printed}\n{errors}",
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
