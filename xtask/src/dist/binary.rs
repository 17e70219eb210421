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
const LARGEST_KIB: u64 = 32 << 10;
/// The size limit of a binary built with `--quick`, which optimises less. The Parquet reader of
/// `diff` is not optimised there.
const LARGEST_QUICK_KIB: u64 = 44 << 10;

/// Installs what the target requires: its standard library and a C compiler.
pub(super) fn install() -> Result<(), Error> {
    install_target()?;
    install_compiler()
}

/// Compiles the binary and returns its path. `guide` is the profile that guides the compiler.
pub(super) fn build(root: &Path, options: Options, guide: Option<&Path>) -> Result<PathBuf, Error> {
    // Not `target`: cargo keeps what it builds for this machine in a folder with the name of its
    // profile, which is the folder of our files.
    let folder = root.join(if options.quick { "target" } else { "target/dist-build" });
    let guided = guide.map(|profile| format!("-Cprofile-use={}", profile.display()));
    let flags = guided.as_deref().unwrap_or_default();
    build_program(root, &folder, command::cargo(), options.profile(), flags)?;
    Ok(folder.join(TARGET).join(options.profile()).join("ferroxfs"))
}

/// Compiles the binary into `folder` so that it counts how often its branches run. Returns its
/// path. It is not optimised across crates: the counts are of the functions before that step.
pub(super) fn build_instrumented(root: &Path, folder: &Path) -> Result<PathBuf, Error> {
    let mut cargo = command::cargo();
    cargo.env("CARGO_PROFILE_DIST_LTO", "false").env("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16");
    build_program(root, folder, cargo, "dist", "-Cprofile-generate")?;
    Ok(folder.join(TARGET).join("dist").join("ferroxfs"))
}

/// Returns the command that compiles the test `instructions` as `--quick` compiles the binary, and
/// runs it. The package of the binary is named too, so that crates have the same features: few are
/// compiled if the binary is there.
pub(crate) fn count_instructions(root: &Path) -> Result<Command, Error> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--test", "instructions"]);
    cargo.args(["--package", "xfs-workload", "--package", "ferroxfs-cli"]);
    set_target(root, &mut cargo, &root.join("target"), "quick", "")?;
    Ok(cargo)
}

/// Compiles the binary into `folder` with a profile of cargo. `flags` are further options of the
/// compiler of Rust.
fn build_program(
    root: &Path,
    folder: &Path,
    mut cargo: Command,
    profile: &str,
    flags: &str,
) -> Result<(), Error> {
    install()?;
    cargo.args(["build", "--package", "ferroxfs-cli"]);
    set_target(root, &mut cargo, folder, profile, flags)?;
    command::run(&mut cargo)
}

/// Lets a command of cargo compile for the target of the binary, into `folder`.
fn set_target(
    root: &Path,
    cargo: &mut Command,
    folder: &Path,
    profile: &str,
    flags: &str,
) -> Result<(), Error> {
    cargo.args(["--locked", "--target", TARGET]);
    cargo.args(["--profile", profile, "--target-dir"]).arg(folder);
    let [rust, c] = remapped(root)?;
    cargo.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS", format!("{rust} {flags}"));
    cargo.env("CFLAGS_x86_64_unknown_linux_musl", c);
    cargo.current_dir(root);
    Ok(())
}

/// Returns the paths of this machine's folders that compilers would write into what they make, each
/// with the fixed name that replaces it. The sources of the standard library have the name that
/// they have where the toolchain comes without its sources.
fn replaced(root: &Path) -> Result<[(String, String); 3], Error> {
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let sysroot = command::output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let version = command::output(Command::new("rustc").args(["--verbose", "--version"]))?;
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    let commit = commit.ok_or_else(|| Error::Dist("rustc names no commit".to_owned()))?;
    Ok([
        (cargo, "/cargo".to_owned()),
        (root.display().to_string(), "/ferroxfs".to_owned()),
        (format!("{}/lib/rustlib/src/rust", sysroot.trim()), format!("/rustc/{commit}")),
    ])
}

/// Returns the options of the compilers of Rust and C that replace these paths.
fn remapped(root: &Path) -> Result<[String; 2], Error> {
    let replaced = replaced(root)?;
    Ok(["--remap-path-prefix=", "-ffile-prefix-map="].map(|flag| {
        let options = replaced.iter().map(|(path, name)| format!("{flag}{path}={name}"));
        options.collect::<Vec<_>>().join(" ")
    }))
}

/// Lets a build for this machine write no path of this machine into what it makes.
pub(crate) fn hide_paths(command: &mut Command, root: &Path) -> Result<(), Error> {
    let [rust, c] = remapped(root)?;
    command.env("RUSTFLAGS", rust).env("CFLAGS", c);
    Ok(())
}

/// Checks that a program or library has no path of this machine.
pub(super) fn check_paths(program: &Path, root: &Path) -> Result<(), Error> {
    for (path, _) in replaced(root)? {
        let mut grep = Command::new("grep");
        grep.args(["--quiet", "--text", "--fixed-strings", "-e", &format!("{path}/")]).arg(program);
        if command::whole_output(&mut grep)?.status.code() != Some(1) {
            return Err(Error::Dist(format!("{}: names a file in {path}", program.display())));
        }
    }
    Ok(())
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

/// Checks that the binary is static, stripped, not too large, and without paths of this machine.
pub(super) fn check(program: &Path, root: &Path, options: Options) -> Result<(), Error> {
    check_paths(program, root)?;
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

    use super::{LARGEST_KIB, check_paths, remapped};

    #[test]
    fn program_with_a_path_of_this_machine_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("program");
        let root = Path::new("/somewhere/ferroxfs");
        fs::write(&program, b"\0/rustc/0/library/std/src/io.rs\0/ferroxfs/crates/\0").unwrap();
        check_paths(&program, root).unwrap();
        fs::write(&program, b"\0/somewhere/ferroxfs/crates/xfs-log/src/lib.rs\0").unwrap();
        let error = check_paths(&program, root).unwrap_err().to_string();
        assert!(error.ends_with("program: names a file in /somewhere/ferroxfs"), "{error}");
    }

    #[test]
    fn options_of_both_compilers_name_the_checkout() {
        let [rust, c] = remapped(Path::new("/somewhere")).unwrap();
        assert!(rust.contains("--remap-path-prefix=/somewhere=/ferroxfs"), "{rust}");
        assert!(rust.contains("/lib/rustlib/src/rust=/rustc/"), "{rust}");
        assert!(c.contains("-ffile-prefix-map=/somewhere=/ferroxfs"), "{c}");
    }

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
