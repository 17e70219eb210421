//! Checks with the minimum Rust version, the oldest that Cargo.toml promises. It must build the
//! workspace. The format and the lints are checked with the rustfmt and the clippy of this version,
//! because newer versions may format differently or warn of more.

use std::path::Path;
use std::process::Command;

use crate::command;
use crate::error::Error;

const VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// The toolchain components that the checks need, each with its cargo subcommand.
const COMPONENTS: [(&str, &str); 2] = [("clippy", "clippy"), ("rustfmt", "fmt")];

/// A toolchain of the minimum version that has all components that the checks need.
pub(crate) struct MinimumRust {
    /// Whether xtask itself runs with this toolchain, whose build of the workspace then already
    /// exists for the most part.
    runs_us: bool,
}

impl MinimumRust {
    /// Installs the missing components with rustup. An error describes the component that could not
    /// be installed.
    pub(crate) fn install() -> Result<Self, Error> {
        let version = command::output(command::cargo().arg("--version"))?;
        let minimum = Self { runs_us: is_minimum(&version) };
        if !COMPONENTS.iter().all(|(_, word)| minimum.has(word)) {
            let mut rustup = Command::new("rustup");
            rustup.args(["toolchain", "install", VERSION, "--profile", "minimal"]);
            for (component, _) in COMPONENTS {
                rustup.args(["--component", component]);
            }
            command::run(&mut rustup)?;
        }
        Ok(minimum)
    }

    /// Checks the format of every source file, with rustfmt.
    pub(crate) fn format(&self) -> Result<(), Error> {
        command::run(self.cargo().args(["fmt", "--all", "--check"]))
    }

    /// Runs clippy over the whole workspace. Warnings are errors.
    pub(crate) fn clippy(&self) -> Result<(), Error> {
        let mut clippy = self.build("clippy");
        command::run(clippy.args(["--all-targets", "--", "-D", "warnings"]))
    }

    /// Runs clippy over a package that is a workspace of its own, in `folder`. Warnings are errors.
    /// The build results stay in a folder below `target`.
    pub(crate) fn clippy_in(&self, folder: &Path, target: &Path) -> Result<(), Error> {
        let mut clippy = self.cargo();
        clippy.args(["clippy", "--quiet", "--all-targets", "--target-dir"]);
        clippy.arg(target.join("clippy")).args(["--", "-D", "warnings"]);
        command::run(clippy.current_dir(folder))
    }

    /// Makes the documentation of the whole workspace. Warnings are errors.
    pub(crate) fn doc(&self) -> Result<(), Error> {
        let mut doc = self.build("doc");
        doc.args(["--no-deps", "--document-private-items"]).env("RUSTDOCFLAGS", "-D warnings");
        command::run(&mut doc)
    }

    fn has(&self, word: &str) -> bool {
        command::succeeds(self.cargo().args([word, "--version"]))
    }

    /// Returns a cargo command of this toolchain for the whole workspace. A toolchain other than
    /// the one that runs xtask builds in a target folder of its own, so that neither discards the
    /// build results of the other.
    fn build(&self, word: &str) -> Command {
        let mut build = self.cargo();
        build.args([word, "--workspace", "--quiet"]);
        if !self.runs_us {
            build.args(["--target-dir", "target/minimum-rust"]);
        }
        build
    }

    fn cargo(&self) -> Command {
        if self.runs_us {
            return command::cargo();
        }
        let mut cargo = Command::new("rustup");
        cargo.args(["run", VERSION, "cargo"]);
        command::build_for_one_run(&mut cargo);
        // Cargo's own variables name the running toolchain and would win over the one asked for.
        cargo.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        cargo
    }
}

/// Returns whether `line` is the output of `cargo --version` of the minimum version, at any patch
/// level.
fn is_minimum(line: &str) -> bool {
    let rest = line.split(' ').nth(1).and_then(|version| version.strip_prefix(VERSION));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::{VERSION, is_minimum};

    #[test]
    fn minimum_version_is_known_at_any_patch_level() {
        assert!(is_minimum(&format!("cargo {VERSION}.0 (f2d3ce0bd 2026-03-21)\n")));
        assert!(is_minimum(&format!("cargo {VERSION}")));
        assert!(!is_minimum(&format!("cargo {VERSION}9.1 (f2d3ce0bd 2026-03-21)\n")));
        assert!(!is_minimum("cargo 9.99.1 (f2d3ce0bd 2026-03-21)\n"));
        assert!(!is_minimum(""));
    }
}
