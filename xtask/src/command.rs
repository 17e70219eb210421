//! Starting other programs: each command line is printed before it runs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Error;

/// Prefix of the names of the folders in which the compiler keeps incremental state of
/// `xfs-format`, the lowest crate of the library. If there is no such folder, no crate of the
/// library has incremental state. Building xtask creates none, because xtask does not depend on
/// this crate.
const LOWEST_CRATE: &str = "xfs_format-";

/// Whether later cargo commands build for one run: they keep no incremental state, results that a
/// compiler stores for the next build of the same crate.
static KEEPS_NO_STATE: AtomicBool = AtomicBool::new(false);

/// Returns a command for the `cargo` of the toolchain that started this program.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build_for_one_run(&mut cargo);
    cargo
}

/// Lets a cargo command build for one run, without incremental state and line numbers, if this is
/// CI, which builds only once, or if [`keep_no_state_in_a_fresh_clone`] has found a fresh clone.
/// Line numbers take a sixth of the compiler's time. A panic names its line without them; only the
/// functions above it have none.
pub(crate) fn build_for_one_run(cargo: &mut Command) {
    if std::env::var_os("CI").is_some() || KEEPS_NO_STATE.load(Ordering::Relaxed) {
        cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "none");
    }
}

/// Makes later cargo commands keep no incremental state if no crate has any yet. To write that
/// state takes a quarter of the time of a first build. Where there is state, a command without it
/// would compile every crate again.
pub(crate) fn keep_no_state_in_a_fresh_clone(root: &Path) -> Result<(), Error> {
    KEEPS_NO_STATE.store(!has_incremental_state(root)?, Ordering::Relaxed);
    Ok(())
}

fn has_incremental_state(root: &Path) -> Result<bool, Error> {
    let folder = root.join("target/debug/incremental");
    if !folder.exists() {
        return Ok(false);
    }
    for entry in std::fs::read_dir(&folder).map_err(Error::file(&folder))? {
        let name = entry.map_err(Error::file(&folder))?.file_name();
        if name.to_string_lossy().starts_with(LOWEST_CRATE) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs a command to its end. A status other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    announce(command);
    run_unannounced(command)
}

/// Runs a command to its end without printing its command line first. A status other than 0 is an
/// error.
pub(crate) fn run_unannounced(command: &mut Command) -> Result<(), Error> {
    let status = command.status().map_err(|source| not_started(command, source))?;
    succeeded(command, status)
}

/// Runs a command, prints its standard output, and passes each printed line to `line`. Returns the
/// exit status. A status other than 0 is no error.
pub(crate) fn run_lines(
    command: &mut Command,
    mut line: impl FnMut(&str),
) -> Result<ExitStatus, Error> {
    announce(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|source| not_started(command, source))?;
    if let Some(stdout) = child.stdout.take() {
        for bytes in BufReader::new(stdout).split(b'\n') {
            let bytes = bytes.map_err(|source| not_started(command, source))?;
            let text = String::from_utf8_lossy(&bytes);
            println!("{text}");
            line(&text);
        }
    }
    child.wait().map_err(|source| not_started(command, source))
}

/// Runs a command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    announce(command);
    quiet_output(command)
}

/// Runs a command without printing its command line first, and returns its standard output.
pub(crate) fn quiet_output(command: &mut Command) -> Result<String, Error> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|source| not_started(command, source))?;
    succeeded(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a command and returns its status and everything that it printed. A status other than 0 is
/// no error.
pub(crate) fn whole_output(command: &mut Command) -> Result<Output, Error> {
    announce(command);
    command.output().map_err(|source| not_started(command, source))
}

/// Returns whether a command can be run and succeeds. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    announce(command);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Returns whether this process runs as root.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Returns whether a program of this name is in a folder of PATH.
pub(crate) fn is_in_path(name: impl AsRef<OsStr>) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name.as_ref()).is_file())
}

fn announce(command: &Command) {
    println!("$ {}", line(command));
}

fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    // A reader types the name of a program in PATH, and the relative path of one that was built
    // here.
    let name = program.file_name().filter(|name| program.is_absolute() && is_in_path(name));
    let program = name.unwrap_or(program.as_os_str());
    let words: Vec<_> =
        std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}

fn succeeded(command: &Command, status: ExitStatus) -> Result<(), Error> {
    if status.success() { Ok(()) } else { Err(Error::Command { line: line(command), status }) }
}

fn not_started(command: &Command, source: std::io::Error) -> Error {
    Error::Start { program: command.get_program().to_string_lossy().into_owned(), source }
}

#[cfg(test)]
mod tests;
