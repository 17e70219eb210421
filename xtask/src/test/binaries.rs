//! The test binaries of the workspace.
//!
//! Owns: building all of them, and the command that runs one. Cargo would run all one after
//! another; here two parts of a run share them. To ask cargo for some of them by name would compile
//! crates again, with other features.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command;
use crate::error::Error;

/// A binary with tests.
pub(super) struct TestBinary {
    package: String,
    /// The name of the target: of the library, of a program, or of a file in `tests`.
    pub(super) target: String,
    /// The folder of the package, which cargo makes the current one of its tests.
    folder: PathBuf,
    program: PathBuf,
}

/// Builds all test binaries, and everything that they run. Returns them in the order of their
/// names.
pub(super) fn build(root: &Path) -> Result<Vec<TestBinary>, Error> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let messages = command::output(cargo.current_dir(root))?;
    let mut binaries: Vec<TestBinary> = messages.lines().filter_map(parse).collect();
    binaries.sort_by(|one, other| {
        (&one.package, &one.target, &one.program).cmp(&(
            &other.package,
            &other.target,
            &other.program,
        ))
    });
    Ok(binaries)
}

/// Returns the test binary that a message of cargo announces; `None` for any other message.
fn parse(line: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_test = message.get("profile")?.get("test")?.as_bool()?;
    let program = PathBuf::from(message.get("executable")?.as_str()?);
    let folder = Path::new(message.get("manifest_path")?.as_str()?).parent()?.to_owned();
    let target = message.get("target")?.get("name")?.as_str()?.to_owned();
    let package = folder.file_name()?.to_string_lossy().into_owned();
    is_test.then_some(TestBinary { package, target, folder, program })
}

impl TestBinary {
    /// Returns the command that runs all tests.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

impl fmt::Display for TestBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.target, self.package)
    }
}

#[cfg(test)]
mod tests;
