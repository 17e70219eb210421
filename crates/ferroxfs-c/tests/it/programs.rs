//! Programs in C, compiled with the system's compiler, run alone and under valgrind.
//!
//! A machine without a C compiler or without valgrind leaves out what needs it, and says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Exit status that valgrind returns if it has found a mistake.
const FINDING: &str = "99";

/// The library that a program is linked with.
enum Linked {
    Shared,
    Static,
}

#[test]
fn tour_writes_lists_and_reads() {
    let Some(program) = Program::compile("examples/tour.c", &Linked::Shared) else { return };
    let image = program.folder.path().join("new.img");
    let printed = checked(program.run(&[&image]));
    let expected = "\
as expected: file exists
040755     47 etc
100644      4   hostname
100644      8   issue
120777      8   name
/etc/name: box
user.origin=tour
";
    assert_eq!(printed, expected);
    let again = program.run(&[&image]);
    assert_eq!(again.status.code(), Some(1), "an existing image is not overwritten");
}

#[test]
fn tour_has_no_finding_of_valgrind() {
    let Some(program) = Program::compile("examples/tour.c", &Linked::Shared) else { return };
    program.run_under_valgrind(&[&program.folder.path().join("new.img")]);
}

#[test]
fn two_threads_change_one_volume() {
    let Some(program) = Program::compile("tests/it/threads.c", &Linked::Shared) else { return };
    let printed = checked(program.run(&[&program.folder.path().join("new.img")]));
    assert_eq!(printed, "2 threads\n");
    program.run_under_valgrind(&[&program.folder.path().join("other.img")]);
}

#[test]
fn device_of_the_caller_and_wrong_arguments_are_served() {
    let Some(program) = Program::compile("tests/it/callbacks.c", &Linked::Static) else { return };
    assert_eq!(checked(program.run(&[])), "callbacks\n");
}

struct Program {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Program {
    /// Compiles a source file of this package. `None`: the machine has no C compiler.
    fn compile(source: &str, linked: &Linked) -> Option<Self> {
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        if Command::new(&compiler).arg("--version").output().is_err() {
            println!("skipped {source}: there is no C compiler");
            return None;
        }
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = library_folder();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut cc = Command::new(compiler);
        cc.args(["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-O1"]);
        cc.arg("-I").arg(package.join("include")).arg(package.join(source)).arg("-o").arg(&path);
        match linked {
            Linked::Shared => cc.arg(library.join("libferroxfs_c.so")),
            Linked::Static => cc.arg(library.join("libferroxfs_c.a")).args(["-ldl", "-lm"]),
        };
        cc.arg("-pthread").arg(format!("-Wl,-rpath,{}", library.display()));
        checked(cc.output().unwrap());
        Some(Self { folder, path })
    }

    fn run(&self, arguments: &[&Path]) -> Output {
        Command::new(&self.path).args(arguments).output().unwrap()
    }

    /// Runs the program under memcheck: no wrong access, and no lost memory.
    fn run_under_valgrind(&self, arguments: &[&Path]) {
        if Command::new("valgrind").arg("--version").output().is_err() {
            println!("skipped {}: there is no valgrind", self.path.display());
            return;
        }
        let mut valgrind = Command::new("valgrind");
        valgrind.args([
            "--quiet",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite,indirect",
        ]);
        valgrind.args(["--fair-sched=yes", &format!("--error-exitcode={FINDING}")]);
        checked(valgrind.arg(&self.path).args(arguments).output().unwrap());
    }
}

/// Returns the folder of the libraries that cargo has built for this test.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_path_buf()
}

/// Returns the standard output of a program that must have succeeded.
fn checked(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{printed}{errors}", output.status);
    printed
}
