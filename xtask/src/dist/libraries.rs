//! The C library as an archive, and the Python module as a wheel, each with its bill of materials.
//!
//! Owns: the contents of the archive, and its trial. Does **not** own: building the libraries
//! (`xtask/src/c.rs`, `xtask/src/python.rs`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::archive::{Archive, gzip};
use super::materials::{self, Materials, Product};
use super::{Dist, Options, VERSION, binary, licences, write};
use crate::c;
use crate::command;
use crate::error::Error;
use crate::python;

/// The target of this machine's toolchain, for which both are built.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// The folders of the archive of the C library.
const FOLDERS: [&str; 6] =
    ["include", "lib", "lib/pkgconfig", "share", "share/doc", "share/doc/ferroxfs"];
const DOCUMENTS: &str = "share/doc/ferroxfs";

/// Builds both and tries the archive.
pub(super) fn build(root: &Path, dist: &Dist, options: Options) -> Result<(), Error> {
    let archive = c_library(root, dist, options)?;
    try_archive(root, dist, &archive)?;
    wheel(root, dist, options)
}

/// Builds the C library and packs it. Returns the path of the archive.
fn c_library(root: &Path, dist: &Dist, options: Options) -> Result<PathBuf, Error> {
    let prefix = dist.folder.join("c");
    c::run(root, &c::Options::handed_out(prefix.clone(), options))?;
    let shared = prefix.join(format!("lib/libferroxfs.so.{VERSION}"));
    let fixed = prefix.join("lib/libferroxfs.a");
    let mut strip = Command::new("strip");
    command::run(strip.args(["--strip-debug", "--enable-deterministic-archives"]).arg(&fixed))?;
    for library in [&shared, &fixed] {
        binary::check_paths(library, root)?;
    }
    let materials = materials::of(
        &Product {
            name: "libferroxfs",
            file: &shared,
            workspace: root.to_owned(),
            package: "ferroxfs-c",
            target: HOST,
        },
        dist,
    )?;
    let bill = dist.folder.join(format!("libferroxfs-{VERSION}.cdx.json"));
    write(&bill, &materials.text()?)?;
    let top = format!("libferroxfs-{VERSION}-{HOST}");
    let packed = dist.folder.join(format!("{top}.tar.gz"));
    let bytes = gzip(&packed_library(root, dist, &prefix, &materials)?)?;
    fs::write(&packed, bytes).map_err(Error::file(&packed))?;
    fs::remove_dir_all(&prefix).map_err(Error::file(&prefix))?;
    Ok(packed)
}

/// Returns the archive of the library in `prefix`, before its compression.
fn packed_library(
    root: &Path,
    dist: &Dist,
    prefix: &Path,
    materials: &Materials,
) -> Result<Vec<u8>, Error> {
    let top = format!("libferroxfs-{VERSION}-{HOST}");
    let mut archive = Archive::new(dist.seconds()?);
    archive.folder(&top)?;
    for folder in FOLDERS {
        archive.folder(&format!("{top}/{folder}"))?;
    }
    let read = |path: PathBuf| fs::read(&path).map_err(Error::file(path));
    let full = format!("libferroxfs.so.{VERSION}");
    archive.file(&format!("{top}/lib/{full}"), 0o755, &read(prefix.join("lib").join(&full))?)?;
    for (name, target) in [(c::SONAME, full.as_str()), ("libferroxfs.so", c::SONAME)] {
        archive.link(&format!("{top}/lib/{name}"), target)?;
    }
    for path in ["include/ferroxfs.h", "lib/libferroxfs.a"] {
        archive.file(&format!("{top}/{path}"), 0o644, &read(prefix.join(path))?)?;
    }
    // pkg-config replaces the variable by the folder of this file, wherever a user unpacks it.
    let description = c::package_file("${pcfiledir}/../..");
    archive.file(&format!("{top}/lib/pkgconfig/ferroxfs.pc"), 0o644, description.as_bytes())?;
    let tour = root.join("crates/ferroxfs-c/examples/tour.c");
    archive.file(&format!("{top}/{DOCUMENTS}/tour.c"), 0o644, &read(tour)?)?;
    let documents =
        [("copyright", licences::ours(root)?), ("licences", licences::texts(materials)?)];
    for (name, text) in documents {
        archive.file(&format!("{top}/{DOCUMENTS}/{name}"), 0o644, text.as_bytes())?;
    }
    archive.bytes()
}

/// Unpacks the archive. Then compiles and runs the example with it.
fn try_archive(root: &Path, dist: &Dist, archive: &Path) -> Result<(), Error> {
    let folder = dist.folder.join("unpacked");
    fs::create_dir_all(&folder).map_err(Error::file(&folder))?;
    command::run(Command::new("tar").arg("-xzf").arg(archive).current_dir(&folder))?;
    c::try_example(root, &folder.join(format!("libferroxfs-{VERSION}-{HOST}")))?;
    fs::remove_dir_all(&folder).map_err(Error::file(&folder))
}

/// Builds the wheel, and writes its bill and the licences of the crates in it.
fn wheel(root: &Path, dist: &Dist, options: Options) -> Result<(), Error> {
    let built = python::wheel(root, options)?;
    let wheel = dist.folder.join(built.file_name().unwrap_or_default());
    fs::copy(&built, &wheel).map_err(Error::file(&built))?;
    let materials = materials::of(
        &Product {
            name: "ferroxfs for Python",
            file: &wheel,
            workspace: root.join("crates/ferroxfs-py"),
            package: "ferroxfs-py",
            target: HOST,
        },
        dist,
    )?;
    let name = format!("ferroxfs-python-{VERSION}");
    write(&dist.folder.join(format!("{name}.cdx.json")), &materials.text()?)?;
    write(&dist.folder.join(format!("{name}-licences.txt")), &licences::texts(&materials)?)
}
