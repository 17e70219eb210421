//! `cargo xtask demo`: the main job of ferroxfs, as an ordinary user, on volumes that it makes.
//!
//! Owns: the scenes, and checking the result of each scene. The demo makes everything that it
//! shows, asks nothing, needs no network, and prints each command before a shell runs it. One
//! program is not part of ferroxfs: `xfs_repair`, which checks the recovered volume. If it is
//! missing, the demo says so. On a terminal it has colours and shows progress.
//!
//! - **I1** The summary and the verdict, which come last, fit on a screen of [`SCREEN_LINES`] lines
//!   and [`SCREEN_COLUMNS`] columns.

mod scenes;
mod screen;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use clap::Args;

use crate::command;
use crate::demo::screen::Screen;
use crate::error::Error;

/// Lines of the smallest screen for which the summary is made.
const SCREEN_LINES: usize = 24;
/// Columns of the smallest screen for which the summary is made.
const SCREEN_COLUMNS: usize = 80;

/// The program that the demo shows, and the folder in which it works.
#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Show this program instead of one that is built now
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Work in this folder, new or empty, instead of target/demo
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
}

/// Builds the program, plays all scenes and prints the verdict.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    let program = match &options.program {
        Some(program) => fs::canonicalize(program).map_err(Error::file(program))?,
        None => build(root)?,
    };
    let folder = empty_folder(root, options)?;
    let mut demo = Demo::new(root, &program, &folder);
    demo.screen.title("ferroxfs: XFS without the kernel, without root");
    demo.set_out(root, &program);
    for (name, scene) in scenes::ALL {
        demo.scene = name;
        demo.scene_began = Instant::now();
        scene(&mut demo)?;
    }
    demo.verdict()
}

/// Plays the demo as the user `nobody`, in a folder that this user may enter, with copies of
/// `program` and of xtask. The caller must be root.
pub(crate) fn run_as_nobody(program: &Path) -> Result<(), Error> {
    const USER: u32 = 65534;
    let place = std::env::temp_dir().join(format!("ferroxfs-demo-{}", std::process::id()));
    fs::create_dir(&place).map_err(Error::file(&place))?;
    // This path stays valid if a build replaces the program in the target folder.
    let ours = Path::new("/proc/self/exe");
    for (from, name) in [(program, "ferroxfs"), (ours, "xtask")] {
        fs::copy(from, place.join(name)).map_err(Error::file(from))?;
    }
    std::os::unix::fs::chown(&place, Some(USER), Some(USER)).map_err(Error::file(&place))?;
    let mut user = Command::new("setpriv");
    user.args([&format!("--reuid={USER}"), &format!("--regid={USER}"), "--clear-groups"]);
    user.args(["--inh-caps=-all", "./xtask", "demo", "--program", "ferroxfs", "--folder", "demo"]);
    let shown = command::run(user.current_dir(&place));
    fs::remove_dir_all(&place).map_err(Error::file(&place))?;
    shown
}

/// Compiles the program `ferroxfs` for this machine, with the cargo profile `quick`. Returns the
/// path of the program.
pub(crate) fn build(root: &Path) -> Result<PathBuf, Error> {
    let mut cargo = command::cargo();
    cargo.args([
        "build",
        "--profile",
        "quick",
        "--package",
        "ferroxfs-cli",
        "--target-dir",
        "target",
    ]);
    if !screen::is_terminal() {
        cargo.arg("--quiet");
    }
    command::run(cargo.current_dir(root))?;
    Ok(root.join("target/quick/ferroxfs"))
}

/// Returns the folder of the demo. A folder that the user chose must be empty. The default folder
/// is emptied.
fn empty_folder(root: &Path, options: &Options) -> Result<PathBuf, Error> {
    let ours = root.join("target/demo");
    if options.folder.is_none() && ours.exists() {
        fs::remove_dir_all(&ours).map_err(Error::file(&ours))?;
    }
    let folder = options.folder.clone().unwrap_or(ours);
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    if fs::read_dir(&folder).map_err(Error::file(&folder))?.next().is_some() {
        return Err(Error::Demo(format!("{} is not empty", folder.display())));
    }
    fs::canonicalize(&folder).map_err(Error::file(&folder))
}

/// The state of the demo: the scene that is shown now, and the results so far.
struct Demo {
    screen: Screen,
    began: Instant,
    root: PathBuf,
    folder: PathBuf,
    /// The variable PATH for the shell. The folder of the program that the demo shows comes first.
    path: OsString,
    /// The name of the scene that is shown now.
    scene: &'static str,
    scene_began: Instant,
    results: Vec<SceneResult>,
}

/// The result of one scene: a line of the demo's summary.
struct SceneResult {
    scene: &'static str,
    text: String,
    /// The duration of the scene. `None` if this machine cannot show the scene.
    took: Option<Duration>,
}

/// The result of a command that has ended.
struct Ended {
    output: Output,
    took: Duration,
}

impl Ended {
    fn seconds(&self) -> f64 {
        self.took.as_secs_f64()
    }

