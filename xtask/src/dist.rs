//! `cargo xtask dist`: the program in the form in which users install it, as files under
//! `target/dist`.
//!
//! Owns: building one static binary, the files made from that binary (a Debian package, a container
//! image, a bill of materials, notes, checksums), the limit on its size, and trials of the result.
//! The C library and the wheel are built by their own chores. Does **not** own: uploading anything.
//!
//! - The same sources, toolchain and profile give the same files, byte for byte: times come from
//!   `SOURCE_DATE_EPOCH` or the last commit, and no path of this machine is in the binary.
//! - The binary needs no file of the host: no interpreter, no library.

mod again;
mod archive;
mod binary;
mod debian;
mod examples;
mod guide;
mod image;
mod libraries;
mod licences;
mod materials;
mod notes;
mod package;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

pub(crate) use self::binary::{count_instructions, hide_paths};
pub(crate) use self::debian::{install as install_debian, run as try_in_debian};
use self::materials::Product;
use crate::command;
use crate::error::Error;

/// The target for which the binary is compiled. The C library of this target is musl, which is
/// linked into the binary.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The name of the target's architecture in Debian.
const ARCHITECTURE: &str = "amd64";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The options of `cargo xtask dist`.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// Compile in minutes, without optimising across crates: for trying the packaging. The files go
    /// to target/dist-quick
    #[arg(long)]
    pub(crate) quick: bool,
    /// With --quick, also make the C library and the wheel
    #[arg(long)]
    pub(crate) libraries: bool,
    /// Compile without a profile that guides the compiler: takes half of the time, and makes a
    /// slower program
    #[arg(long, conflicts_with_all = ["same_profile", "quick"])]
    pub(crate) unguided: bool,
    /// Guide the compiler by the profile of the last call, target/guide/ferroxfs.profdata, so that
    /// the program has the same bytes
    #[arg(long, conflicts_with = "quick")]
    pub(crate) same_profile: bool,
    /// Build everything a second time, from a copy of the sources at another path, and compare
    #[arg(long)]
    pub(crate) twice: bool,
    /// Install and use the package in a minimal Debian, which mmdebstrap makes; needs root
    #[arg(long)]
    pub(crate) debian: bool,
}

impl Options {
    /// Returns the name of the cargo profile with which the binary is compiled.
    fn profile(self) -> &'static str {
        if self.quick { "quick" } else { "dist" }
    }

    fn folder(self, root: &Path) -> PathBuf {
        root.join("target").join(if self.quick { "dist-quick" } else { "dist" })
    }
}

/// The files that one run of `dist` has made.
pub(crate) struct Dist {
    /// The static binary.
    pub(crate) program: PathBuf,
    folder: PathBuf,
    package: PathBuf,
    /// The container image.
    image: PathBuf,
    /// The timestamp that every file gets, in seconds since 1970.
    epoch: String,
}

impl Dist {
    /// Returns the timestamp of the files as a number.
    fn seconds(&self) -> Result<u64, Error> {
        let epoch = &self.epoch;
        epoch.parse().map_err(|_| Error::Dist(format!("SOURCE_DATE_EPOCH is no number: {epoch}")))
    }

    /// Returns the names of the files, in order.
    fn names(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(Error::file(&self.folder))? {
            let entry = entry.map_err(Error::file(&self.folder))?;
            if entry.path().is_file() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Installs the tools that the build needs. If one cannot be installed, the error names it.
pub(crate) fn install() -> Result<(), Error> {
    binary::install()
}

/// Builds all files and prints their names. Then tries the Debian package and the container image.
pub(crate) fn run(root: &Path, options: Options) -> Result<Dist, Error> {
    let dist = build(root, options, epoch(root)?)?;
    image::check(&dist)?;
    examples::check(root, &dist)?;
    trial::run(&dist)?;
    if options.debian {
        debian::install()?;
        debian::run(&dist)?;
    }
    for line in command::output(Command::new("ls").arg("-l").arg(&dist.folder))?.lines() {
        println!("{line}");
    }
    if options.twice {
        again::run(root, &dist, options)?;
    }
    Ok(dist)
}

/// Builds all files from the sources in `root`.
fn build(root: &Path, options: Options, epoch: String) -> Result<Dist, Error> {
    let folder = options.folder(root);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Error::file(&folder))?;
    }
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    let guide = guide::profile(root, options)?;
    let built = binary::build(root, options, guide.as_deref())?;
    let program = folder.join("ferroxfs");
    fs::copy(&built, &program).map_err(Error::file(&program))?;
    binary::check(&program, root, options)?;
    if let Some(guide) = guide {
        let copy = folder.join(format!("ferroxfs-{VERSION}.profdata"));
        fs::copy(&guide, &copy).map_err(Error::file(&guide))?;
    }
    let package = folder.join(format!("ferroxfs_{VERSION}_{ARCHITECTURE}.deb"));
    let image = folder.join(format!("ferroxfs-{VERSION}-oci.tar"));
    let dist = Dist { program, folder, package, image, epoch };
    let (name, package, target) = ("ferroxfs", "ferroxfs-cli", TARGET);
    let workspace = root.to_owned();
    let product = Product { name, file: &dist.program, workspace, package, target };
    let materials = materials::of(&product, &dist)?;
    let listed = dist.folder.join(format!("ferroxfs-{VERSION}.cdx.json"));
    write(&listed, &materials.text()?)?;
    package::build(root, &dist, &materials, &listed)?;
    image::build(root, &dist, &materials)?;
    if options.libraries || !options.quick {
        libraries::build(root, &dist, options)?;
    }
    notes::write(root, &dist)?;
    checksums(&dist)?;
    Ok(dist)
}

/// Returns the timestamp of the files: the value of `SOURCE_DATE_EPOCH`, or the time of the last
/// commit.
fn epoch(root: &Path) -> Result<String, Error> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(root);
    let printed = command::output(&mut git).map_err(|_| Error::NoEpoch)?;
    Ok(printed.trim().to_owned())
}

/// Writes SHA256SUMS, the checksums of all files, in the format that sha256sum(1) checks.
fn checksums(dist: &Dist) -> Result<(), Error> {
    let names = dist.names()?;
    let mut sums = Command::new("sha256sum");
    let printed = command::output(sums.arg("--").args(&names).current_dir(&dist.folder))?;
    write(&dist.folder.join("SHA256SUMS"), &printed)?;
    let mut check = Command::new("sha256sum");
    command::run(check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&dist.folder))
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::file(path))
}
