//! The project's chores, behind `cargo xtask`.
//!
//! This program only starts other programs and adds up their results. It prints every command
//! before the command runs, so that a reader can repeat it by hand. Only this program may need root
//! or the network. Without them it reports the checks that it skips.

mod api;
mod c;
mod command;
mod conformance;
mod console;
mod demo;
mod dependencies;
mod disk;
mod dist;
mod draw;
mod error;
mod minimum_rust;
mod mutants;
mod oracles;
mod packages;
mod parts;
mod publish;
mod python;
mod query;
mod reference;
mod report;
mod site;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Error;

/// Chores of the ferroxfs project.
#[derive(Parser)]
#[command(name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Show the main job: make an image, list it, mount it, scan it, recover it; needs no root
    Demo(demo::Options),
    /// Build a static binary, a Debian package, a container image, the C library, a wheel and notes
    /// in target/dist, and try them
    Dist(dist::Options),
    /// Install what the tests need, then run all tests; ends with one line of counts
    Test(test::Options),
    /// The same as `test`; CI runs it
    Ci,
    /// Check the rules of this project that neither rustfmt nor clippy knows
    Tidy,
    /// Draw doc comments at random, for a reader who rates whether they are clear
    Draw(draw::Options),
    /// Pack every published crate as `cargo publish` would, and check the packages
    Package(publish::Options),
    /// Write docs/reference, a page for each command, from the definitions of the command line
    Reference,
    /// Write docs/internals/api/ferroxfs.txt, the public names of the crate `ferroxfs`
    Api,
    /// Build and install the C library with its header and a file for pkg-config, and try it
    C(c::Options),
    /// Build the Python module as a wheel, install it in a fresh virtual environment, and test it
    Python(python::Options),
    /// Build `ferroxfs-query`, test it, and compare its reports with those of other engines
    Query(query::Options),
    /// Write the results in docs/conformance.md from their records, or run one kind of tests first
    Conformance(conformance::Options),
    /// Make mistakes in the allocator, the btrees and the extent maps, run each one, and write
    /// docs/internals/check-mutants.md: the checker must find each mistake
    Mutants,
    /// Build the documents as a site in target/site/book, with mdBook
    Site,
    /// Unpack a newer xfsprogs and kernels for guests under target/, to compare with; needs no root
    Oracles(oracles::Options),
}

fn main() -> ExitCode {
    let root = workspace_root();
    let outcome = match Arguments::parse().chore {
        Chore::Test(options) => test::run(&root, options),
        Chore::Ci => test::run(&root, test::Options::default()),
        Chore::Demo(options) => demo::run(&root, &options),
        Chore::Dist(options) => dist::run(&root, options).map(drop),
        Chore::Tidy => tidy::run(&root),
        Chore::Draw(options) => draw::run(&root, &options),
        Chore::Package(options) => publish::run(&root, options),
        Chore::Reference => reference::run(&root),
        Chore::Api => api::run(&root),
        Chore::C(options) => c::run(&root, &options),
        Chore::Python(options) => python::run(&root, options),
        Chore::Query(options) => query::run(&root, options),
        Chore::Conformance(options) => conformance::run(&root, &options),
        Chore::Mutants => mutants::run(&root),
        Chore::Site => site::run(&root),
        Chore::Oracles(options) => oracles::run(&root, options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The report has been printed, closing line last: nothing may follow it.
        Err(Error::TestsFailed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the workspace, wherever `cargo xtask` was started: the folder above this
/// package.
fn workspace_root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