    /// Returns what the command printed on standard output.
    fn printed(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).trim().to_owned()
    }

    /// Returns the text that the command printed on standard output, followed by that on standard
    /// error.
    fn text(&self) -> String {
        let both = [self.output.stdout.as_slice(), &self.output.stderr].concat();
        String::from_utf8_lossy(&both).trim_end().to_owned()
    }
}

impl Demo {
    fn new(root: &Path, program: &Path, folder: &Path) -> Self {
        let mut path = program.parent().unwrap_or(folder).as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        // An ordinary user's PATH may not lead to xfs_repair.
        path.push(":/usr/sbin:/sbin");
        Self {
            screen: Screen::new(),
            began: Instant::now(),
            root: root.to_owned(),
            folder: folder.to_owned(),
            path,
            scene: "",
            scene_began: Instant::now(),
            results: Vec::new(),
        }
    }

    /// Prints the commands with which a reader can prepare a shell to repeat the demo: they enter
    /// its folder, and make the program callable by its name.
    fn set_out(&mut self, root: &Path, program: &Path) {
        let programs = program.parent().unwrap_or(program);
        let shown = |path: &Path| match path.strip_prefix(root) {
            Ok(below) => below.display().to_string(),
            Err(_) => path.display().to_string(),
        };
        let place = if programs.starts_with(root) { "$PWD/" } else { "" };
        let line =
            format!("PATH={place}{}:$PATH; cd {}", shown(programs), shown(&self.folder.clone()));
        self.screen.command(&line);
    }

    /// Prints a command line, runs it in a shell, and returns the result. A status other than 0 is
    /// no error.
    fn try_shell(&mut self, line: &str) -> Result<Ended, Error> {
        self.screen.command(line);
        let began = Instant::now();
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", &self.path).current_dir(&self.folder);
        shell.stdin(std::process::Stdio::null());
        let output = self.screen.waiting(|| shell.output());
        let output = output.map_err(|source| Error::Start { program: "sh".to_owned(), source })?;
        Ok(Ended { output, took: began.elapsed() })
    }

    /// Runs a command line in a shell. A status other than 0 is an error.
    fn shell(&mut self, line: &str) -> Result<Ended, Error> {
        let ended = self.try_shell(line)?;
        if !ended.output.status.success() {
            self.screen.output(&ended.text());
            return Err(Error::Command { line: line.to_owned(), status: ended.output.status });
        }
        Ok(ended)
    }

    /// Records and prints the result of a scene that succeeded.
    fn came_out(&mut self, result: &str) {
        self.screen.good(&format!("✓ {result}"));
        let took = Some(self.scene_began.elapsed());
        self.results.push(SceneResult { scene: self.scene, text: result.to_owned(), took });
    }

    /// Records and prints that this machine cannot show a part of the demo, and the reason.
    fn left_out(&mut self, part: &str, reason: &str) {
        self.screen.left_out(&format!("left out: {part}: {reason}"));
        let text = format!("left out: {reason}");
        self.results.push(SceneResult { scene: self.scene, text, took: None });
    }

    fn verdict(self) -> Result<(), Error> {
        let summary = summary(&self.results);
        let verdict = verdict(&self.results, scenes::ALL.len(), self.began.elapsed());
        self.screen.title("Summary");
        self.screen.output(&summary.join("\n"));
        let folder = self.folder.strip_prefix(&self.root).unwrap_or(&self.folder).display();
        self.screen.output(&format!("The images stay in {folder}."));
        self.screen.good(&verdict);
        // I1. A reason of the machine for leaving something out may be wider.
        let is_wide =
            |line: &String| line.chars().count() > SCREEN_COLUMNS && !line.contains("left out");
        // I1: summary and verdict fit on a screen.
        if summary.len() + 4 > SCREEN_LINES || summary.iter().any(is_wide) {
            return Err(Error::Demo(format!("the summary does not fit on a screen: {summary:?}")));
        }
        Ok(())
    }
}

/// Returns the lines of the summary. Each has a scene, its result, and how long the scene took.
fn summary(results: &[SceneResult]) -> Vec<String> {
    let width = |part: fn(&SceneResult) -> &str| {
        results.iter().map(|result| part(result).chars().count()).max().unwrap_or(0)
    };
    let (name, text) = (width(|result| result.scene), width(|result| &result.text));
    let line = |result: &SceneResult| {
        let took = result.took.map(|took| format!("{:6.1} s", took.as_secs_f64()));
        let line =
            format!("{:name$}  {:text$}{}", result.scene, result.text, took.unwrap_or_default());
        line.trim_end().to_owned()
    };
    results.iter().map(line).collect()
}

fn verdict(results: &[SceneResult], scenes: usize, took: Duration) -> String {
    let came_out = results.iter().filter(|result| result.took.is_some()).count();
    let left_out = match results.len() - came_out {
        0 => String::new(),
        left_out => format!("; {left_out} left out"),
    };
    let seconds = took.as_secs();
    format!("verdict: {came_out} of {scenes} scenes came out right in {seconds} s{left_out}")
}

#[cfg(test)]
mod tests;
