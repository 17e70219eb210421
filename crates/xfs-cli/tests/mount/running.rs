//! Tests of `run`: a program in a volume that is mounted as long as the program runs.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use xfs_oracle::harness::{Trial, TrialError};

use crate::mounted::{Mounted, Stopped, await_end, ferroxfs, run, said, volume};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::new("program_runs_in_the_volume", program_runs_in_the_volume),
        Trial::new("run_has_the_code_of_its_program", run_has_the_code_of_its_program),
        Trial::new("read_only_run_writes_nothing", read_only_run_writes_nothing),
        Trial::new("signal_is_passed_on_to_the_program", signal_is_passed_on_to_the_program),
        Trial::new(
            "signal_before_the_program_ends_the_run",
            signal_before_the_program_ends_the_run,
        ),
        Trial::new("killed_run_leaves_no_mount", killed_run_leaves_no_mount),
        Trial::new("users_of_the_volume_are_waited_for", users_of_the_volume_are_waited_for),
        Trial::new("lazy_run_detaches_a_volume_in_use", lazy_run_detaches_a_volume_in_use),
        Trial::new("program_may_unmount_the_volume", program_may_unmount_the_volume),
    ]
}

/// Returns the command `run` with these options, for a shell script. It ignores no signal; a
/// background job of a shell would ignore some. Temporary directories are made in the folder `tmp`
/// beside the image.
fn command(volume: &Mounted, options: &[&str], script: &str) -> Command {
    let mut command = Command::new("env");
    fs::create_dir_all(volume.outside("tmp")).unwrap();
    command.args(["--default-signal", env!("CARGO_BIN_EXE_ferroxfs")]);
    command.arg("run").args(options).arg(&volume.image.data);
    command.args(["--", "sh", "-c", script]).env("TMPDIR", volume.outside("tmp"));
    command
}

fn finish(volume: &Mounted, options: &[&str], script: &str) -> Output {
    command(volume, options, script).output().unwrap()
}

/// Starts `run`, and returns its process and the first line that the program prints.
fn start(volume: &Mounted, options: &[&str], script: &str) -> (Child, String) {
    let mut command = command(volume, options, script);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim_end().to_owned())
}

fn kill(signal: &str, process: impl ToString) {
    run(Command::new("kill").args([signal, &process.to_string()]));
}

fn standard_error(child: &mut Child) -> String {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[track_caller]
fn assert_nothing_is_left(volume: &Mounted) {
    let left: Vec<_> = fs::read_dir(volume.outside("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(!is_mounted(volume));
}

fn is_mounted(volume: &Mounted) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(volume.outside("tmp").to_str().unwrap())
}

fn contents(volume: &Mounted, name: &str) -> String {
    run(ferroxfs(&["cat"]).arg(format!("{}:/{name}", volume.image.data.display())))
}

fn program_runs_in_the_volume() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let output = finish(&volume, &[], "echo kept > note; pwd; echo $FERROXFS_MOUNT");
    assert!(output.status.success(), "{}", said(&output));
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    let places: Vec<_> = shown.lines().collect();
    assert_eq!(places.len(), 2, "{shown}");
    assert_eq!(places[0], places[1]);
    assert!(Path::new(places[0]).starts_with(volume.outside("tmp")), "{shown}");
    assert_nothing_is_left(&volume);
    assert_eq!(contents(&volume, "note"), "kept\n");

    let at = volume.path();
    let output = finish(&volume, &["--at", at.to_str().unwrap()], "pwd; cat note");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{}\nkept\n", at.display()));
    assert!(at.is_dir(), "a directory of the user is not removed");
    volume.check()
}

fn run_has_the_code_of_its_program() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137)] {
        let output = finish(&volume, &[], script);
        assert_eq!(output.status.code(), Some(code), "{script}: {}", said(&output));
        assert_nothing_is_left(&volume);
    }
    let output = finish(&volume, &[], "kill -TERM $$");
    assert_eq!(output.status.signal(), Some(15), "{}", said(&output));
    let image = volume.image.data.clone();
    let absent = volume.outside("absent");
    for (image, words, code, message) in [
        (&image, &["--", "./absent"][..], 127, "cannot run ./absent: No such file or directory"),
        (&image, &["--", "/"], 126, "cannot run /: Permission denied"),
        (&absent, &["--", "true"], 125, "No such file or directory"),
        (&image, &["--at", "/proc", "--", "true"], 125, "/proc: is a mount point already"),
        (&image, &["-o", "no-such", "--", "true"], 125, "no-such"),
        (&image, &[], 125, "<COMMAND>"),
    ] {
        let mut command = ferroxfs(&["run"]);
        command.arg(image).args(words).env("TMPDIR", volume.outside("tmp"));
        let output = command.output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {text}");
        assert!(text.contains(message), "{words:?}: {text}");
        assert_nothing_is_left(&volume);
    }
    let help = run(&mut ferroxfs(&["run", "--help"]));
    assert!(help.contains("FERROXFS_MOUNT"), "{help}");
    volume.check()
}

fn read_only_run_writes_nothing() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let before = fs::read(&volume.image.data).unwrap();
    let output = finish(&volume, &["--read-only"], "ls; touch file");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Read-only file system"), "{}", said(&output));
    assert_nothing_is_left(&volume);
    assert!(before == fs::read(&volume.image.data).unwrap(), "the image has changed");
    volume.check()
}

