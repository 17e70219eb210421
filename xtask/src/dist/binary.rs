//! Compiles the static binary, and checks that it is static and not too large.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Options, TARGET};
use crate::command;
use crate::error::Error;
use crate::packages;

/// The compiler for the C code in some crates, and the Debian package that contains it.
const C_COMPILER: (&str, &str) = ("musl-gcc", "musl-tools");

/// The size limit of the binary, which docs/install.md states. The check against it catches a
/// dependency that makes the binary too large.
const LARGEST_KIB: u64 = 20 << 10;
/// The size limit of a binary built with `--quick`, which optimises less. The Parquet reader of
/// `diff` is not optimised there.
const LARGEST_QUICK_KIB: u64 = 44 << 10;

/// Installs what the target requires: its standard library and a C compiler.
pub(super) fn install() -> Result<(), Error> {
    install_target()?;
    install_compiler()
}

/// Compiles the binary and returns its path.
pub(super) fn build(root: &Path, options: Options) -> Result<PathBuf, Error> {
    install()?;
    let mut cargo = command::cargo();
    cargo.args(["build", "--locked", "--package", "ferroxfs-cli", "--target", TARGET]);
    cargo.args(["--target-dir", "target", "--profile", options.profile()]);
    let (rust, c) = (remapped("--remap-path-prefix=", root), remapped("-ffile-prefix-map=", root));
    cargo.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", rust);
    cargo.env("CFLAGS_x86_64_unknown_linux_musl", c);
    command::run(cargo.current_dir(root))?;
    Ok(root.join("target").join(TARGET).join(options.profile()).join("ferroxfs"))
}

/// Returns compiler options that replace the paths of this machine's folders in the binary by fixed
/// names. Each option begins with `flag`.
fn remapped(flag: &str, root: &Path) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    format!("{flag}{cargo}=/cargo {flag}{}=/ferroxfs", root.display())
}

/// Lets a build for this machine write no path of this machine into what it makes.
pub(crate) fn hide_paths(command: &mut Command, root: &Path) {
    command.env("RUSTFLAGS", remapped("--remap-path-prefix=", root));
    command.env("CFLAGS", remapped("-ffile-prefix-map=", root));
}

/// Adds the target's standard library to the toolchain that runs xtask.
fn install_target() -> Result<(), Error> {
    let mut rustc = Command::new("rustc");
    let printed = rustc.args(["--print", "target-libdir", "--target", TARGET]);
    let libraries = PathBuf::from(command::output(printed)?.trim());
    if libraries.exists() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    command::run(rustup.args(["target", "add", TARGET]))
}

fn install_compiler() -> Result<(), Error> {
    let (program, package) = C_COMPILER;
    if command::is_in_path(program) {
        return Ok(());
    }
    if !command::is_root() {
        return Err(Error::Missing { program, package });
    }
    packages::apt_get_install(&[package])
}

/// Checks that the binary is static, stripped and not too large.
pub(super) fn check(program: &Path, options: Options) -> Result<(), Error> {
    let mut readelf = Command::new("readelf");
    let printed = command::output(readelf.args(["--wide", "--headers", "--dynamic"]).arg(program))?;
    for (mark, fault) in FAULTS {
        if printed.contains(mark) {
            return Err(Error::Dist(format!("{}: {fault}", program.display())));
        }
    }
    let bytes = fs::metadata(program).map_err(Error::file(program))?.len();
    let most_kib = if options.quick { LARGEST_QUICK_KIB } else { LARGEST_KIB };
    println!("{}: {} KiB, of at most {most_kib} KiB", program.display(), bytes.div_ceil(1024));
    if bytes > most_kib << 10 {
        let rule = "is larger than its bound in xtask/src/dist/binary.rs";
        return Err(Error::Dist(format!("{}: {rule}", program.display())));
    }
    Ok(())
}

/// Words in the output of readelf that reveal a binary that is not static or not stripped. The
/// second text of each pair describes the fault, for the message.
const FAULTS: [(&str, &str); 4] = [
    ("Requesting program interpreter", "asks for an interpreter"),
    ("(NEEDED)", "needs a shared library"),
    (".symtab", "has a symbol table"),
    (".debug_", "has debug information"),
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::LARGEST_KIB;

    #[test]
    fn bound_is_the_one_that_the_documents_state() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let bound = format!("at most {} MiB", LARGEST_KIB >> 10);
        for document in ["README.md", "docs/install.md"] {
            let text = fs::read_to_string(root.join(document)).unwrap();
            assert!(text.contains(&bound), "{document} does not say {bound}");
        }
    }
}
