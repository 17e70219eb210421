//! Tests that progress bars and summary lines appear on a terminal and nowhere else. The terminal
//! is made by script(1).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::changing::VolumeDir;

/// A run of the program whose standard output and standard error are a terminal.
struct Terminal {
    child: Child,
    screen: ChildStdout,
    seen: String,
}

impl Terminal {
    fn run(place: &VolumeDir, arguments: &str) -> Self {
        let program = env!("CARGO_BIN_EXE_ferroxfs");
        let line = format!("stty cols 120 rows 24; exec {program} {arguments}");
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &line, "typescript"]);
        command.current_dir(place.path("")).env("TERM", "xterm");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("script(1) is part of every Debian");
        let screen = child.stdout.take().unwrap();
        Self { child, screen, seen: String::new() }
    }

    /// Reads what the terminal shows until this text is in it.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let mut bytes = [0; 4096];
        while !self.seen.contains(text) {
            let read = self.screen.read(&mut bytes).unwrap();
            assert!(read > 0, "no {text:?} in {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
    }

    /// Waits for the end of the run, and returns everything that the terminal has shown.
    #[track_caller]
    fn finish(mut self) -> String {
        let mut rest = Vec::new();
        self.screen.read_to_end(&mut rest).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&rest));
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{}", self.seen);
        self.seen
    }
}

/// Returns the lines that the terminal still shows at the end. Lines that were overwritten or
/// cleared are left out.
fn left(seen: &str) -> Vec<String> {
    let lines = seen.split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        let last = line.rsplit(['\r']).next().unwrap_or_default();
        last.rsplit("\u{1b}[2K").next().unwrap_or_default().to_owned()
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// Returns the bytes of an archive. Tests send these bytes in two parts, and hold back the second
/// part until they have seen a progress bar.
fn archive(place: &VolumeDir) -> Vec<u8> {
    let tree = place.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::create_dir(tree.join("d")).unwrap();
    fs::write(tree.join("d/file"), vec![7; 3 << 20]).unwrap();
    fs::write(tree.join("last"), b"last").unwrap();
    place.check(&["import", "tree", "image:/source"]);
    place.check(&["tar", "-o", "a.tar", "image:/source"]);
    fs::read(place.path("a.tar")).unwrap()
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

#[test]
fn slow_fill_shows_a_bar_then_clears_it_and_ends_with_a_summary() {
    let place = VolumeDir::new();
    let archive = archive(&place);
    pipe(&place.path("pipe"));
    // A pipe is read piece by piece if there is no image yet that its writer could read.
    let mut terminal = Terminal::run(&place, "mkfs -d size=300m --from pipe made");
    let mut writer = File::options().write(true).open(place.path("pipe")).unwrap();
    let (first, rest) = archive.split_at(2 << 20);
    writer.write_all(first).unwrap();
    terminal.wait_for("filling: ");
    terminal.wait_for(" MiB/s");
    writer.write_all(rest).unwrap();
    drop(writer);
    let seen = terminal.finish();
    let left = left(&seen);
    let summary = left.last().unwrap_or_else(|| panic!("{seen:?}"));
    assert!(!left.iter().any(|line| line.starts_with("filling: ")), "{left:?}");
    assert!(summary.starts_with("imported 2 files, 3.0 MiB in "), "{summary:?}");
    assert!(summary.ends_with("iB/s)"), "{summary:?}");
}

#[test]
fn slow_quiet_fill_shows_nothing() {
    let place = VolumeDir::new();
    let archive = archive(&place);
    pipe(&place.path("quiet"));
    pipe(&place.path("pipe"));
    let (first, rest) = archive.split_at(2 << 20);
    let begin = |name: &str, arguments: &str| {
        let terminal = Terminal::run(&place, arguments);
        let mut writer = File::options().write(true).open(place.path(name)).unwrap();
        writer.write_all(first).unwrap();
        (terminal, writer)
    };
    let (quiet, mut quiet_writer) = begin("quiet", "mkfs -q -d size=300m --from quiet silent");
    // The other run starts later: when its bar appears, the first run has taken as long.
    let (mut other, mut other_writer) = begin("pipe", "mkfs -d size=300m --from pipe spoken");
    other.wait_for("filling: ");
    quiet_writer.write_all(rest).unwrap();
    other_writer.write_all(rest).unwrap();
    drop((quiet_writer, other_writer));
    assert_eq!(quiet.finish(), "");
    other.finish();
}

#[test]
fn quiet_command_shows_nothing_on_a_terminal() {
    let place = VolumeDir::new();
    archive(&place);
    let seen = Terminal::run(&place, "import -q a.tar image:/copy").finish();
    assert_eq!(seen, "");
    let seen = Terminal::run(&place, "-q cp -a image:/copy out").finish();
    assert_eq!(seen, "");
    place.check(&["mkfs", "-q", "-d", "size=300m", "--from", "a.tar", "other"]);
    let seen = Terminal::run(&place, "mkfs -q -f --from a.tar other").finish();
    assert_eq!(seen, "");
}

/// The control sequence that clears a line.
const CLEARED: &str = "\u{1b}[2K";

#[test]
fn terminal_shows_a_summary_for_trees_only() {
    let place = VolumeDir::new();
    archive(&place);
    let runs = [
        ("cp -a image:/source out", "copied 2 files, 3.0 MiB in "),
        ("cp -a tree image:/tree", "copied 2 files, 3.0 MiB in "),
        ("tar -o b.tar image:/source", "archived 2 files, 3.0 MiB in "),
        ("import tree image:/other", "imported 2 files, 3.0 MiB in "),
        ("scan -o rows image", "scanned "),
    ];
    for (arguments, summary) in runs {
        let seen = Terminal::run(&place, arguments).finish();
        assert!(seen.contains(summary), "{arguments}: {seen:?}");
    }
    for arguments in ["cp image:/source/last out", "rm -r image:/other", "chmod -R 700 image:/tree"]
    {
        let seen = Terminal::run(&place, arguments).finish();
        // A command that takes long shows its progress and a summary, whatever it does.
        assert!(seen.is_empty() || seen.contains(CLEARED), "{arguments}: {seen:?}");
    }
}

#[test]
fn summary_is_left_out_with_json() {
    let place = VolumeDir::new();
    archive(&place);
    let seen = Terminal::run(&place, "import --json a.tar image:/copy").finish();
    let document: serde_json::Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(document["files"], 2);
}

#[test]
fn nothing_is_printed_without_a_terminal() {
    let place = VolumeDir::new();
    archive(&place);
    // Each of these fails if there is text on standard error.
    assert_eq!(place.check(&["import", "a.tar", "image:/copy"]), "");
    assert_eq!(place.check(&["cp", "-a", "image:/copy", "out"]), "");
    assert_eq!(place.check(&["tar", "-o", "b.tar", "image:/copy"]), "");
}
