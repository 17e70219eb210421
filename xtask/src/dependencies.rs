//! Checks the licences, sources and security advisories of dependencies, by cargo-deny with
//! deny.toml.

use std::path::Path;
use std::process::Command;

use crate::command;
use crate::report::Report;

/// The checks of cargo-deny that need no network.
const LOCAL: [&str; 3] = ["licenses", "bans", "sources"];

/// Runs the checks of cargo-deny and reports their results. A check that cannot run here is
/// reported with the reason.
pub(crate) fn check(root: &Path, report: &mut Report) {
    let own = root.join("target/tools/bin/cargo-deny");
    let program = if own.exists() { own.as_path() } else { Path::new("cargo-deny") };
    if !own.exists() && !command::is_in_path(program) {
        let reason = "cargo-deny is not installed (cargo install cargo-deny --root target/tools)";
        report.skip("licences, sources and advisories of dependencies", reason);
        return;
    }
    let deny = |arguments: &[&str]| {
        let mut deny = Command::new(program);
        deny.args(arguments).current_dir(root);
        deny
    };
    report.check(
        "dependencies",
        command::run(deny(&["check", "--hide-inclusion-graph"]).args(LOCAL)),
    );
    if command::succeeds(&mut deny(&["fetch", "db"])) {
        report.check("advisories", command::run(&mut deny(&["check", "advisories"])));
    } else {
        report.skip("advisories of dependencies", "their database cannot be fetched");
    }
}
