//! `cargo xtask reference`: writes docs/reference, a page for each command.
//!
//! The program itself prints the pages, from the definitions of its command line. A test of
//! `xfs-cli` fails if they differ from the committed pages.

use std::fs;
use std::path::Path;

use crate::command;
use crate::error::Error;

/// The folder of the reference pages, one for each command. No other file belongs there.
pub(crate) const FOLDER: &str = "docs/reference";

/// Writes all pages. The page of a command that does not exist any more is removed.
pub(crate) fn run(root: &Path) -> Result<(), Error> {
    let folder = root.join(FOLDER);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    let mut cargo = command::cargo();
    cargo.args([
        "run",
        "--quiet",
        "--package",
        "ferroxfs-cli",
        "--",
        "man",
        "--format",
        "markdown",
    ]);
    command::run(cargo.arg(FOLDER).current_dir(root))
}
