//! Licences, sources and advisories of dependencies, checked by cargo-deny with deny.toml.

use crate::command;
use crate::report::Report;

/// The checks of cargo-deny that need no network.
const LOCAL: [&str; 3] = ["licenses", "bans", "sources"];

/// Runs the checks of cargo-deny and reports their results. A check that cannot run here is
/// reported with the reason.
pub(crate) fn check(report: &mut Report) {
    if !command::is_in_path("cargo-deny") {
        let reason = "cargo-deny is not installed (cargo install cargo-deny)";
        report.skip("licences, sources and advisories of dependencies", reason);
        return;
    }
    let mut deny = command::cargo();
    report.check("dependencies", command::run(deny.args(["deny", "check"]).args(LOCAL)));
    let mut fetch = command::cargo();
    if command::succeeds(fetch.args(["deny", "fetch", "db"])) {
        let mut deny = command::cargo();
        report.check("advisories", command::run(deny.args(["deny", "check", "advisories"])));
    } else {
        report.skip("advisories of dependencies", "their database cannot be fetched");
    }
}
