//! Tests of runs that SIGINT or SIGTERM stops at random points: such a run must never leave half a
//! file under its final name.
//!
//! Each signal is tried at two points of each command; with `FERROXFS_LONG=1` at a hundred.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use xfs_testkit::Prng;

const SIGNALS: [(Signal, i32); 2] = [(Signal::INT, 2), (Signal::TERM, 15)];
const SMALL_FILES: u32 = 60;
const LARGE_FILES: u32 = 12;
const LARGE_BYTES: usize = 1 << 20;

fn points() -> u64 {
    if std::env::var_os("FERROXFS_LONG").is_some() { 100 } else { 2 }
}

/// A directory for runs that are stopped: it holds a tree of files, and a volume with the same
/// files.
struct Bench {
    place: TempDir,
    contents: BTreeMap<PathBuf, Vec<u8>>,
}

impl Bench {
    fn new() -> Self {
        let place = TempDir::new().unwrap();
        let mut bytes = Prng::new(0x0005_eed0);
        let mut contents = BTreeMap::new();
        for number in 0..SMALL_FILES + LARGE_FILES {
            let length = if number < SMALL_FILES { 100 + number as usize } else { LARGE_BYTES };
            let text: Vec<u8> =
                (0..length / 8 + 1).flat_map(|_| bytes.number().to_be_bytes()).collect();
            contents.insert(PathBuf::from(format!("d{}/f{number}", number % 5)), text);
        }
        for (path, text) in &contents {
            let path = place.path().join("tree").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let big = contents.values().flatten().copied().collect::<Vec<u8>>();
        fs::write(place.path().join("big"), &big).unwrap();
        let bench = Self { place, contents };
        bench.check(&["mkfs", "-q", "-d", "size=320m", "--from", "tree", "image"]);
        bench.check(&["cp", "big", "image:/big"]);
        bench.check(&["mkfs", "-q", "-d", "size=320m", "empty"]);
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Starts a run that ignores no signal. A background job of a shell would ignore some.
    fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_ferroxfs")]);
        command.args(arguments).current_dir(self.place.path());
        command.env("SOURCE_DATE_EPOCH", "1700000000");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    #[track_caller]
    fn check(&self, arguments: &[&str]) {
        let ended = self.spawn(arguments).wait().unwrap();
        assert!(ended.success(), "{arguments:?}: {ended}");
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Stops runs of a command by signals at random points. `prepare` makes the starting state
    /// before each run. `verify` checks the files after a run; its argument says whether the run
    /// succeeded. Returns the number of runs that a signal has stopped. If a run ends before its
    /// signal arrives, the signals for later runs are sent earlier. Runs are repeated until at
    /// least one has been stopped.
    fn stop(&self, arguments: &[&str], prepare: impl Fn(u64), verify: impl Fn(bool)) -> u64 {
        prepare(0);
        let start = Instant::now();
        self.check(arguments);
        let mut window = start.elapsed();
        verify(true);
        let mut random = Prng::new(0x0005_709a);
        let (mut tried, mut stopped) = (0, 0);
        while tried < points() || (stopped == 0 && !window.is_zero()) {
            for (signal, number) in SIGNALS {
                prepare(tried);
                let before = self.names();
                let wait = window.mul_f64(random.number() as f64 / u64::MAX as f64);
                let ended = self.stopped_after(arguments, signal, wait);
                let is_stopped = ended.signal() == Some(number);
                assert!(is_stopped || ended.success(), "{arguments:?}: {ended} after {wait:?}");
                if is_stopped {
                    stopped += 1;
                } else {
                    // Runs are faster now than the first one was.
                    window = wait;
                }
                verify(ended.success());
                let after = self.names();
                let new: Vec<_> = after.iter().filter(|name| !before.contains(name)).collect();
                // At most the output itself.
                assert!(new.iter().all(|name| *name == "out"), "{arguments:?}: {new:?}");
            }
            tried += 1;
        }
        eprintln!("{}: {stopped} of {} stopped", arguments[0], 2 * tried);
        stopped
    }

    fn stopped_after(&self, arguments: &[&str], signal: Signal, wait: Duration) -> ExitStatus {
        let mut child = self.spawn(arguments);
        std::thread::sleep(wait);
        // A process that has ended is a zombie until it is waited for.
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap()
    }

    /// Stops runs that write the file `out`. Before one half of the runs the file exists, and
    /// before the other half it does not. After each run, `out` must be complete (`is_whole`) or as
    /// before.
    fn stop_output(&self, arguments: &[&str], is_whole: impl Fn(&[u8]) -> bool) {
        let out = self.path("out");
        let before = b"what was there before";
        let prepare = |point: u64| match point % 2 {
            0 => _ = fs::remove_file(&out),
            _ => fs::write(&out, before).unwrap(),
        };
        let verify = |has_ended: bool| match fs::read(&out) {
            Ok(bytes) => assert!(is_whole(&bytes) || (!has_ended && bytes == before)),
            Err(_) => assert!(!has_ended),
        };
        assert!(self.stop(arguments, prepare, verify) > 0);
    }

    /// Checks that each file of a tree on the host is a complete copy of a file of the source.
    /// Returns the number of files.
    fn check_some(&self, tree: &Path) -> usize {
        let mut found = 0;
        let mut left = vec![tree.to_owned()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    left.push(path);
                    continue;
                }
                let name = path.strip_prefix(tree).unwrap();
                let expected = self.contents.get(name);
                let expected = expected.unwrap_or_else(|| panic!("{name:?} is there"));
                assert!(fs::read(&path).unwrap() == *expected, "{name:?}");
                found += 1;
            }
        }
        found
    }
}

/// Stops runs of `get` at random points.
/// Checks I2 of `xfs_cli::output::staging`: a staged file that is dropped is removed.
/// Checks I3 of `xfs_cli::interrupt`: a stopped run ends by the signal.
#[test]
fn stopped_get_leaves_no_part() {
    let bench = Bench::new();
    let big = fs::read(bench.path("big")).unwrap();
    bench.stop_output(&["get", "-o", "out", "image:/big"], |bytes| bytes == big);
}

#[test]
fn stopped_tar_leaves_no_part() {
    let bench = Bench::new();
    bench.check(&["tar", "-o", "whole", "image"]);
    let whole = fs::read(bench.path("whole")).unwrap();
    bench.stop_output(&["tar", "-o", "out", "image"], |bytes| bytes == whole);
}

#[test]
fn stopped_scan_leaves_no_part() {
    let bench = Bench::new();
    // Many inodes, for a run that takes some time.
    let many = bench.path("many");
    fs::create_dir(&many).unwrap();
    for number in 0..5000 {
        fs::write(many.join(format!("{number}")), "").unwrap();
    }
    bench.check(&["import", "many", "image:/many"]);
    bench.check(&["scan", "--format", "ndjson", "-o", "whole", "image"]);
    let rows = |bytes: &[u8]| -> Vec<Vec<u8>> {
        // The first row has the time of the scan.
        bytes.split_inclusive(|byte| *byte == b'\n').skip(1).map(<[u8]>::to_vec).collect()
    };
    let whole = rows(&fs::read(bench.path("whole")).unwrap());
    let arguments = ["scan", "--format", "ndjson", "-o", "out", "image"];
    bench.stop_output(&arguments, |bytes| rows(bytes) == whole);
}

#[test]
fn stopped_mkfs_leaves_no_half_filled_volume() {
    let bench = Bench::new();
    let arguments = ["mkfs", "-q", "-f", "-d", "file,size=320m", "--from", "tree", "out"];
    bench.check(&arguments);
    // The volume depends only on its source.
    let (out, whole) = (bench.path("out"), bench.path("whole"));
    fs::rename(&out, &whole).unwrap();
    let is_whole = || bench.check(&["get", "-o", "-", "out:/d0/f0"]);
    let list = |image: &str| {
        let mut find = Command::new(env!("CARGO_BIN_EXE_ferroxfs"));
        find.args(["find", image, "-printf", "%p %s %m %T@\\n"]).current_dir(bench.place.path());
        find.output().unwrap()
    };
    let expected = list("whole");
    let prepare = |point: u64| match point % 2 {
        0 => _ = fs::remove_file(&out),
        _ => bench.check(&["mkfs", "-q", "-f", "-d", "file,size=320m", "-L", "before", "out"]),
    };
    let verify = |has_ended: bool| {
        let found = out.exists().then(|| list("out"));
        let found_whole = found.as_ref().is_some_and(|found| found.stdout == expected.stdout);
        assert!(found_whole || !has_ended);
        match found {
            _ if found_whole => is_whole(),
            // The previous volume has no files.
            Some(found) => assert_eq!(found.stdout.split(|byte| *byte == b'\n').count(), 2),
            None => {}
        }
    };
    assert!(bench.stop(&arguments, prepare, verify) > 0);
}

/// Stops runs of `import` at random points.
/// Checks I1 of `xfs_cli::import::writer`: a file that cannot be completed is removed.
#[test]
fn stopped_import_leaves_whole_files_in_a_closed_volume() {
    let bench = Bench::new();
    let prepare = |_| {
        let copied = Command::new("cp")
            .args(["--sparse=always", "empty", "volume"])
            .current_dir(bench.place.path())
            .status();
        assert!(copied.unwrap().success());
        _ = fs::remove_dir_all(bench.path("files"));
        fs::create_dir(bench.path("files")).unwrap();
    };
    let verify = |has_ended: bool| {
        // A dirty log would end this with 4.
        bench.check(&["ls", "--no-recovery", "volume"]);
        bench.check(&["log", "volume"]);
        bench.check(&["cp", "-r", "volume:/", "files"]);
        let found = bench.check_some(&bench.path("files"));
        assert!(!has_ended || found == bench.contents.len());
    };
    prepare(0);
    assert!(bench.stop(&["import", "tree", "volume"], prepare, verify) > 0);
}

#[test]
fn stopped_cp_leaves_whole_files() {
    let bench = Bench::new();
    bench.check(&["rm", "image:/big"]);
    let out = bench.path("out");
    let prepare = |_| {
        _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).unwrap();
    };
    let verify = |has_ended: bool| {
        let found = bench.check_some(&out);
        assert!(!has_ended || found == bench.contents.len());
    };
    prepare(0);
    assert!(bench.stop(&["cp", "-r", "image:/", "out"], prepare, verify) > 0);
}

