//! A test that unpacks and builds a program on a mount, and kills the server in the middle.
//!
//! The program is ferroxfs, because its sources are there wherever this test runs. With
//! `FERROXFS_LONG=1` the whole program is built, otherwise one crate.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xfs_oracle::harness::TrialError;

use crate::mounted::{await_files, is_long, roomy, run};

/// The files and folders of the workspace that the build needs.
const SOURCES: [&str; 6] =
    ["Cargo.toml", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT", "crates", "xtask"];

/// The number of files that the build has written when the server is killed.
const FILES: usize = 15;

pub(crate) fn program_is_built_on_a_mount() -> Result<(), TrialError> {
    let mut volume = roomy()?;
    volume.mount("rw");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let archive = volume.outside("sources.tar");
    run(Command::new("tar").arg("-C").arg(workspace).arg("-cf").arg(&archive).args(SOURCES));
    run(Command::new("tar").arg("-C").arg(volume.path()).arg("-xf").arg(&archive));
    run(Command::new("find").arg(volume.path()).args(["-exec", "sync", "{}", "+"]));

    let mut build = cargo(volume.path());
    let mut building = build.stderr(Stdio::null()).spawn().unwrap();
    await_files(&volume.at("target"), FILES);
    volume.kill();
    assert!(!building.wait().unwrap().success(), "it was built before the server was killed");

    volume.mount("rw");
    for name in SOURCES {
        let mut diff = Command::new("diff");
        run(diff.args(["-r", "--no-dereference"]).arg(workspace.join(name)).arg(volume.at(name)));
    }
    run(&mut cargo(volume.path()));
    if is_long() {
        let said = run(Command::new(volume.at("target/debug/ferroxfs")).arg("--version"));
        assert!(said.starts_with("ferroxfs "), "{said}");
    }
    // The results of the build are reused: cargo compares the times of files.
    let mut again = cargo(volume.path());
    let said = String::from_utf8(again.arg("-v").output().unwrap().stderr).unwrap();
    assert!(said.contains("Fresh xfs-format") && !said.contains("Running "), "{said}");
    volume.check()
}

/// Returns a command that builds without a network, with the crates from which this test was built.
fn cargo(folder: PathBuf) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let told = name.to_string_lossy();
        let is_place = told == "CARGO_HOME";
        if (told.starts_with("CARGO") || told.starts_with("RUST")) && !is_place {
            cargo.env_remove(name);
        }
    }
    if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
        cargo.env("RUSTUP_TOOLCHAIN", toolchain);
    }
    if let Some(home) = std::env::var_os("RUSTUP_HOME") {
        cargo.env("RUSTUP_HOME", home);
    }
    let package = if is_long() { "ferroxfs-cli" } else { "xfs-format" };
    cargo.args(["build", "--offline", "--locked", "-p", package]).current_dir(&folder);
    cargo.env("CARGO_TARGET_DIR", folder.join("target"));
    cargo
}
