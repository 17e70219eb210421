use super::check;
use crate::tidy::File;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn findings(files: &[File]) -> Vec<String> {
    check(files).iter().map(ToString::to_string).collect()
}

const HEADER: &str = "//! A log.\n//!\n//! - **I1** Pinned once.\n//! - I2: Moves forward.\n";

#[test]
fn uncited_invariants_are_found() {
    let expected = |number: usize, line| {
        format!("a/src/log.rs:{line}: I{number} is cited by no assert, check or test of the module")
    };
    assert_eq!(findings(&[file("a/src/log.rs", HEADER)]), [expected(1, 3), expected(2, 4)]);
    let elsewhere = file("a/src/tail.rs", "// I1 and I2\n");
    assert_eq!(findings(&[file("a/src/log.rs", HEADER), elsewhere]).len(), 2);
}

#[test]
fn module_and_the_modules_below_it_cite() {
    let module = format!("{HEADER}assert!(pins == 1, \"I1: pinned once\");\n");
    let tests = file("a/src/log/tests.rs", "/// I2.\n");
    assert_eq!(findings(&[file("a/src/log.rs", &module), tests]), [""; 0]);
}

#[test]
fn crate_root_is_cited_by_its_crate() {
    let cites = file("a/tests/it/main.rs", "// I1, I2\n");
    assert_eq!(findings(&[file("a/src/lib.rs", HEADER), cites]), [""; 0]);
}

#[test]
fn longer_number_is_another_invariant() {
    let module = format!("{HEADER}// I10 and I2\n");
    assert_eq!(findings(&[file("a/src/log.rs", &module)]).len(), 1);
}
