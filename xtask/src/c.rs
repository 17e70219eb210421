//! `cargo xtask c`: the C library in the form in which programs find it: a header, a shared and a
//! static library, and a file for pkg-config.
//!
//! Owns: the names and places of these files, and a trial: the example of the library is compiled
//! with what pkg-config prints, and runs. Does **not** own: the header, which a test of
//! `ferroxfs-c` makes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::command;
use crate::dist;
use crate::error::Error;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The name under which a program loads the library. The number changes with every change that
/// breaks programs.
pub(crate) const SONAME: &str = "libferroxfs.so.0";
/// The package whose library this is, and the folder with its header and examples.
const PACKAGE: &str = "ferroxfs-c";
const FOLDER: &str = "crates/ferroxfs-c";

/// The options of `cargo xtask c`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// Compile in a few minutes, without optimising across crates
    #[arg(long)]
    quick: bool,
    /// Only write crates/ferroxfs-c/include/ferroxfs.h from the sources
    #[arg(long)]
    header: bool,
    /// The folder for include, lib and lib/pkgconfig; target/c by default
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// Whether no path of this machine may be in the libraries
    #[arg(skip)]
    hides_paths: bool,
}

impl Options {
    /// Returns the options for a library that is handed out, with its files in `prefix`.
    pub(crate) fn handed_out(prefix: PathBuf, dist: dist::Options) -> Self {
        Self { quick: dist.quick, header: false, prefix: Some(prefix), hides_paths: true }
    }

    /// Returns the options for a trial of the packaging.
    pub(crate) fn quick() -> Self {
        Self { quick: true, ..Self::default() }
    }
}

/// Builds and installs the library, and tries it.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    if options.header {
        return write_header(root);
    }
    let prefix = match &options.prefix {
        Some(prefix) => std::path::absolute(prefix).map_err(Error::file(prefix))?,
        None => root.join("target/c"),
    };
    let profile = if options.quick { "quick" } else { "dist" };
    let mut cargo = command::cargo();
    // The folder target/dist belongs to `cargo xtask dist`.
    let target = root.join(if options.hides_paths { "target/c-build" } else { "target" });
    cargo.args(["rustc", "--package", PACKAGE, "--lib", "--profile", profile]);
    cargo.arg("--target-dir").arg(&target).arg("--");
    cargo.arg(format!("-Clink-arg=-Wl,-soname,{SONAME}")).current_dir(root);
    if options.hides_paths {
        dist::hide_paths(&mut cargo, root)?;
    }
    command::run(&mut cargo)?;
    install(root, &target.join(profile), &prefix)?;
    try_example(root, &prefix)
}

/// Runs the test that compares the header, with the variable that makes it write the header.
fn write_header(root: &Path) -> Result<(), Error> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--quiet", "--package", PACKAGE, "--test", "it", "header_equals"]);
    command::run(cargo.env("FERROXFS_WRITE_HEADER", "1").current_dir(root))
}

fn install(root: &Path, built: &Path, prefix: &Path) -> Result<(), Error> {
    let (include, library) = (prefix.join("include"), prefix.join("lib"));
    let packages = library.join("pkgconfig");
    for folder in [&include, &packages] {
        fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    let full = format!("libferroxfs.so.{VERSION}");
    copy(&root.join(FOLDER).join("include/ferroxfs.h"), &include.join("ferroxfs.h"))?;
    copy(&built.join("libferroxfs_c.a"), &library.join("libferroxfs.a"))?;
    copy(&built.join("libferroxfs_c.so"), &library.join(&full))?;
    link(&full, &library.join(SONAME))?;
    link(SONAME, &library.join("libferroxfs.so"))?;
    let description = packages.join("ferroxfs.pc");
    fs::write(&description, package_file(&prefix.to_string_lossy()))
        .map_err(Error::file(&description))?;
    println!("installed ferroxfs {VERSION} in {}", prefix.display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    fs::copy(from, to).map(drop).map_err(Error::file(from))
}

/// Makes a symbolic link, in place of one that an earlier run has made.
fn link(target: &str, at: &Path) -> Result<(), Error> {
    match fs::remove_file(at) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(at)(error)),
        _ => symlink(target, at).map_err(Error::file(at)),
    }
}

/// Returns the file that pkg-config reads. A static program also needs the private libraries.
pub(crate) fn package_file(prefix: &str) -> String {
    format!(
        "\
prefix={prefix}
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: ferroxfs
Description: XFS in user space: make, read and change volumes
Version: {VERSION}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -lferroxfs
Libs.private: -lpthread -ldl -lm
"
    )
}

/// Compiles the example with the flags of pkg-config for the library in `prefix`, and runs it.
pub(crate) fn try_example(root: &Path, prefix: &Path) -> Result<(), Error> {
    let library = prefix.join("lib");
    let mut packages = Command::new("pkg-config");
    packages.args(["--cflags", "--libs", "ferroxfs"]);
    let flags = command::output(packages.env("PKG_CONFIG_PATH", library.join("pkgconfig")))?;
    let folder = root.join("target/c-trial");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let program = folder.join("tour");
    let mut cc = Command::new("cc");
    cc.arg(root.join(FOLDER).join("examples/tour.c")).args(flags.split_whitespace());
    command::run(cc.arg("-o").arg(&program))?;
    let mut tour = Command::new(&program);
    command::run(tour.arg(folder.join("new.img")).env("LD_LIBRARY_PATH", &library))
}