/// Checks that SIGTERM goes to the program, which decides when it ends and with which code.
fn signal_is_passed_on_to_the_program() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    for (signal, code) in [("TERM", 5), ("INT", 6), ("USR1", 7)] {
        let script = format!(
            "trap 'echo {signal} > got; exit {code}' {signal}; echo ready; \
             while :; do sleep 0.05; done"
        );
        let (mut child, line) = start(&volume, &[], &script);
        assert_eq!(line, "ready");
        kill(&format!("-{signal}"), child.id());
        let text = standard_error(&mut child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{text}");
        assert_eq!(contents(&volume, "got"), format!("{signal}\n"));
        assert_nothing_is_left(&volume);
    }
    volume.check()
}

/// Checks that a signal that arrives before the program begins ends the run, and that the program
/// does not begin. The server is stopped, so that the mount does not become ready before the
/// signal.
fn signal_before_the_program_ends_the_run() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let mut command = command(&volume, &[], "echo ran > ran");
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", child.id());
    let server = loop {
        let text = fs::read_to_string(&children).unwrap();
        if let Some(first) = text.split_whitespace().next() {
            break first.to_owned();
        }
        std::thread::yield_now();
    };
    let stopped = Stopped::new(server);
    kill("-TERM", child.id());
    // The thread for signals has taken it when none is pending.
    let status = format!("/proc/{}/status", child.id());
    let is_pending = |text: &str| {
        let pending = text.lines().find_map(|line| line.strip_prefix("ShdPnd:\t"));
        pending.is_some_and(|mask| mask.trim() != "0000000000000000")
    };
    while is_pending(&fs::read_to_string(&status).unwrap()) {
        std::thread::yield_now();
    }
    drop(stopped);
    let text = standard_error(&mut child);
    let status = child.wait().unwrap();
    if status.success() {
        // The mount was ready before the server was stopped, and the program took the signal or
        // had ended.
        return Err(
            xfs_oracle::OracleError::Unavailable("the mount was too fast".to_owned()).into()
        );
    }
    assert_eq!(status.signal(), Some(15), "{text}");
    let listed = run(ferroxfs(&["ls"]).arg(&volume.image.data));
    assert_eq!(listed, "", "the program has run");
    assert_nothing_is_left(&volume);
    volume.check()
}

/// Checks that the mount of a run that was killed ends, and that its image is closed cleanly.
fn killed_run_leaves_no_mount() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let script = "echo written > file; echo $$; exec sleep 1000 > /dev/null 2>&1";
    let (mut child, program) = start(&volume, &[], script);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let server = children.split_whitespace().find(|number| **number != program).unwrap().to_owned();
    assert!(is_mounted(&volume));
    child.kill().unwrap();
    child.wait().unwrap();
    await_end(&server);
    assert!(!is_mounted(&volume));
    kill("-KILL", &program);
    assert_eq!(contents(&volume, "file"), "written\n");
    volume.check()
}

/// Reads standard error of `run` until a line contains `words`, and returns that line.
fn await_line(child: &mut Child, words: &str) -> (String, BufReader<impl Read + use<>>) {
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "no line with {words}");
    }
    (line, errors)
}

const LEAVES_A_USER: &str = "sleep 1000 > /dev/null 2>&1 & echo $!";

/// Checks that `run` names a process that still uses the volume, and waits until it ends. A signal
/// ends the wait.
fn users_of_the_volume_are_waited_for() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let waiting = "waiting for its users to end";
    let (mut child, user) = start(&volume, &[], LEAVES_A_USER);
    let (line, _errors) = await_line(&mut child, waiting);
    assert!(line.contains(&format!("{user} (sleep)")), "{line}");
    assert!(is_mounted(&volume));
    kill("-TERM", &user);
    assert!(child.wait().unwrap().success());
    assert_nothing_is_left(&volume);

    let (mut child, user) = start(&volume, &[], LEAVES_A_USER);
    let (_, mut errors) = await_line(&mut child, waiting);
    kill("-TERM", child.id());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("detached while in use"), "{rest}");
    assert!(child.wait().unwrap().success(), "{rest}");
    assert_nothing_is_left(&volume);
    end_user(&volume, &user);
    volume.check()
}

/// Ends the last user of a detached mount, and waits until its image is closed.
fn end_user(volume: &Mounted, user: &str) {
    let locked = ferroxfs(&["mkdir"]).arg(format!("{}:/d", volume.image.data.display())).output();
    assert!(!locked.unwrap().status.success(), "the image is closed while it is in use");
    kill("-TERM", user);
    // A mount waits for the server that served the image before.
    let output = finish(volume, &[], "exit 3");
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
}

fn lazy_run_detaches_a_volume_in_use() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let (mut child, user) = start(&volume, &["--lazy"], LEAVES_A_USER);
    let text = standard_error(&mut child);
    assert!(text.contains("detached while in use"), "{text}");
    assert!(text.contains(&format!("{user} (sleep)")), "{text}");
    assert!(child.wait().unwrap().success());
    assert_nothing_is_left(&volume);
    end_user(&volume, &user);
    let output = finish(&volume, &["--lazy"], "echo kept > file");
    assert_eq!(said(&output), "exit status: 0: ", "an unused volume is closed on return");
    assert_eq!(contents(&volume, "file"), "kept\n");
    volume.check()
}

fn program_may_unmount_the_volume() -> Result<(), TrialError> {
    let volume = volume("parent-exchange")?;
    let script = "echo kept > file; cd /; umount $FERROXFS_MOUNT; exit 4";
    let output = finish(&volume, &[], script);
    assert_eq!(said(&output), "exit status: 4: ");
    assert_nothing_is_left(&volume);
    assert_eq!(contents(&volume, "file"), "kept\n");
    volume.check()
}
