//! `cargo xtask oracles`: unpacks programs and kernels under `target/`, with which the tests
//! compare ferroxfs.
//!
//! | folder | contents |
//! |---|---|
//! | `xfsprogs-sid` | the newest xfsprogs, with the C library for which they were built |
//! | `guest-programs` | the shell and further programs of the guests of `xfs_oracle::guest` |
//! | `guest-new` | the newest kernel, for a guest |
//! | `guest-v4` | Linux 6.1, for a guest: it still supports version 4 of XFS |
//! | `s3s-fs` | an S3 server; only with `--s3`, because it takes minutes to build |
//!
//! apt-get does the work, in folders of our own. Nothing is installed: the loader of the unpacked C
//! library runs the programs. This command therefore needs no root, and uses only the mirror and
//! the keys of the system. The S3 server is built by cargo from its published crate.

mod guest;
mod suite;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use self::suite::Suite;
pub(crate) use self::suite::mirror;
use crate::command;
use crate::error::Error;

/// The Debian suite whose xfsprogs and kernel are the newest.
const SUITE: &str = "sid";
/// The Debian suite with Linux 6.1.
const V4_SUITE: &str = "bookworm";

/// Returns the folder of the unpacked programs, below the workspace.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("target/oracles")
}

/// Returns a command for an unpacked program, which is started through the unpacked loader.
pub(crate) fn program(root: &Path, name: &str) -> Command {
    let unpacked = folder(root).join(format!("xfsprogs-{SUITE}/usr"));
    let architecture = std::env::consts::ARCH;
    let libraries = unpacked.join(format!("lib/{architecture}-linux-gnu"));
    let loader = match architecture {
        "x86_64" => "ld-linux-x86-64.so.2",
        _ => "ld-linux-aarch64.so.1",
    };
    let mut command = Command::new(libraries.join(loader));
    command.arg("--library-path").arg(&libraries).arg(unpacked.join("sbin").join(name));
    command
}

/// The version of the S3 server s3s-fs.
const S3_SERVER: &str = "s3s-fs@0.17.0";

/// The options of `cargo xtask oracles`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Build an S3 server, which checks the signatures of requests, too
    #[arg(long)]
    pub(crate) s3: bool,
}

/// Unpacks the programs and kernels that are not there yet. The kernels are unpacked only on a
/// machine with the architecture of the guests.
pub(crate) fn run(root: &Path, options: Options) -> Result<(), Error> {
    unpack_all(root)?;
    if options.s3 { build_s3_server(root) } else { Ok(()) }
}

fn unpack_all(root: &Path) -> Result<(), Error> {
    unpack(root, SUITE, &format!("xfsprogs-{SUITE}"), |suite, folder| {
        suite.unpack_closure("xfsprogs", folder)
    })?;
    if std::env::consts::ARCH != "x86_64" {
        return Ok(());
    }
    unpack(root, SUITE, "guest-programs", |suite, folder| {
        let packages = ["busybox-static", "attr", "libattr1"].map(str::to_owned);
        suite.unpack_alone(&packages, folder)
    })?;
    unpack(root, SUITE, "guest-new", guest::unpack_kernel)?;
    unpack(root, V4_SUITE, "guest-v4", guest::unpack_kernel)
}

/// Builds the S3 server, unless it is there already.
fn build_s3_server(root: &Path) -> Result<(), Error> {
    let built = folder(root).join("s3s-fs");
    if built.join("bin/s3s-fs").exists() {
        println!("already built: {}", built.display());
        return Ok(());
    }
    let mut cargo = command::cargo();
    cargo.args(["install", S3_SERVER, "--locked", "--features", "binary", "--root"]).arg(&built);
    command::run(&mut cargo)
}

/// Unpacks packages of a suite into the folder `name`, unless that folder exists. The folder gets
/// this name only when all packages are unpacked.
fn unpack(
    root: &Path,
    suite: &str,
    name: &str,
    unpack: impl FnOnce(&Suite, &Path) -> Result<(), Error>,
) -> Result<(), Error> {
    let unpacked = folder(root).join(name);
    if unpacked.exists() {
        println!("already unpacked: {}", unpacked.display());
        return Ok(());
    }
    let partial = folder(root).join(format!("{name}.partial"));
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(Error::file(&partial))?;
    }
    fs::create_dir_all(&partial).map_err(Error::file(&partial))?;
    let suite = Suite::open(suite, &folder(root).join("apt"))?;
    unpack(&suite, &partial)?;
    fs::rename(&partial, &unpacked).map_err(Error::file(&unpacked))
}
