//! Tests of commands whose standard output is a terminal, is closed, is full, or is a pipe without
//! a reader.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::{shared, transcript};

/// Runs a line of shell commands in the directory of the golden image; `$0` is the program.
fn shell(line: &str) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_ferroxfs")]);
    shell.current_dir(shared().path()).stdin(Stdio::null()).output().expect("a shell")
}

#[test]
fn no_progress_is_shown_among_rows() {
    let line = "script -qec \"'$0' scan image\" /dev/null";
    let text = transcript(&shell(line));
    assert!(text.contains("/short/ccc"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains(" left"), "{text:?}");
}

#[test]
fn closed_standard_output_is_an_error_where_there_is_output() {
    for command in [
        "find image",
        "ls image",
        "cat image:/short/ccc",
        "tar image",
        "scan image",
        "scan --summary image",
        "--help",
        "ls --help",
        "--version",
    ] {
        let text = transcript(&shell(&format!("\"$0\" {command} >&-")));
        let said = "! ferroxfs: standard output: Bad file descriptor\nexit 1\n";
        assert_eq!(text, said, "{command}");
    }
    assert_eq!(transcript(&shell("\"$0\" find image -false >&-")), "", "nothing is written");
    assert_eq!(transcript(&shell("\"$0\" find image >/dev/null")), "");
}

#[test]
fn full_standard_output_is_reported_once() {
    for command in ["find image", "ls -laR image", "tar image", "scan image", "--help", "--version"]
    {
        let text = transcript(&shell(&format!("\"$0\" {command} >/dev/full")));
        let said = "! ferroxfs: standard output: No space left on device\nexit 1\n";
        assert_eq!(text, said, "{command}");
    }
}

#[test]
fn reader_that_goes_away_ends_a_run_as_a_signal_would() {
    for command in ["find", "ls", "tar", "scan", "--help"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
            .args([command, "image"])
            .current_dir(shared().path())
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(transcript(&output), "exit 141\n", "{command}");
    }
}

#[test]
fn usage_errors_exit_with_2() {
    let run = shared().run(&["ls", "--bogus"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(run.stderr.starts_with(b"error: "), "{}", transcript(&run));
    let silent = Command::new(env!("CARGO_BIN_EXE_ferroxfs"))
        .arg("--bogus")
        .stderr(File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(silent.status.code(), Some(2));
}
