//! Runs external programs.

use std::process::Command;

use crate::error::{Context, OracleError};

/// Runs a command to its end and returns its standard output.
pub(crate) fn run(command: &mut Command) -> Result<String, OracleError> {
    let output = command.output().context(|| format!("{command:?}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(OracleError::Command {
        line: format!("{command:?}"),
        status: output.status,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}
