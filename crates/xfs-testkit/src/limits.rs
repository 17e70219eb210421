//! Runs a test in its own process, under limits that the operating system enforces.
//!
//! A process that is not killed under these limits shows that the code does not hang and that its
//! memory is bounded.
//!
//! The memory limit is on address space and must measure only the allocations of the code under
//! test. The C library reserves 64 MiB of address space for each thread that allocates, in up to
//! eight arenas per processor. The number of arenas depends on when ended threads are cleaned up,
//! and so on the machine and its load. The process therefore gets only one arena, whose only effect
//! is that it runs slower.

use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, setrlimit};

/// Environment variable that tells the test program that it is the new process, which runs under
/// the limits.
const MARK: &str = "FERROXFS_TEST_UNDER_LIMITS";

/// Size in bytes of each thread's stack in the process of [`run_with_threads`]. It is large
/// compared with all other allocations, so these do not change how many threads fit under the
/// limit.
const LARGE_STACK_BYTES: u64 = 256 << 20;

/// Limit on the processor time of the process of `run_with_threads`, in seconds.
const CPU_SECONDS: u64 = 120;

/// The largest amounts of resources that a process may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Address space in bytes: all mappings, including the program and its stacks.
    pub memory_bytes: u64,
    /// Processor time of all threads together, in seconds.
    pub cpu_seconds: u64,
}

/// Runs `body` in a new process under limits.
///
/// The calling test fails if the process panics, runs out of memory, or is killed because it used
/// up its processor time. `test` is the full name of the calling test; the new process runs only
/// that test.
///
/// # Panics
///
/// Panics if the process fails. The message contains its output.
pub fn run_limited(test: &str, limits: Limits, body: impl FnOnce()) {
    if is_inside() {
        apply(limits);
        body();
        return;
    }
    run_again(test, &[], &format!("{limits:?}"));
}

/// Runs `body` in a new process and gives it a `ThreadLimit`, with which `body` sets how many
/// threads the process can start. The calling test fails if the process fails.
///
/// # Panics
///
/// Panics if the process fails. The message contains its output.
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

/// A limit on the number of threads of this process.
#[derive(Debug)]
pub struct ThreadLimit {
    /// Number of threads that the process had before the body of the test started.
    threads: u64,
    /// Address space in bytes that was in use before the body of the test started. Stacks of ended
    /// threads are kept for new threads and count towards the limit.
    bytes: u64,
}

impl ThreadLimit {
    /// Limits the body of the test to `count` threads at a time. To raise the limit, call the
    /// function again while none of these threads runs.
    ///
    /// # Panics
    ///
    /// Panics if the system refuses the limit.
    pub fn allow(&self, count: u64) {
        // A joined thread may still exist for a moment.
        while own_status("Threads:") > self.threads {
            std::thread::yield_now();
        }
        // The body itself may use up to half a stack.
        let most = self.bytes + LARGE_STACK_BYTES * count + LARGE_STACK_BYTES / 2;
        setrlimit(Resource::As, Rlimit { current: Some(most), maximum: None })
            .expect("a limit can be lowered");
    }
}

/// Returns the number after the key `name` in /proc/self/status.
fn own_status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status exists");
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.expect("the field of /proc/self/status is a number")
}

fn is_inside() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs the test `test` in a process of its own, with the environment variables `variables`.
/// `under` describes the limits in the panic message of a failure.
fn run_again(test: &str, variables: &[(&str, &str)], under: &str) {
    let program = std::env::current_exe().expect("the path of the test program is known");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(MARK, "1");
    command.env("MALLOC_ARENA_MAX", "1").envs(variables.iter().copied());
    let output = command.stdin(Stdio::null()).output().expect("the test program can be started");
    let printed = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the test failed under {under}: {}\n{printed}\n{errors}",
        output.status
    );
    // With a name that no test has, the program runs nothing and succeeds.
    assert!(printed.contains("1 passed"), "there is no test {test}\n{printed}");
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