/// Stops runs of `cp` into an image at random points.
/// Checks I1 of `xfs_cli::import::writer::staging`: a file has its name only when it is complete.
#[test]
fn stopped_cp_into_an_image_leaves_whole_files_in_a_closed_volume() {
    let bench = Bench::new();
    let prepare = |_| {
        let copied = Command::new("cp")
            .args(["--sparse=always", "empty", "volume"])
            .current_dir(bench.place.path())
            .status();
        assert!(copied.unwrap().success());
        bench.check(&["mkdir", "volume:/big"]);
    };
    let big = fs::read(bench.path("big")).unwrap();
    let verify = |has_ended: bool| {
        bench.check(&["log", "volume"]);
        let got = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
            .args(["get", "volume:/big/big"])
            .current_dir(bench.place.path())
            .output()
            .unwrap();
        assert!(got.stdout == big || (!got.status.success() && !has_ended));
    };
    prepare(0);
    assert!(bench.stop(&["cp", "big", "volume:/big"], prepare, verify) > 0);
}

/// Checks that a run does not react to signals that it was started to ignore.
#[test]
fn ignored_signal_stays_ignored() {
    let bench = Bench::new();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=INT,HUP", env!("CARGO_BIN_EXE_ferroxfs")]);
    command.args(["tar", "-o", "out", "image"]).current_dir(bench.place.path());
    let mut child = command.spawn().unwrap();
    let name = format!("/proc/{}/comm", child.id());
    while fs::read_to_string(&name).unwrap() != "ferroxfs\n" {
        std::thread::yield_now();
    }
    while child.try_wait().unwrap().is_none() {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
        std::thread::yield_now();
    }
    assert!(child.wait().unwrap().success());
}

/// Checks that a signal ends an import at once while the import reads its input: nothing is locked
/// yet, and there is nothing to remove. Checks I1 of `xfs_cli::interrupt`: a signal ends a run at
/// once if the run holds nothing.
#[test]
fn stopped_run_is_reported() {
    let bench = Bench::new();
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_ferroxfs")]);
    command.args(["import", "-", "empty"]).current_dir(bench.place.path());
    // The input does not end: nothing is locked, and the signal ends the run.
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    bench.check(&["touch", "empty:/is-not-locked"]);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(1));
}
